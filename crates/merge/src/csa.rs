//! Client-side apply: the patch that brings a live object from what was applied last to what is applied now.

use std::collections::{BTreeMap, BTreeSet};

use schema::Schema;
use serde_json::{Map, Value, json};

use crate::PatchError;
use crate::strategic::place::{Found, Place, identity};
use crate::strategic::{DELETE_FROM, Kind, PATCH, RETAIN_KEYS, SET_ORDER, element_kind, keyless};

/// The patch from the last applied configuration `original`, the new one `modified` and the live object `current`:
/// what `modified` sets and `current` has not, and the deletion of what `original` set and `modified` does not.
///
/// With a schema the result is a strategic merge patch; without one, as for custom resources, a JSON merge patch.
/// An empty map means that there is nothing to do.
pub fn three_way(
    schema: Option<&Schema>,
    original: &Value,
    modified: &Value,
    current: &Value,
) -> Result<Value, PatchError> {
    let kind = modified.get("kind").and_then(Value::as_str).unwrap_or_default();
    let place = schema.map_or(Place::Free, |schema| Place::root(schema, kind));
    let none = Map::new();
    let map = |value: &'_ Value| value.as_object().cloned().unwrap_or_default();
    let sides = Sides {
        original: original.as_object().unwrap_or(&none),
        modified: modified.as_object().unwrap_or(&none),
        current: &map(current),
    };
    maps(&sides, place, false).map(Value::Object)
}

struct Sides<'v> {
    original: &'v Map<String, Value>,
    modified: &'v Map<String, Value>,
    current: &'v Map<String, Value>,
}

type Patch = Map<String, Value>;

fn maps(sides: &Sides<'_>, place: Place<'_>, retain_keys: bool) -> Result<Patch, PatchError> {
    let mut patch = Patch::new();
    for (key, new) in sides.modified {
        entry(sides, key, new, place, &mut patch)?;
    }
    for key in sides.original.keys().filter(|key| !sides.modified.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    let surplus = |map: &Map<String, Value>| map.keys().any(|key| !sides.modified.contains_key(key));
    if retain_keys && (!patch.is_empty() || surplus(sides.current) || surplus(sides.original)) {
        let kept: Vec<&String> =
            sides.modified.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        if !kept.is_empty() {
            patch.insert(RETAIN_KEYS.to_owned(), json!(kept));
        }
    }
    Ok(patch)
}

fn entry(sides: &Sides<'_>, key: &str, new: &Value, place: Place<'_>, patch: &mut Patch) -> Result<(), PatchError> {
    match (sides.current.get(key), new) {
        (Some(Value::Object(live)), Value::Object(new)) => {
            let found = place.field(key)?;
            let none = Map::new();
            let original = sides.original.get(key).and_then(Value::as_object).unwrap_or(&none);
            if found.replace {
                set_if_changed(patch, key, live != new, || Value::Object(new.clone()));
                return Ok(());
            }
            let below = maps(&Sides { original, modified: new, current: live }, found.place, found.retain_keys)?;
            set_if_changed(patch, key, !below.is_empty(), || Value::Object(below));
            Ok(())
        }
        (Some(Value::Array(live)), Value::Array(new)) => {
            let found = place.field(key)?;
            let original = sides.original.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            lists(Lists { original, modified: new, current: live }, key, &found, patch)
        }
        (live, new) => {
            set_if_changed(patch, key, live != Some(new), || new.clone());
            Ok(())
        }
    }
}

fn set_if_changed(patch: &mut Patch, key: &str, changed: bool, value: impl FnOnce() -> Value) {
    if changed {
        patch.insert(key.to_owned(), value());
    }
}

struct Lists<'v> {
    original: &'v [Value],
    modified: &'v [Value],
    current: &'v [Value],
}

fn lists(lists: Lists<'_>, key: &str, found: &Found<'_>, patch: &mut Patch) -> Result<(), PatchError> {
    if !found.merge {
        set_if_changed(patch, key, lists.current != lists.modified, || lists.modified.to_vec().into());
        return Ok(());
    }
    match element_kind(&[lists.original, lists.modified, lists.current])? {
        None => Ok(()),
        Some(Kind::Scalar) => {
            scalars(&lists, key, patch);
            Ok(())
        }
        Some(Kind::Map) => match found.merge_key {
            Some(merge_key) => items(&lists, key, merge_key, found, patch),
            None => Err(PatchError::unclassified("cannot merge lists without merge key for struct")),
        },
    }
}

fn scalars(lists: &Lists<'_>, key: &str, patch: &mut Patch) {
    let set = |items: &[Value]| -> BTreeSet<String> { items.iter().map(Value::to_string).collect() };
    let without = |items: &[Value], others: &[Value]| -> Vec<Value> {
        let others = set(others);
        items.iter().filter(|item| !others.contains(&item.to_string())).cloned().collect()
    };
    let added = without(lists.modified, lists.current);
    let deleted = without(lists.original, lists.modified);
    if lists.current != lists.modified || !deleted.is_empty() {
        set_order(patch, key, lists.modified.to_vec());
    }
    set_if_changed(patch, key, !added.is_empty(), || added.into());
    set_if_changed(patch, &format!("{DELETE_FROM}/{key}"), !deleted.is_empty(), || deleted.into());
}

