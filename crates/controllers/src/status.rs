//! Writing a status only where it differs.

use serde_json::{Map, Value, json};

/// A number that the API leaves out when it is zero.
pub(crate) fn unless_zero(number: i64) -> Value {
    if number == 0 { Value::Null } else { number.into() }
}

/// The merge patch `{"status": ...}` that makes `wanted` true, if anything differs. Null takes a field away; fields
/// not named stay. Absent and empty are the same, as they are for every reader; an empty value that is wanted is
/// written together with what differs.
pub(crate) fn difference<'f>(current: &Value, wanted: impl IntoIterator<Item = (&'f str, Value)>) -> Option<Value> {
    let current = |name: &str| current.get(name).unwrap_or(&Value::Null);
    let wanted: Vec<(&str, Value)> = wanted.into_iter().collect();
    if wanted.iter().all(|(name, value)| same(current(name), value)) {
        return None;
    }
    let changed = wanted.into_iter().filter(|(name, value)| current(name) != value);
    let fields: Map<String, Value> = changed.map(|(name, value)| (name.to_owned(), value)).collect();
    Some(json!({"status": fields}))
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || (is_empty(a) && is_empty(b))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let current = json!({"replicas": 3, "readyReplicas": 1, "conditions": []});
        let check = |wanted: Vec<(&str, Value)>, expected: Option<Value>| {
            assert_eq!(difference(&current, wanted), expected.map(|status| json!({"status": status})));
        };
        check(vec![("replicas", json!(3)), ("availableReplicas", json!(0)), ("conditions", Value::Null)], None);
        check(
            vec![("replicas", json!(0)), ("readyReplicas", Value::Null)],
            Some(json!({"replicas": 0, "readyReplicas": null})),
        );
    }
}
