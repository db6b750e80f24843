//! The change log kept beside every durable object: who last changed which field, from what to what.
//!
//! Blame, drift with attribution, fight detection and undo read it. It is bounded, newest last.

use std::borrow::Cow;

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
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path of the field, e.g. `spec.replicas`; empty for the whole object (its creation).
    pub field: String,
    /// Field manager.
    pub manager: String,
    /// User name.
    pub user: String,
    /// Verb, with the subresource: `update/status`.
    pub verb: String,
    /// Value before; absent when there was none or it is secret or long.
    pub old: Option<Value>,
    /// Value after; absent when there is none or it is secret or long.
    pub new: Option<Value>,
    /// When, in seconds since the Unix epoch.
    pub time: i64,
    /// A value is not kept because it is secret or long: what is absent here may have been there.
    pub left_out: bool,
}

/// A change as it is stored. It stands beside every object, so what it has in common with the change before it is not
/// repeated: most writes change several fields.
#[derive(Serialize, Deserialize)]
struct Stored<'s> {
    #[serde(rename = "f", borrow)]
    field: Cow<'s, str>,
    #[serde(rename = "m", borrow, default, skip_serializing_if = "Option::is_none")]
    manager: Option<Cow<'s, str>>,
    #[serde(rename = "u", borrow, default, skip_serializing_if = "Option::is_none")]
    user: Option<Cow<'s, str>>,
    #[serde(rename = "v", borrow, default, skip_serializing_if = "Option::is_none")]
    verb: Option<Cow<'s, str>>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    old: Option<Cow<'s, Value>>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    new: Option<Cow<'s, Value>>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    time: Option<i64>,
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    left_out: bool,
}

/// The log of a stored object, oldest first.
pub fn change_log(entry: &Entry) -> Vec<FieldChange> {
    decoded(&entry.annex)
}

fn decoded(annex: &[u8]) -> Vec<FieldChange> {
    let stored: Vec<Stored<'_>> = serde_json::from_slice(annex).unwrap_or_default();
    let mut log: Vec<FieldChange> = Vec::with_capacity(stored.len());
    for change in stored {
        let before = log.last();
        let text = |own: Option<Cow<'_, str>>, of: fn(&FieldChange) -> &String| match own {
            Some(own) => own.into_owned(),
            None => before.map(of).cloned().unwrap_or_default(),
        };
        let change = FieldChange {
            field: change.field.into_owned(),
            manager: text(change.manager, |before| &before.manager),
            user: text(change.user, |before| &before.user),
            verb: text(change.verb, |before| &before.verb),
            old: change.old.map(Cow::into_owned),
            new: change.new.map(Cow::into_owned),
            time: change.time.or(before.map(|before| before.time)).unwrap_or_default(),
            left_out: change.left_out,
        };
        log.push(change);
    }
    log
}

fn encoded(log: &[FieldChange]) -> Bytes {
    let before = std::iter::once(None).chain(log.iter().map(Some));
    let stored = log.iter().zip(before).map(|(change, before)| {
        let text = |of: fn(&FieldChange) -> &String| {
            before.is_none_or(|before| of(before) != of(change)).then(|| Cow::from(of(change)))
        };
        Stored {
            field: Cow::from(&change.field),
            manager: text(|change| &change.manager),
            user: text(|change| &change.user),
            verb: text(|change| &change.verb),
            old: change.old.as_ref().map(Cow::Borrowed),
            new: change.new.as_ref().map(Cow::Borrowed),
            time: before.is_none_or(|before| before.time != change.time).then_some(change.time),
            left_out: change.left_out,
        }
    });
    serde_json::to_vec(&stored.collect::<Vec<_>>()).unwrap_or_default().into()
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

    #[test]
    fn what_is_stored_reads_as_it_was() {
        let mut log = vec![change("spec.replicas", 5), change("spec.paused", 5), change("status.phase", 6)];
        log[0].old = Some(Value::from(3));
        log[1].left_out = true;
        log[2].manager = "other".to_owned();
        let stored = encoded(&log);
        assert_eq!(decoded(&stored), log);
        let text = r#"[{"f":"spec.replicas","m":"m","u":"u","v":"update","o":3,"t":5},{"f":"spec.paused","x":true},"#;
        assert!(stored.starts_with(text.as_bytes()), "{stored:?}");
        assert_eq!(decoded(b""), []);
    }
}
