//! Sets brought in line with the schema.

use super::shape::{Atom, Items, Type};
use crate::fields::{FieldSet, PathElement};
use serde_json::Value;

/// Rewrites a set from a time when the schema was finer: what is atomic now is owned as a whole by whoever owned
/// a part of it.
pub(crate) fn reconcile(ty: Type<'_>, set: &mut FieldSet) {
    for (step, node) in &mut set.nodes {
        let Some(below) = child(ty, step) else { continue };
        if node.below.is_empty() || below.is_untyped() {
            continue;
        }
        if is_atomic(below) {
            node.member = true;
            node.below = FieldSet::new();
        } else {
            reconcile(below, &mut node.below);
        }
    }
}

/// Makes every declared field on the way to a member a member too, so that containers go when their content goes.
pub(crate) fn name_members(ty: Type<'_>, set: &mut FieldSet) {
    if ty.is_untyped() {
        return;
    }
    for (step, node) in &mut set.nodes {
        if node.below.is_empty() {
            continue;
        }
        node.member |= is_declared(ty, step);
        if let Some(below) = child(ty, step) {
            name_members(below, &mut node.below);
        }
    }
}

fn child<'s>(ty: Type<'s>, step: &PathElement) -> Option<Type<'s>> {
    match (ty.atom(&Value::Null), step) {
        (Atom::Map(map), PathElement::Field(name)) => map.member(name).map(|member| member.ty),
        (Atom::List(list), PathElement::Key(_)) if matches!(list.kind, Items::Keyed(_)) => Some(list.items),
        _ => None,
    }
}

fn is_declared(ty: Type<'_>, step: &PathElement) -> bool {
    match (ty.atom(&Value::Null), step) {
        (Atom::Map(map), PathElement::Field(name)) => map.member(name).is_some_and(|member| member.declared),
        _ => false,
    }
}

fn is_atomic(ty: Type<'_>) -> bool {
    match ty.atom(&Value::Null) {
        Atom::Scalar(_) => false,
        Atom::List(list) => list.is_atomic(),
        Atom::Map(map) => map.atomic,
    }
}
