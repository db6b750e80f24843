//! Which workloads a change of a child concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use brain::{Meta, Object, View, key};
use meta::labels::Selector;
use serde_json::Value;
use store::{Change, Event, Key};

/// The keys of roots that are no more, by what still stands in a collection that they looked after: for a controller
/// that starts after their end. `roots` is the collection's own wake-up rule.
pub(crate) fn of_absent(view: &View, collection: &'static str, roots: fn(&View, &Event) -> Vec<Key>) -> Vec<Key> {
    let standing = view.snapshot().items(collection).map(|(item, entry)| Event {
        revision: entry.modified,
        key: Key::new(collection, item.clone()),
        change: Change::Created,
        entry: entry.clone(),
        previous: None,
    });
    let mut absent: Vec<Key> = standing.flat_map(|event| roots(view, &event)).collect();
    absent.retain(|root| view.get_key(root).is_none());
    absent.sort();
    absent.dedup();
    absent
}

/// The workloads of `kind`, stored in `collection`, that a change of a child concerns: the one that controls it, the
/// one that did, and, for a child without a controller, those that select it and so might adopt it. `selector` reads
/// the selector of such a workload's `spec`.
pub(crate) fn of_child(
    view: &View,
    event: &Event,
    kind: &str,
    collection: &str,
    selector: fn(&Value) -> Selector,
) -> Vec<Key> {
    let now = Object::new(event.key.clone(), Arc::clone(&event.entry));
    let before = event.previous.as_ref().map(|entry| Object::new(event.key.clone(), Arc::clone(entry)));
    let mut keys: BTreeSet<Key> = BTreeSet::new();
    for object in before.iter().chain([&now]) {
        keys.extend(controller(object.meta(), kind).map(|name| key(collection, &object.meta().namespace, name)));
    }
    if event.change != Change::Deleted && now.meta().controller().is_none() {
        let candidates = view.list(collection, &now.meta().namespace);
        keys.extend(candidates.into_iter().filter(|c| selects(c, selector, now.meta())).map(|c| c.key));
    }
    keys.into_iter().collect()
}

fn controller<'m>(meta: &'m Meta, kind: &str) -> Option<&'m str> {
    meta.controller().filter(|owner| &*owner.kind == kind).map(|owner| &*owner.name)
}

/// A workload's selector, read once per stored revision: every pod that nobody controls asks for it.
struct Read(Selector);

fn selects(workload: &Object, selector: fn(&Value) -> Selector, child: &Meta) -> bool {
    let read = workload.project(|bytes| {
        let tree: Value = meta::stored::read(bytes).unwrap_or_default();
        Read(tree.get("spec").map_or_else(Selector::nothing, selector))
    });
    read.0.matches(&child.labels)
}
