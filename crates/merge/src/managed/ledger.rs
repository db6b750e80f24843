//! The list of owners, decoded.

use std::collections::BTreeMap;

use meta::{ObjectExt as _, Time};
use serde_json::{Map, Value, json};

use super::entries;
use crate::fields::FieldSet;

/// Most updaters that an object keeps; the oldest beyond it are merged into one (upstream's number).
const UPDATERS_MAX: usize = 10;

/// The name under which merged old updaters go.
const ANCIENT: &str = "ancient-changes";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Everything else.
    Update,
}

impl Operation {
    /// As the wire has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells managers apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Its name.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version it writes in; empty for appliers, which stay the same manager in every version.
    pub api_version: String,
    /// The subresource it writes through.
    pub subresource: String,
}

impl ManagerId {
    /// A manager's identity.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Its fields, in the terms of `api_version`.
    pub set: FieldSet,
    /// The version of the set.
    pub api_version: String,
    /// When the set last changed.
    pub time: Option<Time>,
}

/// All owners of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By identity. No set is empty after a write.
    pub owners: BTreeMap<ManagerId, Owned>,
}

impl Ledger {
    /// Reads `metadata.managedFields` of an object. The error is upstream's sentence.
    pub fn of(object: &Value) -> Result<Self, String> {
        Self::decode(entries(object).unwrap_or(&Value::Null))
    }

    /// Reads a list of entries. Of entries with the same identity the last counts.
    pub fn decode(entries: &Value) -> Result<Self, String> {
        let items = entries.as_array().map_or(&[][..], Vec::as_slice);
        let owners = items.iter().enumerate().map(|(at, entry)| decode_entry(at, entry));
        Ok(Self { owners: owners.collect::<Result<_, _>>()? })
    }

    /// The list of entries in upstream's order: appliers first, then by time, name, version and subresource.
    pub fn encode(&self) -> Value {
        let mut owners: Vec<(&ManagerId, &Owned)> = self.owners.iter().collect();
        owners.sort_by_key(|(id, owned)| {
            (id.operation, seconds(owned.time), &id.manager, &owned.api_version, &id.subresource)
        });
        owners.into_iter().map(|(id, owned)| encode_entry(id, owned)).collect()
    }

    /// Writes `metadata.managedFields`, or removes it when there are no owners.
    pub fn write_to(&self, object: &mut Value) {
        if self.owners.is_empty() {
            object.remove(&["metadata", "managedFields"]);
        } else {
            object.put(&["metadata", "managedFields"], self.encode());
        }
    }

    /// Hands what the updaters named in `from` own of the object itself to the applier `to`: the step from
    /// client-side to server-side apply.
    pub fn migrate(&mut self, from: &[&str], to: &str) {
        let moves = |id: &ManagerId| {
            id.operation == Operation::Update && id.subresource.is_empty() && from.contains(&id.manager.as_str())
        };
        let ids: Vec<ManagerId> = self.owners.keys().filter(|id| moves(id)).cloned().collect();
        let target = ManagerId::new(to, Operation::Apply, "", "");
        for owned in ids.iter().filter_map(|id| self.owners.remove(id)).collect::<Vec<_>>() {
            match self.owners.get_mut(&target) {
                Some(mine) => mine.set = std::mem::take(&mut mine.set).union(owned.set),
                None => {
                    self.owners.insert(target.clone(), owned);
                }
            }
        }
    }

    /// Merges the oldest updaters of each version into one until at most ten updaters are left.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(i64, ManagerId)> = self
            .owners
            .iter()
            .filter(|(id, _)| id.operation == Operation::Update)
            .map(|(id, owned)| (seconds(owned.time), id.clone()))
            .collect();
        updaters.sort();
        let mut left = updaters.len();
        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, id) in updaters {
            if left <= UPDATERS_MAX {
                return;
            }
            let Some(owned) = self.owners.get(&id) else { continue };
            let version = owned.api_version.clone();
            match first_of.get(&version).cloned() {
                None => {
                    first_of.insert(version, id);
                }
                Some(first) => left -= usize::from(self.merge_ancient(&first, &id, &version)),
            }
        }
    }

    /// Merges the updater `id` into the bucket of its version, which begins as the oldest updater. False when it
    /// is the bucket itself.
    fn merge_ancient(&mut self, first: &ManagerId, id: &ManagerId, version: &str) -> bool {
        let bucket = ManagerId::new(ANCIENT, Operation::Update, version, "");
        if !self.owners.contains_key(&bucket)
            && let Some(owned) = self.owners.remove(first)
        {
            self.owners.insert(bucket.clone(), owned);
        }
        if *id == bucket {
            return false;
        }
        if let (Some(owned), Some(old)) = (self.owners.remove(id), self.owners.get_mut(&bucket)) {
            old.set = std::mem::take(&mut old.set).union(owned.set);
            old.time = owned.time;
        }
        true
    }
}

fn seconds(time: Option<Time>) -> i64 {
    time.map_or(0, Time::as_secs)
}

fn decode_entry(at: usize, entry: &Value) -> Result<(ManagerId, Owned), String> {
    let operation = match entry.text(&["operation"]) {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = entry.text(&["apiVersion"]);
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match entry.text(&["fieldsType"]) {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
        other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
    }
    let set = FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null))
        .map_err(|error| format!("error decoding versioned set from entry {at}: error decoding set: {error}"))?;
    // An empty name stays empty here: it is what the entry says.
    let mut id = ManagerId::new("", operation, api_version, entry.text(&["subresource"]));
    id.manager = entry.text(&["manager"]).to_owned();
    let time = Time::parse(entry.text(&["time"]));
    Ok((id, Owned { set, api_version: api_version.to_owned(), time }))
}

fn encode_entry(id: &ManagerId, owned: &Owned) -> Value {
    let mut entry = Map::new();
    if !id.manager.is_empty() {
        entry.insert("manager".to_owned(), json!(id.manager));
    }
    entry.insert("operation".to_owned(), json!(id.operation.as_str()));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = owned.time {
        entry.insert("time".to_owned(), json!(time.to_rfc3339()));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.set.to_value());
    if !id.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(id.subresource));
    }
    Value::Object(entry)
}
