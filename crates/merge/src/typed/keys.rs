//! Which step of a path an item of a list is.

use serde_json::Value;

use super::shape::{Items, ListType};
use crate::fields::PathElement;

/// The step that leads to `item`. The error is upstream's sentence.
pub(crate) fn step_of(list: &ListType<'_>, item: &Value) -> Result<PathElement, String> {
    match list.kind {
        Items::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Items::Set => set_step(item),
        Items::Keyed(keys) => keyed_step(list, keys, item),
    }
}

fn set_step(item: &Value) -> Result<PathElement, String> {
    let text = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(PathElement::value(scalar.clone())),
    };
    Err(text.to_owned())
}

/// Absent keys with a default count as set, absent keys without one are left out.
fn keyed_step(list: &ListType<'_>, keys: &[Box<str>], item: &Value) -> Result<PathElement, String> {
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let value_of = |key: &str| item.get(key).or_else(|| list.key_default(key));
    let fields: Vec<_> = keys.iter().filter_map(|key| Some((key.clone(), value_of(key)?.clone()))).collect();
    if fields.is_empty() && !keys.is_empty() {
        let quoted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            quoted.join(" ")
        ));
    }
    Ok(PathElement::key(fields))
}
