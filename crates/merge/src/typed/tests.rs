use super::*;
use crate::test_schema::{deployment, field, integer, keyed, link, list, map, object, text};
use proptest::prelude::*;
use schema::{Link, ListKind, Shape};
use serde_json::json;

fn root(link: Link) -> Schema {
    link.get().clone()
}

/// Every kind of container side by side.
fn kinds() -> Schema {
    let item = || object(vec![("name", field(text())), ("value", field(integer()))]);
    root(object(vec![
        ("text", field(text())),
        ("number", field(integer())),
        ("flag", field(link(Shape::Boolean))),
        ("set", field(list(text(), ListKind::Set))),
        ("items", field(keyed(item(), &["name"]))),
        ("pairs", field(keyed(object(vec![("a", field(text())), ("b", field(text()))]), &["a", "b"]))),
        ("atomic", field(list(item(), ListKind::Atomic))),
        ("map", field(map(integer()))),
        ("atomicMap", field(link(Shape::Map { values: text(), atomic: true }))),
        ("inner", field(object(vec![("text", field(text())), ("map", field(map(text())))]))),
        ("any", field(link(Shape::Any))),
    ]))
}

#[test]
fn values_hold_leaves_and_items() {
    let check = |value: Value, lines: &[&str]| {
        assert_eq!(extract(&kinds(), &value).to_string(), lines.join("\n"), "{value}");
    };
    check(json!({"text": "a", "number": 1}), &[".number", ".text"]);
    check(json!({"inner": {"text": "a"}}), &[".inner.text"]);
    check(json!({"inner": {}}), &[".inner"]);
    check(json!({"inner": null}), &[".inner"]);
    check(json!({"text": null}), &[".text"]);
    check(json!({"set": ["b", "a"]}), &[".set[=\"a\"]", ".set[=\"b\"]"]);
    check(json!({"set": []}), &[]);
    check(json!({"set": null}), &[".set"]);
    check(
        json!({"items": [{"name": "x", "value": 1}]}),
        &[".items[name=\"x\"]", ".items[name=\"x\"].name", ".items[name=\"x\"].value"],
    );
    check(json!({"items": [{"name": "x", "value": 1}, {"name": "x"}]}), &[".items[name=\"x\"]"]);
    check(json!({"atomic": [{"name": "x"}]}), &[".atomic"]);
    check(json!({"atomic": []}), &[".atomic"]);
    check(json!({"map": {"k": 1}}), &[".map.k"]);
    check(json!({"atomicMap": {"k": "v"}}), &[".atomicMap"]);
    check(json!({"any": {"a": {"b": 1}, "c": [1]}}), &[".any.a", ".any.c", ".any.a.b"]);
    check(
        json!({"pairs": [{"a": "1"}, {"a": "1", "b": "2"}]}),
        &[
            ".pairs[a=\"1\"]",
            ".pairs[a=\"1\",b=\"2\"]",
            ".pairs[a=\"1\"].a",
            ".pairs[a=\"1\",b=\"2\"].a",
            ".pairs[a=\"1\",b=\"2\"].b",
        ],
    );
}

#[test]
fn absent_keys_are_defaulted() {
    let ports = |ports: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "ports": ports}]}}}});
    let set = extract(&deployment(), &ports(json!([{"containerPort": 80}])));
    let lines = set.to_string();
    assert!(lines.contains(".ports[containerPort=80,protocol=\"TCP\"].containerPort"), "{lines}");
    let same = compare(
        &deployment(),
        &ports(json!([{"containerPort": 80, "protocol": "TCP"}])),
        &ports(json!([{"containerPort": 80}])),
    );
    assert_eq!(
        same.removed.to_string(),
        ".spec.template.spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"].protocol"
    );
}

#[test]
fn values_differ_field_by_field() {
    let check = |old: Value, new: Value, added: &[&str], modified: &[&str], removed: &[&str]| {
        let change = compare(&kinds(), &old, &new);
        assert_eq!(change.added.to_string(), added.join("\n"), "added, {old} -> {new}");
        assert_eq!(change.modified.to_string(), modified.join("\n"), "modified, {old} -> {new}");
        assert_eq!(change.removed.to_string(), removed.join("\n"), "removed, {old} -> {new}");
    };
    check(json!({"text": "a"}), json!({"text": "a"}), &[], &[], &[]);
    check(json!({"text": "a"}), json!({"text": "b", "number": 1}), &[".number"], &[".text"], &[]);
    check(json!({"number": 1}), json!({"number": 1.0}), &[], &[], &[]);
    check(json!({"text": "a"}), json!({}), &[], &[], &[".text"]);
    check(json!({"text": "a"}), json!({"text": null}), &[], &[".text"], &[]);
    check(json!({}), json!({"inner": {"text": "a"}}), &[".inner", ".inner.text"], &[], &[]);
    check(json!({"inner": {}}), json!({"inner": {"text": "a"}}), &[".inner.text"], &[], &[]);
    check(json!({"set": ["a", "b"]}), json!({"set": ["c", "b"]}), &[".set[=\"c\"]"], &[], &[".set[=\"a\"]"]);
    check(
        json!({"items": [{"name": "x", "value": 1}]}),
        json!({"items": [{"name": "y"}, {"name": "x", "value": 2}]}),
        &[".items[name=\"y\"]", ".items[name=\"y\"].name"],
        &[".items[name=\"x\"].value"],
        &[],
    );
    check(json!({"atomic": [{"name": "x"}]}), json!({"atomic": [{"name": "y"}]}), &[], &[".atomic"], &[]);
    check(json!({"map": {"a": 1, "b": 1}}), json!({"map": {"a": 2}}), &[], &[".map.a"], &[".map.b"]);
    check(json!({"any": 1}), json!({"any": {"a": 1}}), &[".any.a"], &[".any"], &[]);
    check(
        json!({"items": [{"name": "x"}, {"name": "x"}]}),
        json!({"items": [{"name": "x"}]}),
        &[".items[name=\"x\"]", ".items[name=\"x\"].name"],
        &[],
        &[".items[name=\"x\"]"],
    );
    check(json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "a"]}), &[], &[".set[=\"a\"]"], &[]);
}

