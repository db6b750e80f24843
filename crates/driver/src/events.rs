//! Events from notes: one object a distinct reason, counted instead of repeated.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use brain::{Call, Def, Note, Object, Resource, Severity, call, path_of};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use crate::perform::Hands;

const EVENTS: brain::Resource = brain::Resource::new("", "v1", "events");
/// Longest message (upstream's limit).
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The event of a controller's note about one of its keys; `None` for notes that make none.
pub fn event_of(def: &Def, root: &Object, note: &Note, now: Time) -> Option<Value> {
    event_from(&format!("{}-controller", def.name), &def.root, def.root_kind, root, note, now)
}

/// The event of a component's note about an object of this kind; `None` for notes that make none.
pub fn event_from(
    component: &str,
    resource: &Resource,
    kind: &str,
    root: &Object,
    note: &Note,
    now: Time,
) -> Option<Value> {
    let severity = match note.severity? {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    let meta = root.meta();
    let namespace = if meta.namespace.is_empty() { "default" } else { &*meta.namespace };
    let message = cut(&note.message, MESSAGE_BYTES_MAX);
    // The same reason for the same object is the same event: a second one is counted.
    let name = brain::child_name(&format!("{}.", meta.name), [&*meta.uid, component, note.reason, message]);
    let group_version = match &*resource.group {
        "" => resource.version.to_string(),
        group => format!("{group}/{}", resource.version),
    };
    let stamp = now.to_rfc3339();
    Some(json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": group_version, "kind": kind, "name": &*meta.name,
            "namespace": &*meta.namespace, "uid": &*meta.uid, "resourceVersion": root.revision().0.to_string(),
        },
        "reason": note.reason, "message": message, "type": severity,
        "source": {"component": component},
        "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
    }))
}

/// How often each event was told. Nobody who tells events may read them, so the teller counts.
#[derive(Default)]
pub struct Told(Mutex<BTreeMap<String, i64>>);

/// How many events are counted. One costs a hundred bytes; when there are more, counting begins again.
const TOLD_MAX: usize = 16_384;

impl Told {
    /// Counts the event once more; how often it was told with this time.
    fn count(&self, event: &Value) -> i64 {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        let count = told.entry(format!("{}/{}", event.namespace(), event.name())).or_insert(0);
        *count += 1;
        *count
    }
}

/// Records an event, or that it happened once more. One more or less is no reason to fail anything.
pub async fn tell(hands: &Hands, event: &Value) {
    let count = hands.told.count(event);
    if count > 1 {
        match hands.call(again(event, count)).await {
            // It has expired.
            Err(refused) if refused.reason == "NotFound" => {}
            _ => return,
        }
    }
    let answer = hands.call(first(event)).await;
    if answer.is_err_and(|refused| refused.reason == "AlreadyExists") {
        // Told before this process began.
        let _ = hands.call(again(event, hands.told.count(event))).await;
    }
}

/// The request that records an event for the first time.
pub fn first(event: &Value) -> Call {
    call("POST", path_of(&EVENTS, event.namespace(), "", ""), "application/json", event)
}

/// The request that counts an event once more.
pub fn again(event: &Value, count: i64) -> Call {
    let patch = json!({"count": count, "lastTimestamp": event.text(&["lastTimestamp"])});
    call("PATCH", path_of(&EVENTS, event.namespace(), event.name(), ""), "application/merge-patch+json", &patch)
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
