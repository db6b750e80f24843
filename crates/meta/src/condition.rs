//! `status.conditions`: finding one and setting one, in an object's JSON tree.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{ObjectExt, Time};

const CONDITIONS: &[&str] = &["status", "conditions"];

/// What a controller says about one aspect of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// Which aspect, e.g. `Ready`; unique within the list.
    pub type_: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// Why, one CamelCase word; empty is left out of the object.
    pub reason: &'a str,
    /// Why, for people; empty is left out of the object.
    pub message: Cow<'a, str>,
    /// The generation that was looked at; `None` leaves what stands there.
    pub observed_generation: Option<i64>,
}

impl<'a> Condition<'a> {
    /// A condition without an observed generation.
    pub fn new(type_: &'a str, status: &'a str, reason: &'a str, message: impl Into<Cow<'a, str>>) -> Self {
        Self { type_, status, reason, message: message.into(), observed_generation: None }
    }

    /// The same, saying which generation was looked at.
    pub fn observed(self, generation: i64) -> Self {
        Self { observed_generation: Some(generation), ..self }
    }
}

/// The condition of this type in the object's `status.conditions`.
pub fn find<'o>(object: &'o Value, type_: &str) -> Option<&'o Value> {
    object.items(CONDITIONS).iter().find(|condition| condition.text(&["type"]) == type_)
}

/// The status of the condition of this type; empty when there is none.
pub fn status<'o>(object: &'o Value, type_: &str) -> &'o str {
    find(object, type_).map_or("", |condition| condition.text(&["status"]))
}

/// Whether the condition of this type is `True`.
pub fn is_true(object: &Value, type_: &str) -> bool {
    status(object, type_) == "True"
}

/// Writes the condition into the object's `status.conditions`; true if that changed anything.
///
/// `lastTransitionTime` becomes `now` only when the condition is new or its status changes. Other fields of an
/// existing condition (`lastUpdateTime`, `lastProbeTime`) stay as they are: the kinds that have them differ in
/// when they move them.
pub fn set(object: &mut Value, condition: Condition<'_>, now: Time) -> bool {
    let conditions = list(object);
    let place = conditions.iter().position(|existing| existing.text(&["type"]) == condition.type_);
    let existing = match place.and_then(|index| conditions.get_mut(index)).and_then(Value::as_object_mut) {
        Some(existing) => existing,
        None => {
            conditions.push(Value::Object(fresh(&condition, now)));
            return true;
        }
    };
    let moved = existing.get("status").and_then(Value::as_str) != Some(condition.status);
    if moved {
        existing.insert("lastTransitionTime".to_owned(), now.to_rfc3339().into());
    }
    update(existing, &condition) || moved
}

/// Removes the conditions of this type; true if there was one.
pub fn remove(object: &mut Value, type_: &str) -> bool {
    if find(object, type_).is_none() {
        return false;
    }
    list(object).retain(|condition| condition.text(&["type"]) != type_);
    true
}

fn list(object: &mut Value) -> &mut Vec<Value> {
    let slot = object.map_mut(&["status"]).entry("conditions").or_insert(Value::Null);
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    match slot {
        Value::Array(conditions) => conditions,
        _ => unreachable!("made an array above"),
    }
}

fn fresh(condition: &Condition<'_>, now: Time) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), condition.type_.into());
    fields.insert("lastTransitionTime".to_owned(), now.to_rfc3339().into());
    update(&mut fields, condition);
    fields
}

/// Everything but type and times; true if anything changed.
fn update(fields: &mut Map<String, Value>, condition: &Condition<'_>) -> bool {
    let mut changed = put(fields, "status", condition.status);
    changed |= put(fields, "reason", condition.reason);
    changed |= put(fields, "message", &condition.message);
    if let Some(generation) = condition.observed_generation {
        changed |= fields.insert("observedGeneration".to_owned(), generation.into()) != Some(generation.into());
    }
    changed
}

/// Empty text means an absent field, except that one which stands there empty may stay.
fn put(fields: &mut Map<String, Value>, name: &str, text: &str) -> bool {
    if fields.get(name).map_or("", |value| value.as_str().unwrap_or("")) == text {
        return false;
    }
    match text {
        "" => fields.remove(name),
        text => fields.insert(name.to_owned(), text.into()),
    };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOON: Time = Time::from_secs(43_200);
    const LATER: Time = Time::from_secs(43_260);

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut pod = json!({"kind": "Pod"});
        assert!(set(&mut pod, Condition::new("Ready", "False", "Starting", "").observed(1), NOON));
        let expected = json!({"type": "Ready", "status": "False", "reason": "Starting", "observedGeneration": 1,
            "lastTransitionTime": "1970-01-01T12:00:00Z"});
        assert_eq!(find(&pod, "Ready"), Some(&expected));

        assert!(!set(&mut pod, Condition::new("Ready", "False", "Starting", ""), LATER));
        assert_eq!(find(&pod, "Ready"), Some(&expected));

        assert!(set(&mut pod, Condition::new("Ready", "False", "Waiting", format!("for {}", 1)).observed(2), LATER));
        let ready = find(&pod, "Ready").unwrap();
        assert_eq!(ready.text(&["lastTransitionTime"]), "1970-01-01T12:00:00Z");
        assert_eq!((ready.text(&["message"]), ready.int(&["observedGeneration"])), ("for 1", Some(2)));

        assert!(set(&mut pod, Condition::new("Ready", "True", "", ""), LATER));
        let ready = find(&pod, "Ready").unwrap();
        assert_eq!(ready.text(&["lastTransitionTime"]), "1970-01-01T12:01:00Z");
        assert!(ready.get("reason").is_none() && is_true(&pod, "Ready"));
    }

    #[test]
    fn others_and_their_fields_stay() {
        let mut object = json!({"status": {"conditions": [
            {"type": "A", "status": "True", "lastProbeTime": null}, {"type": "B", "status": "True"}]}});
        assert!(set(&mut object, Condition::new("A", "False", "", ""), NOON));
        assert!(set(&mut object, Condition::new("C", "Unknown", "", ""), NOON));
        assert_eq!(status(&object, "A"), "False");
        assert!(object.items(CONDITIONS)[0].get("lastProbeTime").is_some());
        assert!(remove(&mut object, "A") && !remove(&mut object, "A"));
        let types: Vec<_> = object.items(CONDITIONS).iter().map(|c| c.text(&["type"])).collect();
        assert_eq!(types, ["B", "C"]);
        assert_eq!((find(&json!(null), "A"), status(&object, "A")), (None, ""));
    }

    #[test]
    fn what_is_no_list_is_replaced() {
        let mut object = json!({"status": {"conditions": [7, {"type": "A", "status": "True"}]}});
        assert!(!set(&mut object, Condition::new("A", "True", "", ""), NOON));
        for mut odd in [json!({"status": null}), json!({"status": {"conditions": {}}}), json!(3)] {
            assert!(set(&mut odd, Condition::new("A", "True", "", ""), NOON));
            assert!(is_true(&odd, "A"));
        }
    }
}
