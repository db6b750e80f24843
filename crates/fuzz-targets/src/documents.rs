//! Documents: JSON, YAML and protobuf as they are decoded from bodies.

use std::sync::{Arc, LazyLock};

use kinds::KindDef;
use schema::{Mode, json, proto};
use serde_json::Value;

use crate::{examples, inputs};

/// What is decoded and written is decoded as the same; what another reader takes is read as it reads it.
pub fn json(data: &[u8]) {
    let decoded = json::decode(data);
    if let Ok(decoded) = &decoded {
        let written = serde_json::to_vec(&decoded.value).expect("a tree can be written");
        let again = json::decode(&written).expect("what was written can be read");
        assert_eq!(again.value, decoded.value);
        assert!(again.duplicates.is_empty());
    }
    if let Ok(theirs) = serde_json::from_slice::<Value>(data) {
        let ours = decoded.expect("the other reader takes it").value;
        assert_eq!(ours, theirs);
    }
}

pub fn json_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = examples().map(|(_, tree)| tree.to_string().into_bytes()).collect();
    seeds.extend(inputs(&[
        "{\"a\":1,\"a\":2}",
        "[1e400,-0,-0.0,9007199254740993,9223372036854775808,2222222272222227728728222,0.1e-7]",
        "\"\\ud800\\udc00 \\ud800 \\u0000 \\/\"",
        "{\"a\":[[[[[[{}]]]]]],\"b\":null,\"c\":true}",
        "\u{feff}{}",
    ]));
    seeds
}

/// A document that is taken is JSON from then on.
pub fn yaml(data: &[u8]) {
    let Ok((tree, _)) = api::decode_yaml(data) else { return };
    let written = serde_json::to_vec(&tree).expect("a tree can be written");
    let again = json::decode(&written).expect("what was written can be read");
    assert_eq!(again.value, tree);
}

pub fn yaml_seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    text\n",
        "a: &x {b: 1}\nc:\n  <<: *x\n  d: *x\n",
        "a: [yes, on, Off, y, 0644, 0o644, 09, 1_000, 1e3, 1.0, .inf, ~, !!binary aGk=]\n",
        "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n",
        "--- # one\na: 'b'\n...\n---\nc: \"\\u00e9\"\n",
        "? [complex, key]\n: value\n",
    ]);
    seeds.extend(examples().map(|(_, tree)| tree.to_string().into_bytes()).take(8));
    seeds
}

static KINDS: LazyLock<Vec<Arc<KindDef>>> = LazyLock::new(kinds::built_in);

/// The first byte chooses the kind. What is decoded and conforms is written and decoded as the same.
pub fn protobuf(data: &[u8]) {
    let _ = proto::unwrap_envelope(data);
    let Some((first, message)) = data.split_first() else { return };
    let schema = KINDS[usize::from(*first) % KINDS.len()].schema.get();
    let Ok(tree) = proto::decode(schema, message) else { return };
    let Ok(conformed) = schema::conform_as(schema, tree, Mode::Whole) else { return };
    let Ok(written) = proto::encode(schema, &conformed.value) else { return };
    let again = proto::decode(schema, &written).expect("what was written can be read");
    let again = schema::conform_as(schema, again, Mode::Whole).expect("and conforms");
    assert_eq!(again.value, conformed.value);
}

pub fn protobuf_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        let Ok(tree) = serde_json::from_str::<Value>(kind.example) else { continue };
        let Ok(bytes) = proto::encode(kind.schema.get(), &tree) else { continue };
        let first = u8::try_from(at).unwrap_or_default();
        seeds.push(std::iter::once(first).chain(bytes.iter().copied()).collect());
        if seeds.len() < 4 {
            seeds.push(proto::wrap_envelope(&kind.group_version().to_string(), &kind.kind, &bytes));
        }
    }
    seeds
}
