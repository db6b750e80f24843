//! Reading a `JSONSchemaProps` tree.

use serde_json::{Map, Value};

/// Text; empty when absent.
pub(super) fn text<'p>(props: &'p Value, key: &str) -> &'p str {
    props.get(key).and_then(Value::as_str).unwrap_or("")
}

/// A boolean; false when absent.
pub(super) fn flag(props: &Value, key: &str) -> bool {
    props.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// A list; empty when absent.
pub(super) fn list<'p>(props: &'p Value, key: &str) -> &'p [Value] {
    props.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Texts of a list.
pub(super) fn texts<'p>(props: &'p Value, key: &str) -> Vec<&'p str> {
    list(props, key).iter().filter_map(Value::as_str).collect()
}

/// A value that is neither absent nor null.
pub(super) fn given<'p>(props: &'p Value, key: &str) -> Option<&'p Value> {
    props.get(key).filter(|value| !value.is_null())
}

/// A nested schema.
pub(super) fn child<'p>(props: &'p Value, key: &str) -> Option<&'p Value> {
    props.get(key).filter(|value| value.is_object())
}

/// Named nested schemas.
pub(super) fn children<'p>(props: &'p Value, key: &str) -> impl Iterator<Item = (&'p str, &'p Value)> {
    let map = props.get(key).and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

/// One of `properties`.
pub(super) fn property<'p>(props: &'p Value, name: &str) -> Option<&'p Value> {
    props.get("properties")?.get(name)
}

/// Whether `props` allows exactly integers and texts by `anyOf`, the one place where types may stand in a junctor.
pub(super) fn is_int_or_string_any_of(props: &Value) -> bool {
    let is_only = |value: &Value, name: &str| {
        value.as_object().is_some_and(|map| map.len() == 1 && map.get("type").is_some_and(|t| t == name))
    };
    match list(props, "anyOf") {
        [first, second] => is_only(first, "integer") && is_only(second, "string"),
        _ => false,
    }
}

/// Whether the first of `allOf` is that `anyOf`.
pub(super) fn is_int_or_string_all_of(props: &Value) -> bool {
    list(props, "allOf").first().is_some_and(is_int_or_string_any_of)
}
