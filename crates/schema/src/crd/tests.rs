use meta::FieldPath;
use serde_json::{Value, json};

use crate::{ListKind, Schema, Shape, conform, crd, defaults, validate};

fn read(props: Value) -> Schema {
    crd::structural(&props, &FieldPath::ROOT).unwrap_or_else(|errors| panic!("{errors:?}"))
}

#[track_caller]
fn refused(props: Value, expected: &[&str]) {
    let path = FieldPath::ROOT.field("schema");
    let errors = crd::structural(&props, &path).expect_err("refused");
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
}

fn widget() -> Value {
    json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}},
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "note": {"type": "string", "nullable": true},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "open": {"type": "object", "additionalProperties": true},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}
        }}
    }})
}

#[test]
fn a_custom_resource_is_pruned_defaulted_and_validated() {
    let schema = read(widget());
    let sent = json!({
        "apiVersion": "x.io/v1", "kind": "Widget",
        "metadata": {"name": "w", "bogus": 1, "creationTimestamp": null},
        "spec": {
            "size": 2.0, "extra": 1, "note": null, "colour": null, "port": "http",
            "parts": [{"name": "a", "junk": true}],
            "free": {"x": {"y": 1}, "known": {"a": "b", "z": 1}},
            "open": {"scalar": 1, "object": {"gone": 1}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}, "no": 1}, "spec": {}}
        }
    });
    let conformed = conform(&schema, sent).expect("conforms");
    let mut value = conformed.value;
    defaults::apply(&schema, &mut value);
    let expected = json!({
        "apiVersion": "x.io/v1", "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {
            "size": 2, "note": null, "colour": "red", "port": "http",
            "parts": [{"name": "a", "count": 1}],
            "free": {"x": {"y": 1}, "known": {"a": "b"}},
            "open": {"scalar": 1, "object": {}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {}}
        }
    });
    assert_eq!(value, expected);
    let unknown = [
        "metadata.bogus",
        "spec.template.metadata.no",
        "spec.extra",
        "spec.free.known.z",
        "spec.open.object.gone",
        "spec.parts[0].junk",
    ];
    assert_eq!(conformed.unknown, unknown.map(|field| format!("unknown field \"{field}\"")));
    assert_eq!(validate::check(&schema, &value, &FieldPath::ROOT), []);
}

