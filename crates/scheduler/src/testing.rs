//! Literals for tests.

use std::sync::Arc;

use brain::Object;
use meta::ObjectExt;
use serde_json::Value;
#[cfg(test)]
use serde_json::json;
#[cfg(test)]
use store::Key;
use store::{Entry, Revision};

#[cfg(test)]
use crate::ask::Ask;

/// An object as it might stand in the store.
pub(crate) fn object(collection: &str, value: &Value) -> Object {
    let namespace = value.namespace();
    let entry = Arc::new(Entry::new(value.to_string().into(), "".into(), Revision(1), Revision(1)));
    Object::new(brain::key(collection, namespace, value.name()), entry)
}

/// The tree of a pod labelled `app: web` in the namespace `default`.
#[cfg(test)]
pub(crate) fn pod(name: &str, mut spec: Value) -> Value {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "web"}]);
    }
    spec["schedulerName"] = json!("default-scheduler");
    json!({"metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": spec, "status": {"phase": "Pending"}})
}

/// What such a pod asks for.
#[cfg(test)]
pub(crate) fn ask(name: &str, spec: Value) -> Ask {
    Ask::of(object("core/pods", &pod(name, spec)))
}

/// A spec that requests cpu in thousandths.
#[cfg(test)]
pub(crate) fn cpu(milli: i64) -> Value {
    json!({"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": format!("{milli}m")}}}]})
}

/// The tree of a node in a zone, with four processors, 8 GiB and room for ten pods.
#[cfg(test)]
pub(crate) fn node(name: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
        "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}})
}

/// The key of such a pod.
#[cfg(test)]
pub(crate) fn key(name: &str) -> Key {
    Key::new("core/pods", format!("default/{name}"))
}
