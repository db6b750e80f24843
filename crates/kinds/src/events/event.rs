//! Event by its newer names. Stored in the form of the legacy group.

use meta::{FieldError, Gvk, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, immutable, optional_name, same};
use crate::core::event::{MESSAGE_MAX, NAMES, check_namespace, check_word, columns};
use crate::{Conversion, KindDef, UpdateOf};

/// What an event of this form cannot change once written; only its series goes on.
const FIXED: &[&str] = &[
    "regarding",
    "reason",
    "deprecatedSource",
    "note",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
];
const EXAMPLE: &str = r#"{"apiVersion": "events.k8s.io/v1", "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started", "type": "Normal",
    "action": "Start", "reportingController": "example.com/agent", "reportingInstance": "node-1"}"#;

/// The kind.
pub fn def() -> KindDef {
    let def = KindDef::new("events.k8s.io", "v1", "Event", "events")
        .short("ev")
        .schema("io.k8s.api.events.v1.Event")
        .volatile()
        .stored_as(Conversion { hub: Gvk::new("", "v1", "Event"), hub_plural: "events".into(), to_hub, from_hub })
        .columns(columns())
        .selectable("reason")
        .selectable("reportingController")
        .selectable("type")
        .validates(validate_new)
        .validates_update(validate_update)
        .example(EXAMPLE);
    let parts = ["apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"];
    parts.into_iter().fold(def, |def, part| {
        def.selectable_by(format!("regarding.{part}"), |event, label| {
            let part = label.rsplit('.').next().unwrap_or("");
            event.text(&["regarding", part]).to_owned()
        })
    })
}

fn to_hub(event: &mut Value) {
    rename(event, |(there, here)| (here, there));
    event.put(&["apiVersion"], "v1");
}

fn from_hub(event: &mut Value) {
    rename(event, |pair| pair);
    event.put(&["apiVersion"], "events.k8s.io/v1");
}

/// Moves every field that has two names, from the first to the second of the pair that `order` makes.
fn rename(event: &mut Value, order: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    for (from, to) in NAMES.iter().copied().map(order) {
        if let Some(value) = event.remove(&[from]) {
            event.put(&[to], value);
        }
    }
}

fn validate(event: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(event);
    check_namespace(&root, &root.field("regarding"), &mut faults);
    required_time(&root, &mut faults);
    for word in ["reportingController", "reportingInstance", "action", "reason"] {
        check_word(&root.field(word), &mut faults);
    }
    optional_name(&root.field("reportingController"), name::qualified_name, &mut faults);
    let kind = root.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        faults.push(kind.invalid_as("", format!("has invalid value: {}", kind.text())));
    }
    let note = root.field("note");
    if note.text().len() > MESSAGE_MAX {
        faults.push(note.invalid_as("", format!("can have at most {MESSAGE_MAX} characters")));
    }
    check_series(&root.field("series"), &mut faults);
    faults
}

fn required_time(root: &At, faults: &mut Faults) {
    let time = root.field("eventTime");
    if !time.is_set() {
        faults.push(time.required(""));
    }
}

fn check_series(series: &At, faults: &mut Faults) {
    if !series.is_set() {
        return;
    }
    let (count, last) = (series.field("count"), series.field("lastObservedTime"));
    if count.number() < 2 {
        faults.push(count.invalid_as("", "should be at least 2"));
    }
    if !last.is_set() {
        faults.push(last.required(""));
    }
}

/// What the old form could say and this one should not; only new events are held to it.
fn validate_new(event: &Value) -> Vec<FieldError> {
    let root = At::root(event);
    let mut faults = validate(event);
    for field in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource"] {
        let at = root.field(field);
        if !same(at.value, &Value::Null) {
            faults.push(at.invalid_as("", "needs to be unset"));
        }
    }
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    for field in FIXED {
        immutable(&root.field(field), &old_root.field(field), &mut faults);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_forms_of_one_event() {
        let event: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        let mut stored = event.clone();
        to_hub(&mut stored);
        assert_eq!(stored["involvedObject"]["kind"], "Pod");
        assert_eq!(stored["reportingComponent"], "example.com/agent");
        from_hub(&mut stored);
        assert_eq!(stored, event);
    }

    #[test]
    fn faults() {
        let texts = |faults: Vec<FieldError>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let event: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        assert_eq!(texts(validate_new(&event)), Vec::<String>::new());
        let mut new = event.clone();
        new.put(&["note"], "x");
        new.put(&["series"], json!({"count": 1}));
        let expected = [
            "series.count: Invalid value: \"\": should be at least 2",
            "series.lastObservedTime: Required value",
            "note: Invalid value: \"x\": field is immutable",
        ];
        assert_eq!(texts(validate_update(&new, &event, UpdateOf::Main)), expected);
        new.put(&["deprecatedCount"], 1);
        assert_eq!(
            texts(validate_new(&new)).last().map(String::as_str),
            Some("deprecatedCount: Invalid value: \"\": needs to be unset")
        );
    }
}
