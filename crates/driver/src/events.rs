//! Events from notes: one object a distinct reason, counted instead of repeated.

use brain::{Def, Note, Object, Severity};
use http::Method;
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use crate::perform::{Call, call, path};

const EVENTS: brain::Resource = brain::Resource::new("", "v1", "events");
/// Longest message (upstream's limit).
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The event of a note about an object; `None` for notes that make none.
pub fn event_of(def: &Def, root: &Object, note: &Note, now: Time) -> Option<Value> {
    let severity = match note.severity? {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    let meta = root.meta();
    let namespace = if meta.namespace.is_empty() { "default" } else { &*meta.namespace };
    let message = cut(&note.message, MESSAGE_BYTES_MAX);
    // The same reason for the same object is the same event: a second one is counted.
    let name = brain::child_name(&format!("{}.", meta.name), [&*meta.uid, def.name, note.reason, message]);
    let group_version = match &*def.root.group {
        "" => def.root.version.to_string(),
        group => format!("{group}/{}", def.root.version),
    };
    let stamp = now.to_rfc3339();
    Some(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": group_version, "kind": def.root_kind, "name": &*meta.name,
            "namespace": &*meta.namespace, "uid": &*meta.uid, "resourceVersion": root.revision().0.to_string(),
        },
        "reason": note.reason, "message": message, "type": severity,
        "source": {"component": format!("{}-controller", def.name)},
        "reportingComponent": format!("{}-controller", def.name), "reportingInstance": "",
        "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
    }))
}

/// The request that records an event for the first time.
pub fn first(event: &Value) -> Call {
    call(Method::POST, path(&EVENTS, event.namespace(), "", ""), "application/json", event)
}

/// The request that reads an event which exists.
pub fn read(event: &Value) -> Call {
    call(Method::GET, path(&EVENTS, event.namespace(), event.name(), ""), "application/json", &Value::Null)
}

/// The request that counts an event once more.
pub fn again(event: &Value, count: i64) -> Call {
    let patch = json!({"count": count, "lastTimestamp": event.text(&["lastTimestamp"])});
    call(Method::PATCH, path(&EVENTS, event.namespace(), event.name(), ""), "application/merge-patch+json", &patch)
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
