//! Which workloads a change of a child concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brain::{Meta, Object, View, key};
use serde_json::Value;
use store::{Change, Event, Key};

/// The workloads of `kind`, stored in `collection`, that a change of a child concerns: the one that controls it, the
/// one that did, and, for a child without a controller, those whose `selects` says that they might adopt it.
pub(crate) fn of_child(
    view: &View,
    event: &Event,
    kind: &str,
    collection: &str,
    selects: fn(&Value, &BTreeMap<String, String>) -> bool,
) -> Vec<Key> {
    let now = Object::new(event.key.clone(), Arc::clone(&event.entry));
    let before = event.previous.as_ref().map(|entry| Object::new(event.key.clone(), Arc::clone(entry)));
    let mut keys: BTreeSet<Key> = BTreeSet::new();
    for object in before.iter().chain([&now]) {
        keys.extend(controller(object.meta(), kind).map(|name| key(collection, &object.meta().namespace, name)));
    }
    if event.change != Change::Deleted && now.meta().controller().is_none() {
        let candidates = view.list(collection, &now.meta().namespace);
        keys.extend(candidates.into_iter().filter(|c| selects(&c.tree(), &now.meta().labels)).map(|c| c.key));
    }
    keys.into_iter().collect()
}

fn controller<'m>(meta: &'m Meta, kind: &str) -> Option<&'m str> {
    meta.controller().filter(|owner| &*owner.kind == kind).map(|owner| &*owner.name)
}
