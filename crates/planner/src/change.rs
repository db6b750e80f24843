//! What one declared object's own request did: its fields, before and after, and whose they were.

use std::collections::{BTreeMap, BTreeSet};

use kinds::KindDef;
use merge::diff;
use merge::fields::FieldSet;
use merge::managed::{Ledger, ManagerId};
use meta::ObjectExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::redact;

/// Most fields told of one object: more is a rewrite.
const FIELDS_MAX: usize = 256;

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed in place.
    Update,
    /// It is deleted and made again, because a field cannot be changed in place.
    Replace,
    /// It is deleted.
    Delete,
    /// It is as declared.
    Keep,
    /// The server would refuse it.
    Refuse,
}

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Reference {
    /// What an object says of itself.
    pub fn of(object: &Value) -> Reference {
        Reference {
            api_version: object.text(&["apiVersion"]).to_owned(),
            kind: object.text(&["kind"]).to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
        }
    }
}

impl Reference {
    /// The least manifest that names the object.
    pub fn manifest(&self) -> Value {
        json!({"apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": self.name, "namespace": self.namespace}})
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// `spec.template.spec.containers[name=web].image`.
    pub path: String,
    /// Before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// After; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// Values are not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// Changing it makes a new object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forces_replacement: bool,
}

/// One declared object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What becomes of it.
    pub action: Action,
    /// Which.
    pub object: Reference,
    /// Its uid before, if it was there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The revision that the change was worked out on; empty when it was not there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Why, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// More changes than are told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Fields that stay as they are.
    #[serde(default)]
    pub unchanged: usize,
    /// What the server would say of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Fields that are others' too, or were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ownership: Vec<Ownership>,
    /// Values that are applied instead of the declared ones: path and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
}

/// A field between managers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ownership {
    /// Which field.
    pub path: String,
    /// The other manager.
    pub manager: String,
    /// It loses the field; otherwise both own it from now on.
    pub taken: bool,
}

/// A declared value that is not applied, because somebody else is there to choose it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Which field.
    pub path: String,
    /// As declared.
    pub declared: Value,
    /// As it is, and stays.
    pub value: Value,
    /// Whose it is.
    pub by: String,
}

impl Change {
    /// Of an object about which nothing is known yet.
    pub fn new(action: Action, object: Reference) -> Change {
        Change {
            action,
            object,
            uid: String::new(),
            resource_version: String::new(),
            reason: String::new(),
            fields: Vec::new(),
            truncated: false,
            unchanged: 0,
            warnings: Vec::new(),
            ownership: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Adds what differs between two states of the object; `None` when there is none.
    pub(crate) fn tell(&mut self, kind: &KindDef, before: Option<&Value>, after: Option<&Value>) {
        if let Some(before) = before {
            self.uid = before.uid().to_owned();
            self.resource_version = before.text(&["metadata", "resourceVersion"]).to_owned();
        }
        if let (Some(before), Some(after)) = (before, after) {
            let found = differences(kind, before, after);
            self.unchanged = leaves(after).saturating_sub(found.changes.len());
            self.truncated = found.truncated;
            self.fields = fields_of(kind, found);
            self.ownership = ownership(before, after);
        } else if let Some(after) = after {
            let shown = redact::object(kind, declared_part(after.clone()));
            self.fields = grown(kind, &shown);
        }
    }
}

/// Differences as they may be shown.
pub(crate) fn fields_of(kind: &KindDef, found: diff::Diff) -> Vec<Field> {
    found.changes.into_iter().map(|change| field(kind, change)).collect()
}

fn field(kind: &KindDef, change: diff::Change) -> Field {
    let sensitive = redact::is_secret(kind, &change.path);
    let shown = |value: Option<Value>| {
        value.map(|value| if sensitive { redact::SENSITIVE.into() } else { without_secrets(kind, &change.path, value) })
    };
    let (old, new) = (shown(change.old), shown(change.new));
    Field { path: change.path.clone(), old, new, sensitive, forces_replacement: false }
}

/// A value that may contain a secret field below it.
fn without_secrets(kind: &KindDef, path: &str, value: Value) -> Value {
    let inside =
        |secret: &&&str| secret.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('.'));
    let mut value = value;
    for secret in kind.secret_fields.iter().filter(inside) {
        let below: Vec<&str> = secret[path.len()..].split('.').filter(|step| !step.is_empty()).collect();
        if value.at(&below).is_some() {
            value.put(&below, redact::SENSITIVE);
        }
    }
    value
}

/// The differences that matter: what people or controllers decide, not the bookkeeping of every write.
pub(crate) fn differences(kind: &KindDef, before: &Value, after: &Value) -> diff::Diff {
    let (before, after) = (declared_part(before.clone()), declared_part(after.clone()));
    diff::structural(kind.schema.get(), &before, &after, FIELDS_MAX)
}

/// An object without its status and what the server writes with every change.
fn declared_part(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"] {
        object.remove(&["metadata", field]);
    }
    object
}

/// The fields of an object that is made, each with its value: as far as structures go, lists as they are.
fn grown(kind: &KindDef, object: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    grow(kind, String::new(), object, &mut fields);
    fields
}

fn grow(kind: &KindDef, path: String, value: &Value, fields: &mut Vec<Field>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, below) in map {
                let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                let step = match (path.is_empty(), plain) {
                    (true, _) => name.clone(),
                    (false, true) => format!("{path}.{name}"),
                    (false, false) => format!("{path}[{name}]"),
                };
                grow(kind, step, below, fields);
            }
        }
        _ if matches!(&*path, "apiVersion" | "kind" | "metadata.name" | "metadata.namespace") => {}
        other => {
            let sensitive = redact::is_secret(kind, &path);
            fields.push(Field { path, old: None, new: Some(other.clone()), sensitive, forces_replacement: false });
        }
    }
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.iter().filter(|(name, _)| *name != "managedFields").map(|(_, v)| leaves(v)).sum(),
        Value::Array(items) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// Fields that another manager lost by this write, and those that it and the writer now share.
fn ownership(before: &Value, after: &Value) -> Vec<Ownership> {
    let (Ok(old), Ok(new)) = (Ledger::of(before), Ledger::of(after)) else { return Vec::new() };
    let gained = gains(&old, &new);
    let mut found = BTreeMap::new();
    for (id, owned) in &old.owners {
        let kept = new.owners.get(id).map(|owned| owned.set.clone()).unwrap_or_default();
        let lost = owned.set.clone().difference(&kept).intersection(&gained);
        let shared = kept.intersection(&gained);
        for (set, taken) in [(lost, true), (shared, false)] {
            for path in paths(&set) {
                found.insert((path, id.manager.clone()), taken);
            }
        }
    }
    found.into_iter().map(|((path, manager), taken)| Ownership { path, manager, taken }).collect()
}

/// What some manager owns now and did not before.
fn gains(old: &Ledger, new: &Ledger) -> FieldSet {
    let gain = |(id, owned): (&ManagerId, &merge::managed::Owned)| {
        let had = old.owners.get(id).map(|owned| owned.set.clone()).unwrap_or_default();
        owned.set.clone().difference(&had)
    };
    new.owners.iter().map(gain).fold(FieldSet::new(), FieldSet::union)
}

fn paths(set: &FieldSet) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    set.for_each(&mut |path| {
        let text: String = path.iter().map(ToString::to_string).collect();
        all.insert(text.trim_start_matches('.').to_owned());
    });
    all
}
