use std::collections::BTreeSet;

use kinds::Catalog;
use meta::GroupVersion;
use serde_json::{Value, json};

use super::*;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                }},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "minimum": 0}}},
                }}},
            }],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn catalog() -> Catalog {
    Catalog::built_in().with_custom(kinds::custom::served(&definition()).into_iter().map(Arc::new))
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// Every reference points at something.
fn check_closed(document: &Value, prefix: &str, defined: &Value) {
    let known: BTreeSet<&str> = defined.as_object().expect("definitions").keys().map(String::as_str).collect();
    for part in document.to_string().split(prefix).skip(1) {
        let name = part.split('"').next().expect("quoted");
        assert!(known.contains(name), "{name} is not defined");
    }
}

#[test]
fn every_v3_document_is_closed_and_names_its_kinds() {
    let catalog = catalog();
    for gv in versions(&catalog) {
        let document = parse(&document::v3(&catalog, &gv));
        let schemas = &document["components"]["schemas"];
        check_closed(&document, "#/components/schemas/", schemas);
        for kind in catalog.in_version(&gv) {
            let gvks = &schemas[definitions::name_of(kind)]["x-kubernetes-group-version-kind"];
            let own = json!({"group": &*kind.group, "version": &*kind.version, "kind": &*kind.kind});
            assert!(gvks.as_array().is_some_and(|gvks| gvks.contains(&own)), "{} {gvks}", kind.gvk());
        }
    }
}

#[test]
fn writes_say_which_parameters_they_take() {
    let catalog = catalog();
    let document = parse(&document::v3(&catalog, &GroupVersion::new("stable.example.com", "v1")));
    let path = "/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}";
    let patch = &document["paths"][path]["patch"];
    let names: Vec<&str> =
        patch["parameters"].as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Widget");
    assert_eq!(patch["operationId"], "patchStableExampleComV1NamespacedWidget");
    let scale = &document["paths"][format!("{path}/scale")]["put"];
    let autoscaling = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    assert_eq!(scale["x-kubernetes-group-version-kind"], autoscaling);
    assert!(scale["requestBody"].to_string().contains("io.k8s.api.autoscaling.v1.Scale"), "{scale}");
}

#[test]
fn the_v2_document_is_closed_and_has_custom_kinds() {
    let catalog = catalog();
    let document = parse(&document::v2_json(&catalog));
    check_closed(&document, "#/definitions/", &document["definitions"]);
    let widget = &document["definitions"]["com.example.stable.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["replicas"]["type"], "integer");
    assert!(document["definitions"]["com.example.stable.v1.WidgetList"].is_object());
}

/// The fields of a message on the wire that are not plain numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().expect("complete");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => drop(varint(&mut bytes)),
            1 => bytes = &bytes[8..],
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("small");
                found.push((tag >> 3, &bytes[..length]));
                bytes = &bytes[length..];
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn field(bytes: &[u8], number: u64) -> &[u8] {
    fields(bytes).into_iter().find(|(n, _)| *n == number).unwrap_or_else(|| panic!("field {number}")).1
}

#[test]
fn the_protobuf_form_has_every_path_and_definition() {
    let catalog = catalog();
    let (json, protobuf) = (parse(&document::v2_json(&catalog)), document::v2_protobuf(&catalog));
    assert_eq!(field(&protobuf, 1), b"2.0");
    for (number, key, entry) in [(8, "paths", 2), (9, "definitions", 1)] {
        let entries = fields(field(&protobuf, number));
        assert!(entries.iter().all(|(n, _)| *n == entry));
        let names: BTreeSet<&[u8]> = entries.iter().map(|(_, named)| field(named, 1)).collect();
        let expected: BTreeSet<&[u8]> =
            json[key].as_object().expect("an object").keys().map(String::as_bytes).collect();
        assert_eq!(names, expected, "{key}");
    }
}

#[test]
fn schemas_have_their_numbers_on_the_wire() {
    let mut document = gnostic::Document::new(&json!({}));
    let schema = json!({
        "type": "object", "required": ["a", "b"], "additionalProperties": true,
        "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/x"}}, "b": {"enum": ["p", "q"]}},
        "x-kubernetes-map-type": "atomic",
    });
    document.definition("n", &schema);
    let bytes = document.finish();
    let named = field(field(&bytes, 9), 1);
    let schema = field(named, 2);
    assert_eq!(field(named, 1), b"n");
    assert_eq!(field(field(schema, 22), 1), b"object");
    assert_eq!(fields(schema).iter().filter(|(n, _)| *n == 19).count(), 2);
    assert_eq!(field(schema, 21), [0x10, 1]);
    let extension = field(schema, 31);
    assert_eq!(field(extension, 1), b"x-kubernetes-map-type");
    assert_eq!(field(field(extension, 2), 2), b"\"atomic\"");
    let properties: Vec<&[u8]> = fields(field(schema, 25)).into_iter().map(|(_, named)| field(named, 2)).collect();
    assert_eq!(field(field(field(properties[0], 23), 1), 1), b"#/definitions/x");
    assert_eq!(fields(properties[1]).iter().filter(|(n, _)| *n == 20).count(), 2);
}
