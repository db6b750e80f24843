//! Merging of lists: scalars as ordered sets, maps by their merge key.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::order::{self, Order};
use super::place::{Found, Place, identity};
use super::{PATCH, merge_map, unknown_directive};
use crate::PatchError;
use crate::go_text;

type Items = Vec<Value>;

/// What a list field becomes. A field without `merge` strategy is replaced, unless items are to be deleted.
pub(super) fn merge_field(old: Items, new: Items, field: &Found<'_>, deletes: bool) -> Result<Items, PatchError> {
    if !field.merge && !deletes {
        return Ok(new);
    }
    match element_kind(&[&old, &new])? {
        None => Ok(old),
        Some(Kind::Map) => match field.merge_key {
            Some(key) => merge_maps(old, new, field.place.items(), key),
            None => Err(PatchError::unclassified("cannot merge lists without merge key for struct")),
        },
        Some(Kind::Scalar) if deletes => Ok(without(old, &new)),
        Some(Kind::Scalar) => merge_scalars(old, new),
    }
}

pub(crate) enum Kind {
    Scalar,
    Map,
}

/// The kind that all items share; `None` when there are no items.
pub(crate) fn element_kind(lists: &[&[Value]]) -> Result<Option<Kind>, PatchError> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else { return Ok(None) };
    if first.is_array() {
        return Err(PatchError::unprocessable("lists of lists are not supported"));
    }
    if first.is_null() || items.any(|item| !super::same_type(item, first)) {
        let shown: Vec<String> = lists.iter().map(|list| go_text::list(list)).collect();
        let text = format!("list element types are not identical: [{}]", shown.join(" "));
        return Err(PatchError::unclassified(text));
    }
    Ok(Some(if first.is_object() { Kind::Map } else { Kind::Scalar }))
}

fn without(items: Items, deleted: &Items) -> Items {
    let deleted: BTreeSet<String> = deleted.iter().map(Value::to_string).collect();
    items.into_iter().filter(|item| !deleted.contains(&item.to_string())).collect()
}

fn merge_scalars(old: Items, new: Items) -> Result<Items, PatchError> {
    let (wanted, live) = (Order::of(&new, None)?, Order::of(&old, None)?);
    let mut seen = BTreeSet::new();
    let mut merged = old;
    merged.extend(new);
    merged.retain(|item| seen.insert(item.to_string()));
    order::arrange(merged, &wanted, &live, None)
}

fn merge_maps(old: Items, new: Items, place: Place<'_>, key: &str) -> Result<Items, PatchError> {
    let edit = directives(new, key)?;
    if edit.replace {
        let live = Order::of(&edit.items, Some(key))?;
        return order::arrange(edit.items, &Order::default(), &live, Some(key));
    }
    let old = delete(old, &edit.deleted, key)?;
    let (wanted, live) = (Order::of(&edit.items, Some(key))?, Order::of(&old, Some(key))?);
    let merged = merge_items(old, edit.items, place, key)?;
    order::arrange(merged, &wanted, &live, Some(key))
}

/// A patch of a list of maps, its directives taken apart.
struct Edit {
    items: Items,
    deleted: BTreeSet<String>,
    replace: bool,
}

fn directives(patch: Items, key: &str) -> Result<Edit, PatchError> {
    let mut edit = Edit { items: Vec::new(), deleted: BTreeSet::new(), replace: false };
    for item in patch {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => edit.items.push(item),
            Some("delete") => {
                edit.deleted.insert(identity(&item, Some(key)).ok_or_else(|| keyless(&item, key))?);
            }
            Some("replace") => edit.replace = true,
            Some("merge") => {
                return Err(PatchError::unclassified("merging lists cannot yet be specified in the patch"));
            }
            Some(_) => return Err(unknown(item)),
        }
    }
    Ok(edit)
}

fn unknown(item: Value) -> PatchError {
    let mut map = into_map(item);
    let directive = map.remove(PATCH).unwrap_or(Value::Null);
    unknown_directive(directive, map)
}

pub(crate) fn keyless(item: &Value, key: &str) -> PatchError {
    let shown = go_text::plain(item);
    PatchError::unclassified(format!("map: {shown} does not contain declared merge key: {key}"))
}

fn delete(items: Items, deleted: &BTreeSet<String>, key: &str) -> Result<Items, PatchError> {
    let gone = |item: &Value| identity(item, Some(key)).is_some_and(|id| deleted.contains(&id));
    Ok(items.into_iter().filter(|item| !gone(item)).collect())
}

/// Merges every item of the patch into the first live item with the same key, or appends it.
fn merge_items(old: Items, new: Items, place: Place<'_>, key: &str) -> Result<Items, PatchError> {
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in old.iter().enumerate() {
        if let Some(id) = identity(item, Some(key)) {
            positions.entry(id).or_insert(at);
        }
    }
    let mut merged = old;
    for item in new {
        let id = identity(&item, Some(key)).ok_or_else(|| keyless(&item, key))?;
        match positions.get(&id) {
            Some(&at) => {
                let live = into_map(std::mem::take(&mut merged[at]));
                merged[at] = Value::Object(merge_map(live, into_map(item), place)?);
            }
            None => {
                positions.insert(id, merged.len());
                merged.push(item);
            }
        }
    }
    Ok(merged)
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
