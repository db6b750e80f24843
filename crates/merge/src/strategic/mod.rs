//! Strategic merge patch: maps merge, lists merge by their declared key, and directives say the rest.
//!
//! Directives: `$patch` (delete, replace) in maps and list items, `$retainKeys`, `$deleteFromPrimitiveList/<list>`
//! and `$setElementOrder/<list>`. Custom resources have no strategies; their handler answers 415 before it
//! comes here.

mod lists;
mod order;
pub(crate) mod place;

use serde_json::{Map, Value};

use crate::PatchError;
use crate::go_text;
pub(crate) use lists::{Kind, element_kind, keyless};
use place::Place;
use schema::Schema;

pub(crate) const PATCH: &str = "$patch";
pub(crate) const RETAIN_KEYS: &str = "$retainKeys";
pub(crate) const DELETE_FROM: &str = "$deleteFromPrimitiveList";
pub(crate) const SET_ORDER: &str = "$setElementOrder";

/// The object that `patch` makes of `doc`. Like upstream it may keep nulls and unknown fields of the patch, which
/// decoding against the schema drops or reports.
pub fn apply(schema: &Schema, doc: Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Map::new(),
        other => {
            let kind = go_text::json_kind(other);
            let text = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
            return Err(PatchError::malformed(text));
        }
    };
    let kind = doc.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let doc = match doc {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    merge_map(doc, patch, Place::root(schema, &kind)).map(Value::Object)
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    place: Place<'_>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(&mut original, &mut patch, place)?;
    for (key, value) in patch {
        merge_entry(&mut original, &key, value, place)?;
    }
    Ok(original)
}

fn unknown_directive(directive: Value, mut map: Map<String, Value>) -> PatchError {
    let text = go_text::plain(&directive);
    map.insert(PATCH.to_owned(), directive);
    PatchError::unclassified(format!("unknown patch type: {text} in map: {}", go_text::plain(&Value::Object(map))))
}

/// `$retainKeys` removes every other field and lists at least all fields that the patch sets.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let bad = || PatchError::malformed("invalid patch format of retainKeys");
    let Value::Array(kept) = directive else { return Err(bad()) };
    let kept: std::collections::BTreeSet<&str> = kept.iter().filter_map(Value::as_str).collect();
    let sets =
        |key: &str, value: &Value| !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| sets(key, value) && !kept.contains(key.as_str())) {
        return Err(bad());
    }
    original.retain(|key, _| kept.contains(key.as_str()));
    Ok(())
}

fn merge_entry(original: &mut Map<String, Value>, key: &str, value: Value, place: Place<'_>) -> Result<(), PatchError> {
    let (key, deletes) = match key.starts_with(DELETE_FROM) {
        true => (target(key, DELETE_FROM)?, true),
        false => (key, false),
    };
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    match original.get_mut(key) {
        Some(old) if same_type(old, &value) => merge_value(old, value, key, place, deletes),
        _ if deletes => Ok(()),
        _ => {
            match new_value(value) {
                Some(value) => original.insert(key.to_owned(), value),
                None => original.remove(key),
            };
            Ok(())
        }
    }
}

fn merge_value(old: &mut Value, new: Value, key: &str, place: Place<'_>, deletes: bool) -> Result<(), PatchError> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let found = place.field(key)?;
            *old = if found.replace { new } else { merge_map(std::mem::take(old), new, found.place)? };
        }
        (Value::Array(old), Value::Array(new)) => {
            let found = place.field(key)?;
            *old = lists::merge_field(std::mem::take(old), new, &found, deletes)?;
        }
        (old, new) if !deletes => *old = new,
        _ => {}
    }
    Ok(())
}

/// Whether Go decodes both to the same type.
fn same_type(left: &Value, right: &Value) -> bool {
    go_text::type_name(left) == go_text::type_name(right)
}

/// The name behind a directive's prefix: `$setElementOrder/finalizers` is about `finalizers`.
fn target<'k>(key: &'k str, prefix: &str) -> Result<&'k str, PatchError> {
    match key.split_once('/') {
        Some((before, name)) if before == prefix => Ok(name),
        _ if prefix == DELETE_FROM => Err(PatchError::malformed("invalid patch format of primitive list")),
        _ => Err(PatchError::malformed("invalid patch format of setElementOrder list")),
    }
}

/// A value that is new in the object: without nulls in maps, and without directives. `None` when the value is a
/// directive itself.
fn new_value(mut value: Value) -> Option<Value> {
    drop_nulls(&mut value);
    without_directives(value)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, item| !item.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, item)| Some((key, without_directives(item)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;
