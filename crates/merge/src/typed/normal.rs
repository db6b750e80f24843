//! Null where the schema has no null.

use serde_json::Value;

use super::shape::{Atom, Type};

pub(super) fn drop_nulls(ty: Type<'_>, value: &mut Value) {
    match (ty.atom(value), value) {
        (Atom::List(list), Value::Array(items)) => items.iter_mut().for_each(|item| drop_nulls(list.items, item)),
        (Atom::Map(map), Value::Object(entries)) => entries.retain(|name, item| match map.member(name) {
            Some(member) if item.is_null() => !member.declared || member.ty.nullable(),
            Some(member) => {
                drop_nulls(member.ty, item);
                true
            }
            None => true,
        }),
        _ => {}
    }
}
