//! The change log kept beside every durable object: who last changed which field, from what to what.
//!
//! Blame, drift with attribution, fight detection and undo read it. It is bounded, newest last.

use bytes::Bytes;
use kinds::KindDef;
use merge::diff;
use meta::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::Entry;

/// Most entries kept of desired fields, and of status, which changes far more often and matters less.
const DESIRED_MAX: usize = 32;
const STATUS_MAX: usize = 8;
/// Most fields looked at in one write: more is a rewrite, and the log would not hold them anyway.
const DIFF_MAX: usize = 64;
/// Longest value kept, in bytes of JSON; longer ones are cut away, not cut short.
const VALUE_BYTES_MAX: usize = 128;

/// One change of one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Path of the field, e.g. `spec.replicas`; empty for the whole object (its creation).
    #[serde(rename = "f")]
    pub field: String,
    /// Field manager.
    #[serde(rename = "m")]
    pub manager: String,
    /// User name.
    #[serde(rename = "u")]
    pub user: String,
    /// Verb, with the subresource: `update/status`.
    #[serde(rename = "v")]
    pub verb: String,
    /// Value before; absent when there was none or it is secret or long.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Value after; absent when there is none or it is secret or long.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// When, in seconds since the Unix epoch.
    #[serde(rename = "t")]
    pub time: i64,
    /// A value is not kept because it is secret or long: what is absent here may have been there.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// The log of a stored object, oldest first.
pub fn change_log(entry: &Entry) -> Vec<FieldChange> {
    serde_json::from_slice(&entry.annex).unwrap_or_default()
}

/// Who writes, for the log.
pub(crate) struct Author<'a> {
    pub manager: &'a str,
    pub user: &'a str,
    pub verb: String,
}

/// The log of an object and what a write adds to it.
#[derive(Default)]
pub(crate) struct Logged {
    /// The log so far, oldest first.
    pub before: Vec<FieldChange>,
    /// What the write changes.
    pub added: Vec<FieldChange>,
    is_kept: bool,
}

impl Logged {
    /// As it is stored.
    pub fn annex(self) -> Bytes {
        if !self.is_kept {
            return Bytes::new();
        }
        encoded(&bounded(self.before.into_iter().chain(self.added).collect()))
    }
}

/// What a write does to the log: `old` is what stood there, with its entry.
pub(crate) fn logged(kind: &KindDef, old: Option<(&Value, &Entry)>, new: &Value, by: &Author<'_>, now: Time) -> Logged {
    if kind.volatile {
        return Logged::default();
    }
    let change = |field: String, old: Option<Value>, new: Option<Value>| FieldChange {
        field,
        manager: by.manager.to_owned(),
        user: by.user.to_owned(),
        verb: by.verb.clone(),
        old,
        new,
        time: now.as_secs(),
        left_out: false,
    };
    let Some((old, entry)) = old else {
        return Logged { before: Vec::new(), added: vec![change(String::new(), None, None)], is_kept: true };
    };
    let mut added = Vec::new();
    for found in diff::structural(kind.schema.get(), old, new, DIFF_MAX).changes {
        if !is_bookkeeping(&found.path) {
            let shown = |value: Option<Value>| value.filter(|v| !is_secret(kind, &found.path) && is_short(v));
            let (old, new) = (shown(found.old.clone()), shown(found.new.clone()));
            let left_out = old.is_some() != found.old.is_some() || new.is_some() != found.new.is_some();
            added.push(FieldChange { left_out, ..change(found.path.clone(), old, new) });
        }
    }
    Logged { before: change_log(entry), added, is_kept: true }
}

/// Fields that change with every write and say nothing.
fn is_bookkeeping(path: &str) -> bool {
    ["metadata.managedFields", "metadata.resourceVersion", "metadata.generation"].iter().any(|p| path.starts_with(p))
}

fn is_secret(kind: &KindDef, path: &str) -> bool {
    kind.secret_fields.iter().any(|secret| path.starts_with(secret))
        // The last applied manifest repeats the object, secrets included.
        || (path.contains("last-applied-configuration"))
}

fn is_short(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= VALUE_BYTES_MAX,
        Value::Array(_) | Value::Object(_) => value.to_string().len() <= VALUE_BYTES_MAX,
        _ => true,
    }
}

fn bounded(log: Vec<FieldChange>) -> Vec<FieldChange> {
    let (mut desired, mut status) = (0, 0);
    let mut kept: Vec<FieldChange> = log
        .into_iter()
        .rev()
        .filter(|change| {
            let (count, max) = if change.field.starts_with("status") {
                (&mut status, STATUS_MAX)
            } else {
                (&mut desired, DESIRED_MAX)
            };
            *count += 1;
            *count <= max
        })
        .collect();
    kept.reverse();
    kept
}

fn encoded(log: &[FieldChange]) -> Bytes {
    serde_json::to_vec(log).unwrap_or_default().into()
}

/// The verb of a request as the log names it.
pub(crate) fn verb_text(verb: &str, subresource: &str) -> String {
    if subresource.is_empty() { verb.to_owned() } else { format!("{verb}/{subresource}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(field: &str, time: i64) -> FieldChange {
        let text = String::from;
        FieldChange {
            field: text(field),
            manager: text("m"),
            user: text("u"),
            verb: text("update"),
            old: None,
            new: None,
            time,
            left_out: false,
        }
    }

    #[test]
    fn the_log_keeps_the_newest_of_both_sorts() {
        let mut log: Vec<FieldChange> = (0..100).map(|t| change("status.phase", t)).collect();
        log.insert(0, change("spec.replicas", -1));
        let kept = bounded(log);
        assert_eq!(kept.len(), 1 + STATUS_MAX);
        assert_eq!((kept[0].time, kept[STATUS_MAX].time), (-1, 99));
    }
}
