//! JSON Merge Patch (RFC 7386) as the upstream API server reads it.

use serde_json::{Map, Value};

use crate::PatchError;
use crate::go_text;

/// Merges `patch` into `doc`: null removes, maps merge, everything else replaces. Nulls inside new values are
/// dropped, also inside lists (which the RFC leaves alone). Neither side is nested deeper than JSON is read.
pub fn apply(doc: &mut Value, patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(patch) => {
            match doc {
                Value::Object(doc) => merge_maps(doc, patch),
                other => *other = without_nulls(&Value::Object(patch.clone())),
            }
            Ok(())
        }
        Value::Null => Err(PatchError::malformed("Invalid JSON Patch")),
        other => Err(PatchError::malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_text::json_kind(other)
        ))),
    }
}

fn merge_maps(doc: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, new) in patch {
        match (doc.get_mut(key), new) {
            (_, Value::Null) => {
                doc.remove(key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => merge_maps(old, new),
            // A list or scalar that takes the place of a map is taken as it is.
            (Some(old @ Value::Object(_)), new) => *old = new.clone(),
            (_, new) => {
                doc.insert(key.clone(), without_nulls(new));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, item)| !item.is_null())
            .map(|(key, item)| (key.clone(), without_nulls(item)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merges_like_upstream() {
        let check = |mut doc: Value, patch: Value, expected: Value| {
            apply(&mut doc, &patch).expect("applies");
            assert_eq!(doc, expected);
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b", "c": 1}), json!({"a": null}), json!({"c": 1}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [1, 2]}), json!({"a": [3, null]}), json!({"a": [3, null]}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
        check(json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}}));
        check(json!({"a": {"x": 1}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]}));
        check(json!({}), json!({"a": [{"b": null}]}), json!({"a": [{}]}));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1]), json!({"a": 1}), json!({"a": 1}));
    }

    #[test]
    fn refuses_what_is_no_map() {
        let check = |patch: Value, text: &str| {
            assert_eq!(apply(&mut json!({}), &patch).expect_err("refused").detail, text);
        };
        check(json!(null), "Invalid JSON Patch");
        let into = "into Go value of type map[string]interface {}";
        check(json!([1]), &format!("error decoding patch: json: cannot unmarshal array {into}"));
        check(json!("x"), &format!("error decoding patch: json: cannot unmarshal string {into}"));
    }
}
