//! The fields that a value holds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::keys::step_of;
use super::shape::{Atom, ListType, MapType, Member, Type};
use crate::fields::{FieldSet, Node, PathElement};

pub(super) fn extract(ty: Type<'_>, value: &Value) -> FieldSet {
    node(ty, value).below
}

fn node(ty: Type<'_>, value: &Value) -> Node {
    match (ty.atom(value), value) {
        (Atom::Scalar(_), _) => Node { member: true, below: FieldSet::new() },
        (Atom::List(list), _) if list.is_atomic() => Node { member: true, below: FieldSet::new() },
        (Atom::Map(map), _) if map.atomic => Node { member: true, below: FieldSet::new() },
        (Atom::List(list), Value::Array(items)) => Node { member: false, below: items_of(&list, items) },
        (Atom::Map(map), Value::Object(entries)) => Node { member: false, below: entries_of(&map, entries) },
        _ => Node::default(),
    }
}

/// Items are members with their fields below; of items with the same key only the item itself is owned.
fn items_of(list: &ListType<'_>, items: &[Value]) -> FieldSet {
    let mut nodes = BTreeMap::new();
    for item in items {
        let Ok(step) = step_of(list, item) else { continue };
        match nodes.entry(step) {
            Entry::Vacant(entry) => {
                let below = node(list.items, item).below;
                entry.insert(Node { member: true, below });
            }
            Entry::Occupied(mut entry) => {
                entry.insert(Node { member: true, below: FieldSet::new() });
            }
        }
    }
    FieldSet { nodes }
}

fn entries_of(map: &MapType<'_>, entries: &Map<String, Value>) -> FieldSet {
    let nodes = entries.iter().filter_map(|(name, item)| {
        let node = entry_of(map.member(name), item);
        (node.member || !node.below.is_empty()).then(|| (PathElement::field(name), node))
    });
    FieldSet { nodes: nodes.collect() }
}

/// A field is a member itself when it is a leaf, null, an empty map, or a key of a free map.
fn entry_of(member: Option<Member<'_>>, item: &Value) -> Node {
    let (ty, declared) = member.map_or((Type::Deduced, false), |member| (member.ty, member.declared));
    let mut node = node(ty, item);
    let empty = item.is_null() || item.as_object().is_some_and(Map::is_empty);
    node.member |= empty || !declared;
    node
}