#[test]
fn partial_values_merge() {
    let check = |live: Value, config: Value, expected: Value| {
        let mut merged = live.clone();
        merge(&kinds(), &mut merged, &config);
        assert_eq!(merged, expected, "{live} <- {config}");
    };
    check(json!({"text": "a", "number": 1}), json!({"text": "b"}), json!({"text": "b", "number": 1}));
    check(
        json!({"inner": {"map": {"a": "1"}}}),
        json!({"inner": {"map": {"b": "2"}}}),
        json!({"inner": {"map": {"a": "1", "b": "2"}}}),
    );
    check(json!({"inner": {"text": "a"}}), json!({"inner": null}), json!({"inner": {"text": "a"}}));
    check(json!({"inner": {"text": "a"}}), json!({"inner": {}}), json!({"inner": {"text": "a"}}));
    check(json!({"text": "a"}), json!({"text": null}), json!({"text": null}));
    check(json!({"atomic": [{"name": "x"}]}), json!({"atomic": [{"name": "y"}]}), json!({"atomic": [{"name": "y"}]}));
    check(json!({"atomicMap": {"a": "1"}}), json!({"atomicMap": {"b": "1"}}), json!({"atomicMap": {"b": "1"}}));
    check(json!({"any": {"a": [1]}}), json!({"any": {"a": [2], "b": 1}}), json!({"any": {"a": [2], "b": 1}}));
    check(json!({"any": [1]}), json!({"any": {"a": 1}}), json!({"any": {"a": 1}}));
}

#[test]
fn merged_lists_keep_both_orders() {
    let check = |live: &str, config: &str, expected: &str| {
        let list = |text: &str| json!({"set": text.chars().map(String::from).collect::<Vec<_>>()});
        let mut merged = list(live);
        merge(&kinds(), &mut merged, &list(config));
        assert_eq!(merged, list(expected), "{live} <- {config}");
    };
    check("abc", "b", "abc");
    check("abc", "ca", "bca");
    check("abc", "cba", "cba");
    check("abc", "d", "abcd");
    check("abc", "da", "dabc");
    check("ab", "acb", "acb");
    check("abcd", "xd", "abcxd");
    check("aabc", "a", "abc");
    check("", "ba", "ba");
    check("abcde", "edx", "abcedx");
}

#[test]
fn removal_leaves_null_where_nothing_is_left() {
    let check = |value: Value, paths: &[&[&str]], expected: Value| {
        let mut left = value;
        remove_items(&kinds(), &mut left, &FieldSet::of_fields(paths));
        assert_eq!(left, expected);
    };
    check(json!({"text": "a", "number": 1}), &[&["text"]], json!({"number": 1}));
    check(json!({"inner": {"text": "a"}, "text": "b"}), &[&["inner", "text"]], json!({"inner": null, "text": "b"}));
    check(json!({"text": "a"}), &[&["absent"]], json!({"text": "a"}));
    let mut items = json!({"items": [{"name": "x", "value": 1}, {"name": "y"}], "set": ["a"]});
    let drop =
        json!({"f:items": {"k:{\"name\":\"x\"}": {"f:value": {}}, "k:{\"name\":\"y\"}": {}}, "f:set": {"v:\"a\"": {}}});
    remove_items(&kinds(), &mut items, &FieldSet::from_value(&drop).expect("valid"));
    assert_eq!(items, json!({"items": [{"name": "x"}], "set": null}));
    drop_nulls(&kinds(), &mut items);
    assert_eq!(items, json!({"items": [{"name": "x"}]}));
}

