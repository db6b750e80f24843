use std::collections::BTreeMap;
use std::sync::Arc;

use schema::{Facets, Field, IntFormat, Link, StringFormat, Struct};
use serde_json::json;

use super::*;

fn rule(source: &str) -> Rule {
    Rule { rule: source.to_owned(), ..Rule::default() }
}

fn with_rules(shape: Shape, rules: Vec<Rule>) -> Schema {
    Schema { shape, facets: Some(Box::new(Facets { rules, ..Facets::default() })), ..Schema::default() }
}

fn field(schema: Schema) -> Field {
    Field::new(Link::Inline(Arc::new(schema)))
}

fn object(fields: Vec<(&str, Schema)>, rules: Vec<Rule>) -> Schema {
    let fields: BTreeMap<Box<str>, Field> = fields.into_iter().map(|(name, s)| (name.into(), field(s))).collect();
    with_rules(Shape::Struct(Struct { fields, ..Struct::default() }), rules)
}

fn int(rules: Vec<Rule>) -> Schema {
    with_rules(Shape::Integer(IntFormat::Int64), rules)
}

fn check(schema: &Schema, new: Value, old: Option<Value>, expected: &[&str]) {
    let found: Vec<String> = validate(schema, &new, old.as_ref()).errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn failed_rules_read_like_upstream() {
    let spec =
        object(vec![("min", int(vec![])), ("max", int(vec![rule("self < 10")]))], vec![rule("self.min <= self.max")]);
    let root = object(vec![("spec", spec)], vec![]);
    check(&root, json!({"spec": {"min": 1, "max": 2}}), None, &[]);
    check(
        &root,
        json!({"spec": {"min": 3, "max": 2}}),
        None,
        &["spec: Invalid value: failed rule: self.min <= self.max"],
    );
    check(
        &root,
        json!({"spec": {"min": 1, "max": 12}}),
        None,
        &["spec.max: Invalid value: 12: failed rule: self < 10"],
    );
    check(
        &root,
        json!({"spec": {"max": 2}}),
        None,
        &["spec: Invalid value: \"object\": no such key: min evaluating rule: self.min <= self.max"],
    );
}

#[test]
fn messages_reasons_and_paths() {
    let of = |change: &dyn Fn(&mut Rule)| {
        let mut rule = rule("self.n > 0");
        change(&mut rule);
        object(vec![("spec", object(vec![("n", int(vec![]))], vec![rule]))], vec![])
    };
    let bad = json!({"spec": {"n": 0}});
    check(&of(&|r| r.message = Some(" be positive ".into())), bad.clone(), None, &["spec: Invalid value: be positive"]);
    let expression = |r: &mut Rule| r.message_expression = Some("'n is ' + string(self.n)".into());
    check(&of(&expression), bad.clone(), None, &["spec: Invalid value: n is 0"]);
    let broken = |r: &mut Rule| {
        r.message = Some("plain".into());
        r.message_expression = Some("self.absent".into());
    };
    check(&of(&broken), bad.clone(), None, &["spec: Invalid value: plain"]);
    let forbidden = |r: &mut Rule| {
        r.reason = Some("FieldValueForbidden".into());
        r.field_path = Some(".n".into());
    };
    check(&of(&forbidden), bad, None, &["spec.n: Forbidden: failed rule: self.n > 0"]);
}

#[test]
fn transition_rules_need_a_stored_value() {
    let root = object(vec![("n", int(vec![rule("self >= oldSelf")]))], vec![]);
    check(&root, json!({"n": 1}), None, &[]);
    check(&root, json!({"n": 3}), Some(json!({"n": 2})), &[]);
    check(&root, json!({"n": 1}), Some(json!({"n": 2})), &["n: Invalid value: 1: failed rule: self >= oldSelf"]);
    let optional = Rule { optional_old_self: Some(true), ..rule("oldSelf.hasValue() || self == 1") };
    let root = object(vec![("n", int(vec![optional]))], vec![]);
    check(&root, json!({"n": 1}), None, &[]);
    check(&root, json!({"n": 2}), None, &["n: Invalid value: 2: failed rule: oldSelf.hasValue() || self == 1"]);
    check(&root, json!({"n": 2}), Some(json!({"n": 5})), &[]);
}

#[test]
fn keyed_lists_are_compared_by_key() {
    let item = object(
        vec![("name", with_rules(Shape::String(StringFormat::Plain), vec![])), ("n", int(vec![]))],
        vec![rule("self.n >= oldSelf.n")],
    );
    let list = Schema {
        shape: Shape::List { items: Link::Inline(Arc::new(item)), kind: ListKind::Map(vec!["name".into()]) },
        ..Schema::default()
    };
    let root = object(vec![("list", list)], vec![]);
    let entry = |name: &str, n: i64| json!({"name": name, "n": n});
    let old = json!({"list": [entry("a", 1), entry("b", 5)]});
    check(&root, json!({"list": [entry("b", 5), entry("a", 1), entry("c", 0)]}), Some(old.clone()), &[]);
    check(
        &root,
        json!({"list": [entry("b", 4)]}),
        Some(old),
        &["list[0]: Invalid value: failed rule: self.n >= oldSelf.n"],
    );
}

#[test]
fn what_has_not_changed_stays_with_a_warning() {
    let root = object(vec![("n", int(vec![rule("self > 0")])), ("m", int(vec![]))], vec![]);
    let outcome = validate(&root, &json!({"n": 0, "m": 2}), Some(&json!({"n": 0, "m": 1})));
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.warnings, ["n: Invalid value: 0: failed rule: self > 0"]);
}

#[test]
fn types_come_from_the_schema() {
    let facets = |format: &str| Facets { format: Some(format.into()), ..Facets::default() };
    let text = |format: &str| Schema {
        shape: Shape::String(StringFormat::Plain),
        facets: Some(Box::new(facets(format))),
        ..Schema::default()
    };
    let root = object(
        vec![
            ("at", text("date-time")),
            ("wait", text("duration")),
            ("x", Schema { shape: Shape::Number, ..Schema::default() }),
        ],
        vec![
            rule("self.at > timestamp('2026-01-01T00:00:00Z')"),
            rule("self.wait < duration('1h')"),
            rule("self.x == 1.0"),
        ],
    );
    check(&root, json!({"at": "2026-06-01T00:00:00Z", "wait": "5m", "x": 1}), None, &[]);
}

#[test]
fn expensive_rules_stop_everything() {
    let items = Link::Inline(Arc::new(int(vec![])));
    let list = with_rules(
        Shape::List { items, kind: ListKind::Atomic },
        vec![rule("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))")],
    );
    let numbers: Vec<i64> = (0..500).collect();
    let outcome = validate(&object(vec![("l", list)], vec![]), &json!({"l": numbers}), None);
    assert_eq!(outcome.errors.len(), 1);
    assert!(outcome.errors[0].detail.contains("actual cost limit exceeded"), "{:?}", outcome.errors);
}

#[test]
fn authors_are_told_at_once() {
    let found = |source: &str| check_rule(&rule(source), &FieldPath::ROOT);
    assert_eq!(found("self.a == 1"), []);
    assert_eq!(found("").len(), 1);
    assert!(found("self.a =")[0].detail.starts_with("compilation failed: "));
    assert!(found("other.a == 1")[0].detail.contains("undeclared reference to 'other'"));
}
