//! Who wrote the fields of an object: owners from the field ownership that every write keeps, the last change with its
//! user and the value before from the change log beside the object.

use api::FieldChange;
use kinds::KindDef;
use merge::diff::{self, Row};
use merge::fields::PathElement;
use merge::managed::{Ledger, Owned};
use meta::{ObjectExt, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use view::Object;

use crate::change::Reference;
use crate::redact;

/// An object with a name beside each field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    /// Which.
    pub object: Reference,
    /// Its fields in order, status last.
    pub fields: Vec<BlameRow>,
    /// What happened to it, oldest first, as far as the log goes back.
    pub history: Vec<Past>,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlameRow {
    /// Where.
    pub path: String,
    /// What stands there.
    pub value: Value,
    /// Who owns it; nobody owns what was defaulted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<Owner>,
    /// The newest change of it that the log still has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Past>,
}

/// Who owns a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Field manager.
    pub manager: String,
    /// Apply or Update.
    pub operation: String,
    /// `status`, `scale`, ... or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// When what it owns last changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
}

/// One change of one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Where; empty for the whole object.
    pub path: String,
    /// Field manager.
    pub manager: String,
    /// User.
    pub user: String,
    /// Verb, with the subresource: `patch/scale`.
    pub verb: String,
    /// When.
    pub time: String,
    /// Before; absent when there was none, or when it is secret or long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// After.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// A value was not kept: what is absent here may have been there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

impl Past {
    pub(crate) fn of(change: &FieldChange) -> Past {
        Past {
            path: change.field.clone(),
            manager: change.manager.clone(),
            user: change.user.clone(),
            verb: change.verb.clone(),
            time: Time::from_secs(change.time).to_rfc3339(),
            old: change.old.clone(),
            new: change.new.clone(),
            left_out: change.left_out,
        }
    }
}

/// Asks an object who wrote it.
pub fn blame(kind: &KindDef, object: &Object) -> Blame {
    let mut tree = object.tree();
    if let Some(conversion) = &kind.conversion {
        (conversion.from_hub)(&mut tree);
    }
    let ledger = Ledger::of(&tree).unwrap_or_default();
    let log = api::change_log(object.entry());
    tree.remove(&["metadata", "managedFields"]);
    let shown = redact::object(kind, tree);
    let fields = diff::rows(kind.schema.get(), &shown).into_iter().map(|row| told(row, &ledger, &log)).collect();
    Blame { object: Reference::of(&shown), fields, history: log.iter().map(Past::of).collect() }
}

fn told(row: Row<'_>, ledger: &Ledger, log: &[FieldChange]) -> BlameRow {
    let owns = |owned: &Owned| is_owned(owned, &row.steps);
    let owners = ledger.owners.iter().filter(|(_, owned)| owns(owned)).map(|(id, owned)| Owner {
        manager: id.manager.clone(),
        operation: id.operation.as_str().to_owned(),
        subresource: id.subresource.clone(),
        time: owned.time.map(Time::to_rfc3339).unwrap_or_default(),
    });
    let owners = owners.collect();
    BlameRow { last: last_change(log, &row.path).map(Past::of), path: row.path, value: row.value.clone(), owners }
}

/// Whether a manager owns a field, itself or as a part of something that is owned as a whole.
fn is_owned(owned: &Owned, steps: &[PathElement]) -> bool {
    if owned.set.has(steps) {
        return true;
    }
    // Items of lists are members for the sake of their place; that is no ownership of what is in them.
    let wholes = (1..steps.len()).rev().map(|length| &steps[..length]);
    wholes.filter(|part| matches!(part.last(), Some(PathElement::Field(_)))).any(|part| owned.set.has(part))
}

/// The newest change of a field, or of something that it is a part of or that is a part of it.
pub(crate) fn last_change<'l>(log: &'l [FieldChange], path: &str) -> Option<&'l FieldChange> {
    let is_part = |whole: &str, part: &str| {
        whole.is_empty() || part.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    log.iter().rev().find(|change| is_part(&change.field, path) || (!path.is_empty() && is_part(path, &change.field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_change_that_covers_a_field_is_found() {
        let change = |field: &str, time: i64| FieldChange {
            field: field.to_owned(),
            manager: "m".to_owned(),
            user: "u".to_owned(),
            verb: "update".to_owned(),
            old: None,
            new: None,
            time,
            left_out: false,
        };
        let log =
            [change("", 1), change("spec.template", 2), change("spec.replicas", 3), change("spec.replicasets", 4)];
        let check = |path: &str, time: i64| assert_eq!(last_change(&log, path).map(|c| c.time), Some(time), "{path}");
        check("spec.replicas", 3);
        check("spec.template.spec.containers[name=a].image", 2);
        check("metadata.labels[a]", 1);
    }
}
