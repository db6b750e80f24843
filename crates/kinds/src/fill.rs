//! What defaulting is written with: setting a field only where there is nothing yet.

use serde_json::{Map, Value};

/// Sets `field` where it is absent or null. For fields in which a written zero has a meaning.
pub(crate) fn absent(object: &mut Value, field: &str, default: impl Into<Value>) {
    if object.get(field).is_none_or(Value::is_null) {
        set(object, field, default.into());
    }
}

/// Sets `field` where it is absent, null, empty or 0. For fields in which a written zero means "not given".
pub(crate) fn zero(object: &mut Value, field: &str, default: impl Into<Value>) {
    let given = match object.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(_) => true,
    };
    if !given {
        set(object, field, default.into());
    }
}

fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert(field.to_owned(), value);
    }
}

/// The object under `field`, if there is one.
pub(crate) fn child<'v>(object: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    object.get_mut(field).filter(|value| value.is_object())
}

/// The object under `field`, made where absent.
pub(crate) fn made<'v>(object: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    absent(object, field, Map::new());
    child(object, field)
}

/// The object under a chain of field names, if all are there.
pub(crate) fn descend<'v>(object: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(object, |value, step| child(value, step))
}

/// The items of the list under `field`.
pub(crate) fn items<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_missing_is_set() {
        let mut object = json!({"a": "", "b": 0, "c": null, "d": "x"});
        for field in ["a", "b", "c", "d", "e"] {
            absent(&mut object, field, 1);
        }
        assert_eq!(object, json!({"a": "", "b": 0, "c": 1, "d": "x", "e": 1}));
        zero(&mut object, "a", "y");
        zero(&mut object, "b", 2);
        zero(&mut object, "d", "y");
        assert_eq!(object, json!({"a": "y", "b": 2, "c": 1, "d": "x", "e": 1}));
    }
}
