//! ConfigMap: small configuration, as text or bytes.

use meta::{FieldError, name};
use serde_json::Value;

use crate::check::{At, Faults, named, same};
use crate::{Column, KindDef, UpdateOf, apply_order, column};

/// All values of a ConfigMap or Secret together, in bytes: upstream's limit, which leaves room in a request of 3 MiB.
pub(crate) const DATA_BYTES_MAX: usize = 1024 * 1024;
const SEALED: &str = "field is immutable when `immutable` is set";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"},
    "data": {"color": "blue"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "ConfigMap", "configmaps")
        .short("cm")
        .schema("io.k8s.api.core.v1.ConfigMap")
        .columns(vec![
            column::name(),
            Column::new("Data", "string", "Number of entries.", |object, _| entries(object).into()),
            column::age(),
        ])
        .apply_order(apply_order::CONFIG)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn entries(object: &Value) -> usize {
    let count = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    count("data") + count("binaryData")
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let (data, binary) = (root.field("data"), root.field("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(&value, key, &mut faults);
        if binary.has(key) {
            faults.push(value.invalid_as(key, "duplicate of key present in binaryData"));
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        check_key(&value, key, &mut faults);
        bytes += decoded_len(value.text());
    }
    if bytes > DATA_BYTES_MAX {
        faults.push(FieldError::too_long("[]", DATA_BYTES_MAX));
    }
    faults
}

/// The key of an entry of a ConfigMap or Secret.
pub(crate) fn check_key(entry: &At, key: &str, faults: &mut Faults) {
    let key = Value::from(key);
    named(&entry.with(&key), name::config_map_key, faults);
}

/// The number of bytes that base64 text stands for.
pub(crate) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|b| *b == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_sealed(&At::root(new), &At::root(old), &["data", "binaryData"], &mut faults);
    faults.extend(validate(new));
    faults
}

/// Once `immutable` is true it stays so, and so do the fields that hold data.
pub(crate) fn check_sealed(new: &At, old: &At, fields: &[&str], faults: &mut Faults) {
    if !old.field("immutable").is_true() {
        return;
    }
    if !new.field("immutable").is_true() {
        faults.push(new.field("immutable").forbidden(SEALED));
    }
    for field in fields {
        if !same(new.field(field).value, old.field(field).value) {
            faults.push(new.field(field).forbidden(SEALED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(faults: Vec<FieldError>) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_and_sizes() {
        assert!(validate(&json!({"data": {"a.b-c_D": "x"}, "binaryData": {"e": "AAAA"}})).is_empty());
        let faults = texts(validate(&json!({"data": {"a": "", "b/c": ""}, "binaryData": {"a": ""}})));
        assert_eq!(faults[0], "data[a]: Invalid value: \"a\": duplicate of key present in binaryData");
        assert!(faults[1].starts_with("data[b/c]: Invalid value: \"b/c\": a valid config key must consist of"));
        let fits = "x".repeat(DATA_BYTES_MAX);
        assert!(validate(&json!({"data": {"a": fits}})).is_empty());
        let faults = texts(validate(&json!({"data": {"a": fits, "b": "y"}})));
        assert_eq!(faults, ["[]: Too long: may not be more than 1048576 bytes"]);
    }

    #[test]
    fn immutable_data_stays() {
        let old = json!({"immutable": true, "data": {"a": "b"}});
        assert!(validate_update(&old, &old, UpdateOf::Main).is_empty());
        let faults = texts(validate_update(&json!({"data": {"a": "c"}}), &old, UpdateOf::Main));
        let expected = [
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn base64_lengths() {
        for (text, len) in [("", 0), ("YQ==", 1), ("YWI=", 2), ("YWJj", 3), ("YWJjZA==", 4)] {
            assert_eq!(decoded_len(text), len, "{text}");
        }
    }
}
