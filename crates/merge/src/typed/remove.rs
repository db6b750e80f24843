//! Removal of fields and items.

use serde_json::Value;

use super::keys::step_of;
use super::shape::{Atom, ListType, MapType, Type};
use crate::fields::{FieldSet, PathElement};

pub(super) fn remove(ty: Type<'_>, value: &mut Value, set: &FieldSet) {
    if set.is_empty() {
        return;
    }
    match ty.atom(value) {
        Atom::Scalar(_) => {}
        Atom::List(list) => remove_items(&list, value, set),
        Atom::Map(map) => remove_entries(&map, value, set),
    }
}

fn remove_items(list: &ListType<'_>, value: &mut Value, set: &FieldSet) {
    let Value::Array(items) = value else { return };
    items.retain_mut(|item| match step_of(list, item).ok().and_then(|step| set.nodes.get(&step)) {
        Some(node) if node.member => false,
        Some(node) => {
            remove(list.items, item, &node.below);
            true
        }
        None => true,
    });
    if items.is_empty() || list.is_atomic() {
        *value = Value::Null;
    }
}

fn remove_entries(map: &MapType<'_>, value: &mut Value, set: &FieldSet) {
    let Value::Object(entries) = value else { return };
    entries.retain(|name, item| match set.nodes.get(&PathElement::field(name)) {
        Some(node) if node.member => false,
        Some(node) => {
            remove(map.member(name).map_or(Type::Deduced, |member| member.ty), item, &node.below);
            true
        }
        None => true,
    });
    if entries.is_empty() || map.atomic {
        *value = Value::Null;
    }
}