#[test]
fn faults_of_a_custom_resource() {
    let schema = read(widget());
    let value = json!({
        "metadata": {"name": "too-long"},
        "spec": {"size": 0, "colour": "green", "parts": [{"name": "a"}, {"name": "a"}, {}], "labels": {"a": 1}}
    });
    let errors = validate::check(&schema, &value, &FieldPath::ROOT);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = [
        "metadata.name: Too long: may not be more than 5 bytes",
        "spec.colour: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
        "spec.parts[2].name: Required value",
        "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        "spec.parts[1]: Duplicate value: {\"name\":\"a\"}",
    ];
    assert_eq!(found, expected);
}

#[test]
fn lists_and_links() {
    let schema = read(widget());
    let parts = schema.at(&["spec", "parts"]).expect("known");
    assert_eq!(parts.list_kind(), Some(&ListKind::Map(vec!["name".into()])));
    assert!(matches!(schema.at(&["spec", "port"]).expect("known").shape, Shape::IntOrString));
    let finalizers = schema.at(&["metadata", "finalizers"]).expect("known");
    assert_eq!(finalizers.list_kind(), Some(&ListKind::Set));
}

#[test]
fn structure_is_demanded() {
    refused(json!({}), &["schema.type: Required value: must not be empty at the root"]);
    refused(json!({"type": "string"}), &["schema.type: Invalid value: \"string\": must be object at the root"]);
    refused(
        json!({"type": "object", "properties": {"a": {}, "b": {"type": "array"}, "c": {"type": "array", "items": {}}}}),
        &[
            "schema.properties[a].type: Required value: must not be empty for specified object fields",
            "schema.properties[b].items: Required value: must be specified",
            "schema.properties[c].items.type: Required value: must not be empty for specified array items",
        ],
    );
    refused(
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        &["schema.additionalProperties: Forbidden: must not be used at the root"],
    );
    refused(
        json!({"type": "object",
            "anyOf": [{"type": "integer", "description": "x"}, {"properties": {"b": {"minimum": 1}}}]}),
        &[
            "schema.anyOf[0].description: Forbidden: must be empty to be structural",
            "schema.anyOf[0].type: Forbidden: must be empty to be structural",
            "schema.properties[b]: Required value: because it is defined in schema.anyOf[1].properties[b]",
        ],
    );
    refused(
        json!({"type": "object", "properties": {"metadata": {"type": "object",
            "properties": {"labels": {"type": "object"}}}}}),
        &["schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
         metadata is implicitly specified"],
    );
    refused(
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        &["schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: \
         error: unclosed group"],
    );
    refused(
        json!({"type": "object", "properties": {"a": {"x-kubernetes-embedded-resource": true}}}),
        &[
            "schema.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is \
             true without x-kubernetes-preserve-unknown-fields",
            "schema.properties[a].type: Required value: must be object if x-kubernetes-embedded-resource is true",
        ],
    );
}

#[test]
fn openapi_rules_are_kept() {
    let list = |extra: Value| {
        let mut list = json!({"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}});
        for (key, value) in extra.as_object().expect("object") {
            list[key] = value.clone();
        }
        json!({"type": "object", "properties": {"l": list}})
    };
    refused(
        list(json!({"x-kubernetes-list-type": "map"})),
        &["schema.properties[l].x-kubernetes-list-map-keys: Required value: must not be empty if \
         x-kubernetes-list-type is map"],
    );
    refused(
        list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})),
        &["schema.properties[l].items.properties[k].default: Required value: this property is in \
         x-kubernetes-list-map-keys, so it must have a default or be a required property"],
    );
    refused(
        list(json!({"x-kubernetes-list-map-keys": ["k"]})),
        &["schema.properties[l].x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is \
         non-empty"],
    );
    refused(
        list(json!({"x-kubernetes-list-type": "set"})),
        &["schema.properties[l].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list \
             with x-kubernetes-list-type=set"],
    );
    refused(
        list(json!({"x-kubernetes-list-type": "pile", "uniqueItems": true})),
        &[
            "schema.properties[l].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime \
             complexity becomes quadratic",
            "schema.properties[l].x-kubernetes-list-type: Unsupported value: \"pile\": supported values: \"atomic\", \
         \"set\", \"map\"",
        ],
    );
    refused(
        json!({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"},
        "properties": {"b": {"type": "string"}}}}}),
        &["schema.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual \
         exclusive"],
    );
    refused(
        json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "#/x"}}}),
        &["schema.properties[a].$ref: Forbidden: $ref is not supported"],
    );
    refused(
        json!({"type": "object", "$schema": "x"}),
        &["schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"],
    );
    refused(
        json!({"type": "object", "x-kubernetes-validations": [{"rule": " "}, {"rule": "a\nb"}]}),
        &[
            "schema.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            "schema.x-kubernetes-validations[1].message: Required value: message must be specified if rule contains \
             line breaks",
        ],
    );
}

#[test]
fn defaults_are_checked() {
    refused(
        json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
        &["schema.properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\""],
    );
    refused(
        json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
        &["schema.properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields"],
    );
    refused(
        json!({"type": "object", "properties": {"kind": {"type": "string", "default": "x"}}}),
        &["schema.properties[kind].default: Forbidden: must not be set in top-level kind"],
    );
}

#[test]
fn junctors_check_over_the_structure() {
    let schema = read(json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}}));
    let errors = |spec: Value| {
        let errors = validate::check(&schema, &json!({"spec": spec}), &FieldPath::ROOT);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(json!({"a": "x"})), Vec::<String>::new());
    assert_eq!(
        errors(json!({})),
        [
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
            "spec.a: Required value",
        ]
    );
}
