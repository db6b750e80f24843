//! Conditions with `lastUpdateTime`, as workloads have them: a list in work, compared and written as a whole.

use meta::{ObjectExt, Time};
use serde_json::{Value, json};

/// The conditions of a status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConditionList(Vec<Value>);

impl ConditionList {
    /// Those of a status.
    pub fn of(status: &Value) -> ConditionList {
        ConditionList(status.items(&["conditions"]).to_vec())
    }

    /// One condition.
    pub fn get(&self, type_: &str) -> Option<&Value> {
        self.0.iter().find(|condition| condition.text(&["type"]) == type_)
    }

    /// Whether there is such a condition.
    pub fn has(&self, type_: &str) -> bool {
        self.get(type_).is_some()
    }

    /// The reason of a condition; empty when there is none.
    pub fn reason(&self, type_: &str) -> &str {
        self.get(type_).map_or("", |condition| condition.text(&["reason"]))
    }

    /// A time of a condition.
    pub fn time(&self, type_: &str, field: &str) -> Option<Time> {
        Time::parse(self.get(type_)?.text(&[field]))
    }

    /// Takes a condition away.
    pub fn remove(&mut self, type_: &str) {
        self.0.retain(|condition| condition.text(&["type"]) != type_);
    }

    /// Sets a condition without update time. The transition time moves when the status does.
    pub fn set(&mut self, type_: &str, status: &str, reason: &str, message: &str, now: Time) {
        let since = self.since(type_, status, now);
        self.replace(json!({
            "type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
        }));
    }

    /// Sets a condition with update time, unless status and reason stand there already: then nothing changes, not
    /// even the message.
    pub fn update(&mut self, type_: &str, status: &str, reason: &str, message: &str, now: Time) {
        let current = self.get(type_);
        if current.is_none_or(|c| c.text(&["status"]) != status || c.text(&["reason"]) != reason) {
            self.renew(type_, status, reason, message, now);
        }
    }

    /// Sets a condition and its update time, whatever stands there.
    pub fn renew(&mut self, type_: &str, status: &str, reason: &str, message: &str, now: Time) {
        let since = self.since(type_, status, now);
        self.replace(json!({
            "type": type_, "status": status, "lastUpdateTime": now.to_rfc3339(), "lastTransitionTime": since,
            "reason": reason, "message": message,
        }));
    }

    /// Puts a condition there as it is, in place of the one of its type.
    pub fn replace(&mut self, condition: Value) {
        self.remove(condition.text(&["type"]));
        self.0.push(condition);
    }

    /// The list as it stands in a status.
    pub fn into_value(self) -> Value {
        if self.0.is_empty() { Value::Null } else { self.0.into() }
    }

    fn since(&self, type_: &str, status: &str, now: Time) -> Value {
        match self.get(type_) {
            Some(current) if current.text(&["status"]) == status => {
                current.get("lastTransitionTime").cloned().unwrap_or_default()
            }
            _ => now.to_rfc3339().into(),
        }
    }
}
