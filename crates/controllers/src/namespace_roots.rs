//! What controllers that look after every namespace share.

use brain::{Object, View, key};
use serde::Deserialize;
use store::{Event, Key};

/// The phase of a namespace, read once per revision.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Namespace {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Box<str>,
}

/// Whether the namespace takes new objects.
pub(crate) fn is_active(namespace: &Object) -> bool {
    let read = |bytes: &[u8]| serde_json::from_slice::<Namespace>(bytes).unwrap_or_default();
    !namespace.meta().is_deleting() && &*namespace.project(read).status.phase != "Terminating"
}

/// The namespaces of all objects that concern every namespace.
pub(crate) fn all(view: &View) -> Vec<Key> {
    view.snapshot().items("core/namespaces").map(|(name, _)| Key::new("core/namespaces", name.clone())).collect()
}

/// The namespace of the object that changed.
pub(crate) fn of_object(_: &View, event: &Event) -> Vec<Key> {
    event.key.item.split_once('/').map(|(namespace, _)| key("core/namespaces", "", namespace)).into_iter().collect()
}
