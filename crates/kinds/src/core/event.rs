//! Event: something happened to an object. Kept outside the log; `events.k8s.io` shows the same objects by newer names.

use meta::{FieldError, ObjectExt, Time, name};
use serde_json::Value;

use crate::check::{At, Faults, named};
use crate::{Column, KindDef, UpdateOf, column};

/// Upstream's limits, in bytes.
pub(crate) const WORD_MAX: usize = 128;
pub(crate) const MESSAGE_MAX: usize = 1024;
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "default"},
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started", "type": "Normal"}"#;
const INVOLVED: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
];

/// The kind.
pub fn def() -> KindDef {
    let def = KindDef::new("", "v1", "Event", "events")
        .short("ev")
        .schema("io.k8s.api.core.v1.Event")
        .volatile()
        .columns(columns())
        .selectable("reason")
        .selectable("reportingComponent")
        .selectable_by("source", |event, _| source_component(event).to_owned())
        .selectable("type")
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE);
    INVOLVED.iter().fold(def, |def, path| def.selectable(path))
}

/// Names here, and names in `events.k8s.io`.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// A field by its name here, in an event of either group.
fn part<'v>(event: &'v Value, name: &str) -> &'v Value {
    let newer = NAMES.iter().find(|(here, _)| *here == name).and_then(|(_, there)| event.get(there));
    event.get(name).or(newer).unwrap_or(&Value::Null)
}

/// The table of events, of either group.
pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::new("Last Seen", "string", "Time since it happened last.", |event, now| last_seen(event, now).into()),
        Column::new("Type", "string", "Normal or Warning.", |event, _| event.text(&["type"]).into()),
        Column::new("Reason", "string", "What happened, in one word.", |event, _| event.text(&["reason"]).into()),
        Column::new("Object", "string", "What it happened to.", |event, _| object_of(event).into()),
        Column::new("Subobject", "string", "Which part of it.", |event, _| {
            part(event, "involvedObject").text(&["fieldPath"]).into()
        })
        .wide(),
        Column::new("Source", "string", "Who says so.", |event, _| source(event).into()).wide(),
        Column::new("Message", "string", "What happened.", |event, _| part(event, "message").text(&[]).trim().into()),
        Column::new("First Seen", "string", "Time since it happened first.", |event, now| {
            first_seen(event, now).into()
        })
        .wide(),
        Column::new("Count", "string", "How often it happened.", |event, _| count(event).into()).wide(),
        {
            let mut name = column::name();
            name.priority = 1;
            name
        },
    ]
}

fn first_seen(event: &Value, now: Time) -> String {
    let stamp = match part(event, "firstTimestamp").text(&[]) {
        "" => event.text(&["eventTime"]),
        stamp => stamp,
    };
    column::since(stamp, now)
}

fn last_seen(event: &Value, now: Time) -> String {
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        return column::since(series.text(&["lastObservedTime"]), now);
    }
    match part(event, "lastTimestamp").text(&[]) {
        "" => first_seen(event, now),
        stamp => column::since(stamp, now),
    }
}

fn count(event: &Value) -> i64 {
    match event.get("series").filter(|series| series.is_object()) {
        Some(series) => series.int(&["count"]).unwrap_or(0),
        None => part(event, "count").as_i64().filter(|count| *count != 0).unwrap_or(1),
    }
}

fn object_of(event: &Value) -> String {
    let kind = part(event, "involvedObject").text(&["kind"]).to_lowercase();
    match part(event, "involvedObject").text(&["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source_component(event: &Value) -> &str {
    match part(event, "source").text(&["component"]) {
        "" => part(event, "reportingComponent").text(&[]),
        component => component,
    }
}

fn source(event: &Value) -> String {
    let instance = match part(event, "source").text(&["host"]) {
        "" => event.text(&["reportingInstance"]),
        host => host,
    };
    let component = source_component(event);
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

fn validate(event: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(event);
    check_namespace(&root, &root.field("involvedObject"), &mut faults);
    // Only events of the newer form have a time of their own, and owe the rest of it.
    if root.field("eventTime").is_set() {
        let reporter = root.field("reportingComponent");
        if reporter.text().is_empty() {
            faults.push(reporter.required(""));
        }
        named(&reporter, name::qualified_name, &mut faults);
        for word in ["reportingInstance", "action", "reason"] {
            check_word(&root.field(word), &mut faults);
        }
        let message = root.field("message");
        if message.text().len() > MESSAGE_MAX {
            faults.push(message.invalid_as("", format!("can have at most {MESSAGE_MAX} characters")));
        }
    }
    faults
}

/// An event lives where its object lives; those of cluster-scoped objects live in `default`.
pub(crate) fn check_namespace(root: &At, involved: &At, faults: &mut Faults) {
    let (wanted, own) = (involved.field("namespace"), root.value.namespace());
    let agrees = match wanted.text() {
        "" => matches!(own, "" | "default"),
        namespace => namespace == own,
    };
    if !agrees {
        faults.push(wanted.invalid_as(wanted.text(), "does not match event.namespace"));
    }
}

pub(crate) fn check_word(at: &At, faults: &mut Faults) {
    if at.text().is_empty() {
        faults.push(at.required(""));
    } else if at.text().len() > WORD_MAX {
        faults.push(at.invalid_as("", format!("can have at most {WORD_MAX} characters")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let now = Time::parse("2026-01-01T01:00:00Z").expect("valid");
        let event = json!({"involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:55:00Z"});
        assert_eq!(object_of(&event), "pod/a");
        assert_eq!(source(&event), "c, h");
        assert_eq!(first_seen(&event, now), "60m");
        assert_eq!(last_seen(&event, now), "5m");
        assert_eq!(count(&event), 1);
    }

    #[test]
    fn faults() {
        let check = |event: Value, expected: &[&str]| {
            assert_eq!(validate(&event).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        let event = |namespace: &str, involved: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}});
        check(event("a", "a"), &[]);
        check(event("default", ""), &[]);
        check(event("a", ""), &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"]);
        check(
            json!({"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "a/b"}),
            &["reportingInstance: Required value", "action: Required value", "reason: Required value"],
        );
    }
}
