use meta::FieldPath;
use serde_json::{Value, json};

use super::*;
use crate::{builtin_names, crd};

#[test]
fn built_in_types_carry_their_merge_rules() {
    let spec = v3_definition("io.k8s.api.core.v1.PodSpec").expect("known");
    let expected = json!({
        "type": "array",
        "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
    });
    assert_eq!(spec["properties"]["containers"], expected);
    let volumes = &spec["properties"]["volumes"]["x-kubernetes-patch-strategy"];
    assert_eq!(volumes, "merge,retainKeys");
    assert_eq!(spec["required"], json!(["containers"]));
    let port = v2_definition("io.k8s.api.core.v1.ServicePort").expect("known");
    let target = json!({"$ref": "#/definitions/io.k8s.apimachinery.pkg.util.intstr.IntOrString"});
    assert_eq!(port["properties"]["targetPort"], target);
    assert_eq!(port["properties"]["protocol"], json!({"type": "string", "default": "TCP"}));
    let selector = v2_definition("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").expect("known");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
}

#[test]
fn special_types() {
    let check = |name: &str, v3: Value, v2: Value| {
        assert_eq!(v3_definition(name).expect(name), v3);
        assert_eq!(v2_definition(name).expect(name), v2);
    };
    let either = |a: &str, b: &str| json!([{"type": a}, {"type": b}]);
    check("io.k8s.apimachinery.pkg.api.resource.Quantity", json!({"oneOf": either("string", "number")}), {
        json!({"type": "string"})
    });
    let int_or_string = json!({"format": "int-or-string", "oneOf": either("integer", "string")});
    check("io.k8s.apimachinery.pkg.util.intstr.IntOrString", int_or_string, {
        json!({"type": "string", "format": "int-or-string"})
    });
    let time = json!({"type": "string", "format": "date-time"});
    check("io.k8s.apimachinery.pkg.apis.meta.v1.Time", time.clone(), time);
    check("io.k8s.apimachinery.pkg.runtime.RawExtension", json!({"type": "object"}), json!({"type": "object"}));
    check("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", json!({}), json!({}));
}

#[test]
fn references_are_closed() {
    let refs = refs("io.k8s.api.apps.v1.Deployment");
    for name in ["io.k8s.api.apps.v1.Deployment", "io.k8s.api.core.v1.Container"] {
        assert!(refs.contains(name), "{name}");
    }
    assert!(!refs.contains("io.k8s.api.core.v1.Service"));
    assert!(super::refs("nothing").is_empty());
    for name in builtin_names() {
        let text = v3_definition(name).expect(name).to_string();
        let known = super::refs(name);
        for part in text.split("#/components/schemas/").skip(1) {
            let referenced = part.split('"').next().expect("quoted");
            assert!(known.contains(referenced), "{name} -> {referenced}");
        }
    }
}

fn widget() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["a", "n"], "properties": {
        "a": {"type": "integer", "format": "int32", "minimum": 1, "exclusiveMinimum": true, "description": "A."},
        "n": {"type": "string", "nullable": true},
        "p": {"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 1}, {"pattern": "%$"}]},
        "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"k": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": true},
        "c": {"type": "string", "default": "x", "oneOf": [{"minLength": 1}, {"maxLength": 0}]}
    }}}})
}

#[test]
fn custom_resources_say_in_v3_what_was_declared() {
    let schema = crd::structural(&widget(), &FieldPath::ROOT).expect("structural");
    let published = v3_schema(&schema);
    let expected = json!({"type": "object", "required": ["a", "n"], "properties": {
        "a": {"type": "integer", "format": "int32", "minimum": 1, "exclusiveMinimum": true, "description": "A."},
        "n": {"type": "string", "nullable": true},
        "p": {"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 1}, {"pattern": "%$"}],
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
        "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"k": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": true},
        "c": {"type": "string", "default": "x", "oneOf": [{"minLength": 1}, {"maxLength": 0}]}
    }});
    assert_eq!(published["properties"]["spec"], expected);
    let metadata = json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]});
    assert_eq!(published["properties"]["metadata"], metadata);
    assert!(refs_of(&schema).contains("io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry"));
}

#[test]
fn custom_resources_say_in_v2_what_kubectl_can_read() {
    let schema = crd::structural(&widget(), &FieldPath::ROOT).expect("structural");
    let expected = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "integer", "format": "int32", "minimum": 1, "exclusiveMinimum": true, "description": "A."},
        "n": {},
        "p": {"x-kubernetes-int-or-string": true},
        "o": {"x-kubernetes-preserve-unknown-fields": true},
        "m": {"type": "object", "additionalProperties": true},
        "c": {"type": "string", "default": "x"}
    }});
    assert_eq!(v2_schema(&schema)["properties"]["spec"], expected);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let open = crd::structural(&open, &FieldPath::ROOT).expect("structural");
    assert_eq!(v2_schema(&open), json!({"type": "object"}));
}