#[test]
fn faults_read_like_upstream() {
    let check = |value: Value, lines: &[&str]| {
        let faults: Vec<String> = super::check(&kinds(), &value).iter().map(ToString::to_string).collect();
        assert_eq!(faults, lines, "{value}");
    };
    check(json!({"text": "a", "inner": null, "set": null}), &[]);
    check(json!({"foo": 1}), &[".foo: field not declared in schema"]);
    check(json!({"number": "a"}), &[".number: expected numeric (int or float), got string"]);
    check(json!({"text": 1}), &[".text: expected string, got &value.valueUnstructured{Value:1}"]);
    check(json!({"flag": "yes"}), &[".flag: expected boolean, got &{yes}"]);
    check(json!({"items": {"a": 1}}), &[".items: expected list, got &{map[a:1]}"]);
    check(json!({"inner": "x"}), &[".inner: expected map, got &{x}"]);
    check(json!({"items": [{"name": "x"}, {"name": "x"}]}), &[".items: duplicate entries for key [name=\"x\"]"]);
    check(json!({"set": ["a", "a"]}), &[".set: duplicate entries for key [=\"a\"]"]);
    check(
        json!({"items": [{"value": 1}]}),
        &[".items: element 0: associative list with keys has an element that omits all key fields [\"name\"] \
         (and doesn't have default values for any key fields)"],
    );
    check(json!({"items": [null]}), &[".items: element 0: associative list with keys may not have a null element"]);
    check(json!({"items": [{"name": "x", "foo": 1}]}), &[".items[name=\"x\"].foo: field not declared in schema"]);
    check(json!({"atomic": [{"foo": 1}]}), &[".atomic[0].foo: field not declared in schema"]);
    assert!(super::check(&kinds(), &json!({"any": {"a": [1, {"b": null}]}})).is_empty());
}

#[test]
fn sets_from_finer_schemas_are_coarsened() {
    let wire = json!({"f:atomicMap": {"f:a": {}}, "f:atomic": {"k:{\"name\":\"x\"}": {".": {}}}, "f:map": {"f:a": {}}});
    let mut set = FieldSet::from_value(&wire).expect("valid");
    reconcile(Type::Object(&kinds()), &mut set);
    assert_eq!(set.to_string(), ".atomic\n.atomicMap\n.map.a");
}

fn json_value() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["text", "number", "set", "items", "map", "inner", "any", "name", "value"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "c"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A valid partial object.
fn partial() -> impl Strategy<Value = Value> {
    let item = (prop::sample::select(vec!["x", "y", "z"]), prop::option::of(0..3i64));
    (
        prop::option::of(0..3i64),
        prop::option::of(prop::collection::btree_set(prop::sample::select(vec!["a", "b", "c", "d"]), 1..4)),
        prop::option::of(prop::collection::vec(item, 1..4)),
        prop::option::of(prop::collection::btree_map("[ab]", 0..3i64, 1..3)),
    )
        .prop_map(|(number, set, items, map)| {
            let mut out = serde_json::Map::new();
            number.map(|n| out.insert("number".into(), json!(n)));
            set.map(|s| out.insert("set".into(), json!(s)));
            items.map(|list| {
                let unique: std::collections::BTreeMap<&str, Option<i64>> = list.into_iter().collect();
                let list: Vec<Value> = unique
                    .into_iter()
                    .map(|(name, value)| match value {
                        Some(value) => json!({"name": name, "value": value}),
                        None => json!({"name": name}),
                    })
                    .collect();
                out.insert("items".into(), json!(list))
            });
            map.map(|m| out.insert("map".into(), json!(m)));
            Value::Object(out)
        })
}

proptest! {
    #[test]
    fn nothing_panics(old in json_value(), new in json_value()) {
        let schema = kinds();
        super::check(&schema, &old);
        let set = extract(&schema, &new);
        compare(&schema, &old, &new);
        let mut merged = old.clone();
        merge(&schema, &mut merged, &new);
        remove_items(&schema, &mut merged, &set);
        drop_nulls(&schema, &mut merged);
        prop_assert_eq!(FieldSet::from_value(&set.to_value()), Ok(set));
    }

    #[test]
    fn merged_values_hold_the_config(live in partial(), config in partial()) {
        let schema = kinds();
        let mut merged = live.clone();
        merge(&schema, &mut merged, &config);
        prop_assert!(super::check(&schema, &merged).is_empty());
        prop_assert!(extract(&schema, &config).is_subset(&extract(&schema, &merged)));
        prop_assert!(extract(&schema, &live).is_subset(&extract(&schema, &merged)));
        let mut again = merged.clone();
        merge(&schema, &mut again, &config);
        prop_assert_eq!(merged, again);
    }

    #[test]
    fn differences_explain_the_fields(old in partial(), new in partial()) {
        let schema = kinds();
        let change = compare(&schema, &old, &new);
        let (before, after) = (extract(&schema, &old), extract(&schema, &new));
        prop_assert!(after.clone().difference(&before).is_subset(&change.added.clone().union(change.modified.clone())));
        prop_assert_eq!(old == new, change.is_same());
        prop_assert!(before.difference(&after).is_subset(&change.removed));
    }
}
