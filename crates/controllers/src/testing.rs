//! What tests of workloads share: literals, and a small cluster in which nodes run what controllers make.

use brain::facts::{Fact, Seen};
use meta::ObjectExt;
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Entry, Key, Revision};

/// An object with its projection, from a literal.
pub(crate) fn seen<T: Fact>(object: Value) -> Seen<T> {
    Seen::from(stored(object))
}

/// An object as it might stand in the store.
pub(crate) fn stored(object: Value) -> brain::Object {
    let key = Key::new("any", object.name());
    let entry = Entry::new(object.to_string().into(), "".into(), Revision(1), Revision(1));
    brain::Object::new(key, Arc::new(entry))
}

/// A pod labelled `app: web`, ready (since an hour before the tests' noon) or not.
pub(crate) fn pod(name: &str, phase: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"},
            "creationTimestamp": "2026-11-30T11:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-30T11:00:00Z"}]},
    })
}
