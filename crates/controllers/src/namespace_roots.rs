//! What controllers share whose keys are namespaces: those that look after every one, and those whose only key is
//! kube-system because they look after the whole cluster at once.

use brain::{Object, Resource, View, key};
use serde::Deserialize;
use store::{Event, Key};

/// Where namespaces are served.
pub(crate) const NAMESPACES: Resource = Resource::new("", "v1", "namespaces");
/// The namespace that stands for the whole cluster.
pub(crate) const HOME: &str = "kube-system";

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
    of(event, |_, _| true)
}

/// The same, if the object is called `name`.
pub(crate) fn of_named(event: &Event, name: &str) -> Vec<Key> {
    of(event, |_, own| own == name)
}

/// The key of the whole cluster, if the object that changed is kube-system's and called `name`.
pub(crate) fn home_of_named(event: &Event, name: &str) -> Vec<Key> {
    of(event, |namespace, own| (namespace, own) == (HOME, name))
}

/// The key of the whole cluster.
pub(crate) fn home() -> Key {
    key("core/namespaces", "", HOME)
}

fn of(event: &Event, is_meant: impl Fn(&str, &str) -> bool) -> Vec<Key> {
    let meant = event.key.item.split_once('/').filter(|(namespace, name)| is_meant(namespace, name));
    meant.map(|(namespace, _)| key("core/namespaces", "", namespace)).into_iter().collect()
}
