use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Schema, builtin, builtin_names, conform};

/// A message of Go's, and what Go writes as JSON for the same value.
struct Vector {
    name: &'static str,
    bytes: Vec<u8>,
    json: Value,
}

fn vectors() -> Vec<Vector> {
    let text = include_str!("../../testdata/wire.txt");
    let blocks = text.split("\n\n").map(str::trim).filter(|b| !b.is_empty() && !b.starts_with('#'));
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let mut next = || lines.next().expect("three lines");
            let (name, hex, json) = (next(), next(), next());
            Vector { name, bytes: unhex(hex), json: serde_json::from_str(json).expect("json") }
        })
        .collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ascii"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn schema(name: &str) -> &'static Schema {
    builtin(name).unwrap_or_else(|| panic!("{name} is unknown"))
}

fn normal(schema: &Schema, value: Value) -> Value {
    let conformed = conform(schema, value).expect("conforms");
    assert_eq!(conformed.unknown, Vec::<String>::new());
    conformed.value
}

/// Without what our normal form writes differently than Go: nulls, and empty lists where Go writes null.
fn comparable(value: Value) -> Value {
    let is_blank = |v: &Value| v.is_null() || v.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, v)| !is_blank(v));
            Value::Object(kept.map(|(k, v)| (k, comparable(v))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(comparable).collect()),
        other => other,
    }
}

#[test]
fn gos_messages_and_gos_json_mean_the_same() {
    for vector in vectors().iter().filter(|v| !v.name.starts_with("envelope")) {
        let schema = schema(vector.name);
        let from_proto = normal(schema, decode(schema, &vector.bytes).expect(vector.name));
        let from_json = normal(schema, vector.json.clone());
        assert_eq!(from_proto, from_json, "{}", vector.name);
        let mut written_by_go = comparable(vector.json.clone());
        if let Some(ports) = written_by_go.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
            ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| {
                if port.get("targetPort") == Some(&json!(0)) {
                    port.remove("targetPort");
                }
            });
        }
        assert_eq!(comparable(from_json), written_by_go, "{}", vector.name);
    }
}

#[test]
fn messages_survive_a_round_trip() {
    for vector in vectors().iter().filter(|v| !v.name.starts_with("envelope")) {
        let schema = schema(vector.name);
        let value = normal(schema, vector.json.clone());
        let again = decode(schema, &encode(schema, &value).expect(vector.name)).expect(vector.name);
        assert_eq!(normal(schema, again), value, "{}", vector.name);
    }
}

#[test]
fn envelopes_open_and_close() {
    let vectors = vectors();
    let vector = vectors.iter().find(|v| v.name.starts_with("envelope")).expect("there is one");
    let envelope = unwrap_envelope(&vector.bytes).expect("opens");
    assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMap"));
    let value = decode(schema("io.k8s.api.core.v1.ConfigMap"), envelope.raw).expect("decodes");
    assert_eq!(value["metadata"]["name"], "c");
    assert_eq!(wrap_envelope("v1", "ConfigMap", envelope.raw), vector.bytes);
    assert!(unwrap_envelope(b"{}").is_err());
    assert!(unwrap_envelope(b"k8s\0\x0a\xff").is_err());
}

#[test]
fn broken_messages_are_refused() {
    let check = |hex: &str, message: &str| {
        let error = decode(schema("io.k8s.api.core.v1.Pod"), &unhex(hex)).expect_err(hex);
        assert_eq!(error.to_string(), message);
    };
    check("0a", "proto: unexpected EOF");
    check("0aff", "proto: unexpected EOF");
    check("0aff01", "proto: unexpected EOF");
    check("0800", "proto: wrong wireType for a length-delimited field");
    check("ffffffffffffffffffffff", "proto: integer overflow");
    check("0b", "proto: illegal tag 1 (wire type 3)");
    check("00", "proto: illegal tag 0 (wire type 0)");
}

#[test]
fn nesting_is_bounded() {
    let schema = schema("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    let encoded = encode(schema, &nested(DEPTH_MAX / 2)).expect("fits");
    assert!(decode(schema, &encoded).is_ok());
    let mut message = encoded;
    for _ in 0..DEPTH_MAX {
        let mut writer = wire::Writer::default();
        writer.bytes(28, &message);
        message = writer.out;
    }
    assert_eq!(decode(schema, &message).expect_err("deep").to_string(), "proto: exceeded max depth");
    assert_eq!(encode(schema, &nested(DEPTH_MAX + 1)).expect_err("deep").to_string(), "proto: exceeded max depth");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>()) {
        let names: Vec<&str> = builtin_names().collect();
        let _ = decode(schema(names[at.index(names.len())]), &bytes);
        let _ = unwrap_envelope(&bytes);
    }

    #[test]
    fn damaged_messages_are_survived(at in any::<prop::sample::Index>(), byte in any::<u8>(), which in 0..20_usize) {
        let vectors = vectors();
        let mut bytes = vectors[which].bytes.clone();
        if !bytes.is_empty() {
            *at.get_mut(&mut bytes) = byte;
        }
        if let Ok(value) = decode(schema(vectors[which].name), &bytes) {
            let _ = conform(schema(vectors[which].name), value);
        }
    }
}
