//! The order of merged lists: what `$setElementOrder` (or else the patch) says first, then the live order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::lists::{self, Kind};
use super::place::{Found, Place, identity};
use super::{PATCH, SET_ORDER, target, without_directives};
use crate::PatchError;
use crate::go_text;

/// The position of each item of a list, by identity; the first of equals counts.
#[derive(Default)]
pub(super) struct Order(BTreeMap<String, usize>);

impl Order {
    pub(super) fn of(items: &[Value], merge_key: Option<&str>) -> Result<Self, PatchError> {
        let mut positions = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            positions.entry(named(item, merge_key)?).or_insert(at);
        }
        Ok(Self(positions))
    }

    fn at(&self, id: &str) -> Option<usize> {
        self.0.get(id).copied()
    }
}

fn named(item: &Value, merge_key: Option<&str>) -> Result<String, PatchError> {
    identity(item, merge_key).ok_or_else(|| lists::keyless(item, merge_key.unwrap_or_default()))
}

/// Sorts the items that `wanted` names as it says and weaves the others in by their `live` order.
pub(super) fn arrange(
    items: Vec<Value>,
    wanted: &Order,
    live: &Order,
    merge_key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut patched, mut others) = (Vec::new(), Vec::new());
    for item in items {
        let id = named(&item, merge_key)?;
        match wanted.at(&id) {
            Some(place) => patched.push((place, live.at(&id), item)),
            None => others.push((live.at(&id).unwrap_or(usize::MAX), live.at(&id), item)),
        }
    }
    patched.sort_by_key(|entry| entry.0);
    others.sort_by_key(|entry| entry.0);
    Ok(weave(others, patched))
}

/// Merges two lists; an item of `others` goes before the next patched item when the live order says so.
fn weave(others: Vec<(usize, Option<usize>, Value)>, patched: Vec<(usize, Option<usize>, Value)>) -> Vec<Value> {
    let mut out = Vec::with_capacity(others.len() + patched.len());
    let (mut others, mut patched) = (others.into_iter().peekable(), patched.into_iter().peekable());
    loop {
        let first = match (others.peek(), patched.peek()) {
            (Some(other), Some(item)) => matches!((other.1, item.1), (Some(left), Some(right)) if left < right),
            (Some(_), None) => true,
            (None, _) => false,
        };
        match if first { others.next() } else { patched.next() } {
            Some((_, _, item)) => out.push(item),
            None => return out,
        }
    }
}

/// Performs every `$setElementOrder/<list>` of `patch` together with the patch of that list.
pub(super) fn apply(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    place: Place<'_>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = list_of(patch.remove(&directive))?.unwrap_or_default();
        let key = target(&directive, SET_ORDER)?;
        let old = original.get(key).cloned();
        let (old, new) = (list_of(old)?, list_of(patch.get(key).cloned())?);
        let field = place.field(key)?;
        check_subset(new.as_deref().unwrap_or_default(), &order, field.merge_key)?;
        if let Some(merged) = ordered(old, new, &order, &field)? {
            original.insert(key.to_owned(), Value::Array(merged));
            patch.remove(key);
        }
    }
    Ok(())
}

fn list_of(value: Option<Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(PatchError::unclassified(format!(
            "expected a []interface {{}}, but received a {}",
            go_text::type_name(&other)
        ))),
    }
}

fn ordered(
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
    order: &[Value],
    field: &Found<'_>,
) -> Result<Option<Vec<Value>>, PatchError> {
    let (was, patch) = (old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default());
    let kind = lists::element_kind(&[was, patch])?;
    let live = match field.merge_key {
        Some(key) => Order(live_order(was, patch, key)),
        None => Order::of(was, None)?,
    };
    let merged = match (old, new) {
        (None, None) => return Ok(None),
        (Some(old), None) => old,
        (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
        (Some(old), Some(new)) => lists::merge_field(old, new, field, false)?,
    };
    if matches!(kind, Some(Kind::Map)) && field.merge_key.is_none() {
        return Err(PatchError::unclassified("cannot merge lists without merge key for struct"));
    }
    arrange(merged, &Order::of(order, field.merge_key)?, &live, field.merge_key).map(Some)
}

/// The live order as the merge leaves it: new items take the places at the end that deletions free. (Upstream
/// edits the live list in place; who replaces an item sees the new one where the list ended.)
fn live_order(old: &[Value], patch: &[Value], key: &str) -> BTreeMap<String, usize> {
    let id = |item: &Value| identity(item, Some(key));
    let directive = |item: &Value| item.get(PATCH).and_then(Value::as_str).map(str::to_owned);
    let replaces = patch.iter().any(|item| directive(item).as_deref() == Some("replace"));
    let deletions = patch.iter().filter(|item| directive(item).as_deref() == Some("delete"));
    let deleted: BTreeSet<String> = deletions.filter_map(id).collect();
    let kept: Vec<String> = old.iter().filter_map(id).filter(|id| !deleted.contains(id)).collect();
    let known: BTreeSet<&String> = kept.iter().collect();
    let set = patch.iter().filter(|item| !replaces && item.get(PATCH).is_none()).filter_map(id);
    let added: Vec<String> = set.filter(|id| !known.contains(id)).take(old.len() - kept.len()).collect();
    let mut positions = BTreeMap::new();
    for (at, id) in kept.into_iter().chain(added).enumerate() {
        positions.entry(id).or_insert(at);
    }
    positions
}

/// The patch's items must occur in the order list, in the same relative order; deletions do not count.
fn check_subset(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in patch {
        match item.get(PATCH).map(|directive| directive == "delete") {
            Some(true) => continue,
            Some(false) if rest.len() > 0 => continue,
            Some(false) => return Err(mismatch(patch, order)),
            None => {}
        }
        let id = named(item, merge_key)?;
        loop {
            match rest.next() {
                Some(next) if named(next, merge_key)? == id => break,
                Some(_) => {}
                None => return Err(mismatch(patch, order)),
            }
        }
    }
    Ok(())
}

fn mismatch(patch: &[Value], order: &[Value]) -> PatchError {
    PatchError::unclassified(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        go_text::list(patch),
        go_text::list(order)
    ))
}
