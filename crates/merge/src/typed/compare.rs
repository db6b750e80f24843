//! How two values of one type differ, field by field.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::keys::step_of;
use super::shape::{Atom, ListType, MapType, Type};
use crate::fields::{FieldSet, Node, Path, PathElement, compare_values};

/// The fields in which two values differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields of the new value only.
    pub added: FieldSet,
    /// Leaves with different values.
    pub modified: FieldSet,
    /// Fields of the old value only.
    pub removed: FieldSet,
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without the fields in or below `hidden`.
    pub fn excluding(self, hidden: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(hidden),
            modified: self.modified.recursive_difference(hidden),
            removed: self.removed.recursive_difference(hidden),
        }
    }
}

pub(super) fn compare(ty: Type<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), out: Comparison::default() };
    walk.value(ty, Some(old), Some(new));
    walk.out
}

struct Walk {
    path: Path,
    out: Comparison,
}

impl Walk {
    fn value(&mut self, ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => self.out.added.graft(&self.path, whole(ty, new)),
            (Some(old), None) => self.out.removed.graft(&self.path, whole(ty, old)),
            (Some(old), Some(new)) => {
                let (was, is) = (ty.atom(old), ty.atom(new));
                if !was.same_kind(&is) {
                    self.atom(was, old, new);
                }
                self.atom(is, old, new);
            }
        }
    }

    fn atom(&mut self, atom: Atom<'_>, old: &Value, new: &Value) {
        match atom {
            Atom::Scalar(_) => self.leaf(old, new),
            Atom::List(list) => {
                let (before, after) = (items_of(old), items_of(new));
                if list.is_atomic() || (before.is_empty() && after.is_empty()) {
                    return self.leaf(old, new);
                }
                self.items(&list, before, after);
            }
            Atom::Map(map) => {
                let (before, after) = (entries_of(old), entries_of(new));
                if map.atomic || (before.is_none() && after.is_none()) {
                    return self.leaf(old, new);
                }
                self.entries(&map, before, after);
            }
        }
    }

    /// Two values that are compared as wholes.
    fn leaf(&mut self, old: &Value, new: &Value) {
        if compare_values(old, new) != Ordering::Equal {
            self.out.modified.insert(&self.path);
        }
    }

    fn items(&mut self, list: &ListType<'_>, old: &[Value], new: &[Value]) {
        let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(step) = step_of(list, item) {
                pairs.entry(step).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(step) = step_of(list, item) {
                pairs.entry(step).or_default().1.push(item);
            }
        }
        for (step, (before, after)) in pairs {
            self.path.push(step);
            self.same_key(list.items, &before, &after);
            self.path.pop();
        }
    }

    /// Items of one key. Several of them are one thing, which is compared as a whole.
    fn same_key(&mut self, ty: Type<'_>, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([_, _, ..], [_, _, ..]) => {
                let pairs = old.iter().zip(new);
                let same = pairs.fold(old.len() == new.len(), |same, (l, r)| same && compare_values(l, r).is_eq());
                if !same {
                    self.out.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                self.value(ty, None, new.first().copied());
                self.out.removed.insert(&self.path);
            }
            (_, [_, _, ..]) => {
                self.value(ty, old.first().copied(), None);
                self.out.added.insert(&self.path);
            }
            _ => self.value(ty, old.first().copied(), new.first().copied()),
        }
    }

    fn entries(&mut self, map: &MapType<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        let value_in = |map: Option<&Map<String, Value>>, name: &str| map.is_some_and(|map| map.contains_key(name));
        let only_new = new.into_iter().flatten().filter(|(name, _)| !value_in(old, name));
        let names = old.into_iter().flatten().chain(only_new).map(|(name, _)| name);
        for name in names {
            let (before, after) = (old.and_then(|map| map.get(name)), new.and_then(|map| map.get(name)));
            // Most of most writes: what is equal differs nowhere below either.
            if before == after {
                continue;
            }
            let ty = map.member(name).map_or(Type::Deduced, |member| member.ty);
            self.path.push(PathElement::field(name));
            self.value(ty, before, after);
            self.path.pop();
        }
    }
}

/// All fields of a value that is on one side only: it, and everything in it.
fn whole(ty: Type<'_>, value: &Value) -> Node {
    let mut below = FieldSet::new();
    match ty.atom(value) {
        Atom::List(list) if !list.is_atomic() => {
            for item in items_of(value) {
                let Ok(step) = step_of(&list, item) else { continue };
                // Several items of one key are one thing.
                let is_one_of_several = below.nodes.contains_key(&step);
                below.nodes.insert(step, if is_one_of_several { Node::member() } else { whole(list.items, item) });
            }
        }
        Atom::Map(map) if !map.atomic => {
            for (name, value) in entries_of(value).into_iter().flatten() {
                let ty = map.member(name).map_or(Type::Deduced, |member| member.ty);
                below.nodes.insert(PathElement::field(name), whole(ty, value));
            }
        }
        _ => {}
    }
    Node { below, ..Node::member() }
}

fn items_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a map; an empty map counts as none.
fn entries_of(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|map| !map.is_empty())
}