fn set_order(patch: &mut Patch, key: &str, order: Vec<Value>) {
    if !order.is_empty() {
        patch.insert(format!("{SET_ORDER}/{key}"), order.into());
    }
}

/// Items by key and by how many with the same key come before (two ports may share a number).
type ByKey<'v> = BTreeMap<(String, usize), &'v Map<String, Value>>;

/// The identity of every item in turn.
fn identities(items: &[Value], merge_key: &str) -> Result<Vec<(String, usize)>, PatchError> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut number = |item: &Value| {
        let id = identity(item, Some(merge_key)).ok_or_else(|| keyless(item, merge_key))?;
        let count = seen.entry(id.clone()).or_default();
        *count += 1;
        Ok((id, *count))
    };
    items.iter().map(&mut number).collect()
}

fn by_key<'v>(items: &'v [Value], merge_key: &str) -> Result<ByKey<'v>, PatchError> {
    let ids = identities(items, merge_key)?;
    Ok(ids.into_iter().zip(items).filter_map(|(id, item)| Some((id, item.as_object()?))).collect())
}

fn items(
    lists: &Lists<'_>,
    key: &str,
    merge_key: &str,
    found: &Found<'_>,
    patch: &mut Patch,
) -> Result<(), PatchError> {
    let original = by_key(lists.original, merge_key)?;
    let modified = by_key(lists.modified, merge_key)?;
    let current = by_key(lists.current, merge_key)?;
    let (none, mut out) = (Map::new(), Vec::new());
    for (item, id) in lists.modified.iter().zip(identities(lists.modified, merge_key)?) {
        let (Some(live), Some(new)) = (current.get(&id), item.as_object()) else {
            out.push(item.clone());
            continue;
        };
        let old = original.get(&id).copied().unwrap_or(&none);
        let sides = Sides { original: old, modified: new, current: live };
        let mut below = maps(&sides, found.place.items(), found.retain_keys)?;
        if !below.is_empty() {
            below.insert(merge_key.to_owned(), new.get(merge_key).cloned().unwrap_or(Value::Null));
            out.push(Value::Object(below));
        }
    }
    let gone = original.iter().filter(|(id, _)| !modified.contains_key(*id));
    out.extend(gone.map(|(_, item)| json!({PATCH: "delete", merge_key: item.get(merge_key)})));
    let keys =
        |items: &[Value]| -> Vec<Option<String>> { items.iter().map(|i| identity(i, Some(merge_key))).collect() };
    if (!out.is_empty() || keys(lists.current) != keys(lists.modified)) && !lists.current.is_empty() {
        let order = lists.modified.iter().map(|item| json!({merge_key: item.get(merge_key)}));
        set_order(patch, key, order.collect());
    }
    set_if_changed(patch, key, !out.is_empty(), || out.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_schema::deployment;

    fn pod(pod: Value) -> Value {
        json!({"spec": {"template": {"spec": pod}}})
    }

    #[test]
    fn deletes_what_was_applied_and_keeps_what_others_set() {
        let check = |original: Value, modified: Value, current: Value, expected: Value| {
            let schema = deployment();
            let patch = three_way(Some(&schema), &original, &modified, &current).expect("patch");
            let applied = crate::strategic::apply(&schema, current, &patch).expect("applies");
            assert_eq!(applied, expected, "{patch}");
        };
        check(
            json!({"spec": {"replicas": 1, "paused": true}}),
            json!({"spec": {"replicas": 2}}),
            json!({"spec": {"replicas": 1, "paused": true, "free": 1}}),
            json!({"spec": {"replicas": 2, "free": 1}}),
        );
        check(
            pod(json!({"containers": [{"name": "a"}, {"name": "b", "image": "1"}]})),
            pod(json!({"containers": [{"name": "b", "image": "2"}, {"name": "c"}]})),
            pod(json!({"containers": [{"name": "side"}, {"name": "a"}, {"name": "b", "image": "1", "args": ["x"]}]})),
            pod(json!({"containers": [{"name": "side"}, {"name": "b", "image": "2", "args": ["x"]}, {"name": "c"}]})),
        );
        check(
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
            json!({"metadata": {"finalizers": ["x", "a", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "x", "b"]}}),
        );
        check(
            pod(json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
            pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]})),
            pod(json!({"volumes": [{"name": "v", "emptyDir": {"medium": "m"}}]})),
            pod(json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]})),
        );
    }

    #[test]
    fn nothing_to_do_is_an_empty_patch() {
        let object = pod(json!({"containers": [{"name": "a", "image": "1"}]}));
        let patch = three_way(Some(&deployment()), &object, &object, &object);
        assert_eq!(patch, Ok(json!({})));
    }

    #[test]
    fn custom_resources_get_a_json_merge_patch() {
        let patch = three_way(
            None,
            &json!({"spec": {"a": 1, "list": [1]}}),
            &json!({"spec": {"list": [2]}}),
            &json!({"spec": {"a": 1, "list": [1], "other": true}}),
        );
        assert_eq!(patch, Ok(json!({"spec": {"a": null, "list": [2]}})));
    }
}
