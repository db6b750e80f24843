use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{Field, Link, ListKind, StringFormat};

fn link(schema: Schema) -> Link {
    Link::Inline(Arc::new(schema))
}

fn of(shape: Shape) -> Schema {
    Schema { shape, ..Schema::default() }
}

fn with(shape: Shape, facets: Facets) -> Schema {
    Schema { facets: Some(Box::new(facets)), ..of(shape) }
}

fn integer() -> Shape {
    Shape::Integer(IntFormat::Int64)
}

fn string() -> Shape {
    Shape::String(StringFormat::Plain)
}

/// An object with one field, `spec.x`.
fn holding(schema: Schema) -> Schema {
    object(vec![("spec", object(vec![("x", schema)]))])
}

fn object(fields: Vec<(&str, Schema)>) -> Schema {
    let fields = fields.into_iter().map(|(name, schema)| (name.into(), Field::new(link(schema)))).collect();
    of(Shape::Struct(Struct { fields, ..Struct::default() }))
}

#[track_caller]
fn expect(schema: Schema, x: Value, expected: &[&str]) {
    let errors = check(&holding(schema), &json!({"spec": {"x": x}}), &FieldPath::ROOT);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn types() {
    expect(
        of(integer()),
        json!("a"),
        &["spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\""],
    );
    expect(of(integer()), json!(1.0), &[]);
    expect(
        of(integer()),
        json!(1.5),
        &["spec.x: Invalid value: \"number\": spec.x in body must be of type integer: \"number\""],
    );
    expect(of(Shape::Number), json!(1), &[]);
    expect(of(Shape::IntOrString), json!("a"), &[]);
    expect(
        of(Shape::IntOrString),
        json!([]),
        &["spec.x: Invalid value: \"array\": spec.x in body must be of type integer,string: \"array\""],
    );
    expect(
        of(string()),
        Value::Null,
        &["spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\""],
    );
    expect(Schema { nullable: true, ..of(string()) }, Value::Null, &[]);
    expect(of(Shape::Any), json!({"a": [1]}), &[]);
}

#[test]
fn numbers() {
    let bounded = |minimum, maximum| with(integer(), Facets { minimum, maximum, ..Facets::default() });
    let low = "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1";
    expect(bounded(Some((1.0, false)), None), json!(0), &[low]);
    let high = "spec.x: Invalid value: 5: spec.x in body should be less than 5";
    expect(bounded(None, Some((5.0, true))), json!(5), &[high]);
    expect(bounded(Some((0.0, true)), Some((5.0, false))), json!(5), &[]);
    let multiple = with(integer(), Facets { multiple_of: Some(3.0), ..Facets::default() });
    expect(multiple.clone(), json!(9), &[]);
    expect(multiple, json!(10), &["spec.x: Invalid value: 10: spec.x in body should be a multiple of 3"]);
    let narrow = with(Shape::Integer(IntFormat::Int32), Facets { format: Some("int32".into()), ..Facets::default() });
    expect(
        narrow,
        json!(4_294_967_296_i64),
        &["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.x"],
    );
}

#[test]
fn texts() {
    let facets = |facets: Facets| with(string(), facets);
    let short = facets(Facets { min_length: Some(2), ..Facets::default() });
    expect(short, json!("é"), &["spec.x: Invalid value: \"é\": spec.x in body should be at least 2 chars long"]);
    let long = facets(Facets { max_length: Some(2), ..Facets::default() });
    expect(long, json!("abc"), &["spec.x: Too long: may not be more than 2 bytes"]);
    let pattern = facets(Facets { pattern: Some("^a+$".into()), ..Facets::default() });
    expect(pattern.clone(), json!("aa"), &[]);
    expect(pattern, json!("b"), &["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"]);
    let email = facets(Facets { format: Some("email".into()), ..Facets::default() });
    expect(email, json!("b"), &["spec.x: Invalid value: \"b\": spec.x in body must be of type email: \"b\""]);
    let choice = facets(Facets { enumeration: vec![json!("a"), json!("b")], ..Facets::default() });
    expect(choice.clone(), json!("a"), &[]);
    expect(choice, json!("c"), &["spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\""]);
}

#[test]
fn lists_and_maps() {
    let list = |kind, items| Shape::List { items: link(items), kind };
    let few = with(list(ListKind::Atomic, of(string())), Facets { min_items: Some(1), ..Facets::default() });
    expect(few, json!([]), &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"]);
    let many = with(list(ListKind::Atomic, of(string())), Facets { max_items: Some(1), ..Facets::default() });
    expect(
        many,
        json!(["a", 1]),
        &[
            "spec.x[1]: Invalid value: \"integer\": spec.x[1] in body must be of type string: \"integer\"",
            "spec.x: Too many: 2: must have at most 1 item",
        ],
    );
    expect(of(list(ListKind::Set, of(string()))), json!(["a", "b", "a", "a"]), &["spec.x[2]: Duplicate value: \"a\""]);
    let keyed = of(list(ListKind::Map(vec!["k".into()]), object(vec![("k", of(string()))])));
    expect(keyed, json!([{"k": "a"}, {"k": "a"}]), &["spec.x[1]: Duplicate value: {\"k\":\"a\"}"]);
    let map = of(Shape::Map { values: link(of(integer())), atomic: false });
    expect(
        map,
        json!({"k": "v"}),
        &["spec.x.k: Invalid value: \"string\": spec.x.k in body must be of type integer: \"string\""],
    );
}

#[test]
fn required_fields() {
    let mut schema = object(vec![("a", of(string()))]);
    if let Shape::Struct(body) = &mut schema.shape {
        body.required.push("a".into());
    }
    expect(schema, json!({}), &["spec.x.a: Required value"]);
}

#[test]
fn junctors() {
    let min = |n: f64| with(Shape::Any, Facets { minimum: Some((n, false)), ..Facets::default() });
    let any = with(integer(), Facets { any_of: vec![min(5.0), min(7.0)], ..Facets::default() });
    expect(any.clone(), json!(6), &[]);
    expect(
        any,
        json!(1),
        &[
            "<nil>: Invalid value: \"\": \"spec.x\" must validate at least one schema (anyOf)",
            "spec.x: Invalid value: 1: spec.x in body should be greater than or equal to 5",
        ],
    );
    let one = with(integer(), Facets { one_of: vec![min(5.0), min(7.0)], ..Facets::default() });
    expect(one.clone(), json!(6), &[]);
    expect(
        one,
        json!(8),
        &["<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). \
         Found 2 valid alternatives"],
    );
    let all = with(integer(), Facets { all_of: vec![min(5.0), min(7.0)], ..Facets::default() });
    expect(
        all,
        json!(6),
        &[
            "spec.x: Invalid value: 6: spec.x in body should be greater than or equal to 7",
            "<nil>: Invalid value: \"\": \"spec.x\" must validate all the schemas (allOf)",
        ],
    );
    let not = with(integer(), Facets { not: Some(Box::new(min(5.0))), ..Facets::default() });
    expect(not, json!(6), &["<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)"]);
}

#[test]
fn paths_below_a_base() {
    let base = FieldPath::ROOT.field("default");
    let errors = check(&of(Shape::List { items: link(of(string())), kind: ListKind::Atomic }), &json!([1]), &base);
    let expected = "default[0]: Invalid value: \"integer\": [0] in body must be of type string: \"integer\"";
    assert_eq!(errors[0].to_string(), expected);
}

#[test]
fn errors_are_bounded() {
    let list = of(Shape::List { items: link(of(string())), kind: ListKind::Set });
    let value = Value::Array(vec![json!(1); 10_000]);
    assert_eq!(check(&list, &value, &FieldPath::ROOT).len(), ERRORS_MAX);
}
