//! Server-side apply.

use meta::ObjectExt as _;
use serde_json::Value;

use super::conflict::{ApplyError, Conflict};
use super::ledger::{Ledger, ManagerId, Operation, Owned};
use super::update::{converted, differences, disown, reconcile, record, strip};
use super::{Writer, blank, entries, last_applied, prune};
use crate::typed::{self, Comparison, print_faults};

/// The manager that owns what an object held before its first apply, when nobody was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What an apply makes of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The merged object with its owners, not defaulted.
    pub object: Value,
    /// Whether anything but the owners changed.
    pub changed: bool,
}

/// Merges `config`, the whole intent of one manager, into `live` (`None` when there is no object yet).
///
/// What the manager applied before, applies no more and nobody else owns is removed. Fields that others own and
/// that would change are conflicts, unless `force` takes them. Fields that nobody applies belong to nobody: the
/// caller defaults the result afterwards.
pub fn apply(writer: &Writer<'_>, live: Option<&Value>, config: &Value, force: bool) -> Result<Applied, ApplyError> {
    check(writer, config)?;
    let mut ledger = starting_ledger(writer, live)?;
    let nothing = if live.is_none() { blank::blank(writer.schema) } else { Value::Null };
    let live_or_blank = live.unwrap_or(&nothing);
    reconcile(writer, live_or_blank, &mut ledger);
    let id = writer.id(Operation::Apply);
    let last = claim(writer, config, &id, &mut ledger);
    let mut merged = live.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    typed::merge(writer.schema, &mut merged, config);
    if let Some(last) = last.filter(|last| !last.set.is_empty()) {
        merged = prune::prune(writer, merged, &ledger, &id, &last);
    }
    let change = differences(writer, live_or_blank, &merged);
    if !force {
        refuse_conflicts(writer, live_or_blank, &merged, &change, &ledger, &id)?;
    }
    disown(writer, live_or_blank, &merged, &change, &mut ledger, Some(&id));
    // A null is a change to who is told the time, even where it only says again that a field is absent.
    finish(writer, &id, live != Some(&merged), &mut ledger);
    typed::drop_nulls(writer.schema, &mut merged);
    let changed = live != Some(&merged);
    ledger.write_to(&mut merged);
    last_applied::refresh(writer, &mut merged, config);
    Ok(Applied { object: merged, changed })
}

/// Whether `config` can be applied at all: of the writer's version, without owners, only fields that the schema knows.
pub fn check(writer: &Writer<'_>, config: &Value) -> Result<(), ApplyError> {
    if config.text(&["apiVersion"]) != writer.api_version {
        return Err(ApplyError::BadRequest(format!("invalid object type: {}", kind_of(config))));
    }
    if entries(config).is_some_and(|list| !list.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let faults = typed::check(writer.schema, config);
    if faults.is_empty() {
        return Ok(());
    }
    Err(ApplyError::Unclassified(format!(
        "failed to create typed patch object ({}/{}; {}): {}",
        config.namespace(),
        config.name(),
        kind_of(config),
        print_faults(&faults)
    )))
}

/// As Go prints a GroupVersionKind: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn kind_of(object: &Value) -> String {
    let version = object.text(&["apiVersion"]);
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", object.text(&["kind"]))
}

fn starting_ledger(writer: &Writer<'_>, live: Option<&Value>) -> Result<Ledger, ApplyError> {
    let Some(live) = live else { return Ok(Ledger::default()) };
    let mut ledger = Ledger::of(live)
        .map_err(|error| ApplyError::Unclassified(format!("failed to decode managed fields: {error}")))?;
    if ledger.owners.is_empty() {
        record(&Writer { manager: BEFORE_FIRST_APPLY, ..*writer }, None, live, &mut ledger);
    }
    Ok(ledger)
}

/// Enters the applier's new set and returns its last one.
fn claim(writer: &Writer<'_>, config: &Value, id: &ManagerId, ledger: &mut Ledger) -> Option<Owned> {
    let mut set = typed::extract(writer.schema, config);
    if let Some(reset) = writer.reset {
        set = set.recursive_difference(reset);
    }
    let last = ledger.owners.remove(id);
    let time = last.as_ref().and_then(|last| last.time);
    ledger.owners.insert(id.clone(), Owned { set, api_version: writer.api_version.to_owned(), time });
    last
}

fn refuse_conflicts(
    writer: &Writer<'_>,
    live: &Value,
    merged: &Value,
    change: &Comparison,
    ledger: &Ledger,
    id: &ManagerId,
) -> Result<(), ApplyError> {
    let mut found = Vec::new();
    for (owner, owned) in ledger.owners.iter().filter(|(owner, _)| *owner != id) {
        let foreign;
        let change = match writer.foreign(&owned.api_version) {
            None => change,
            Some(_) => match converted(writer, live, merged, &owned.api_version) {
                Some(change) => {
                    foreign = change;
                    &foreign
                }
                None => continue,
            },
        };
        collect(owner, owned, change, &mut found);
    }
    if writer.manager == last_applied::KUBECTL && !found.is_empty() {
        found = last_applied::remaining(writer, live, found);
    }
    if found.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(found)) }
}

fn collect(owner: &ManagerId, owned: &Owned, change: &Comparison, found: &mut Vec<Conflict>) {
    let changed = change.modified.clone().union(change.added.clone());
    let set = changed.intersection(&owned.set);
    set.for_each(&mut |path| found.push(Conflict { manager: owner.clone(), path: path.to_vec() }));
}

/// Strips the applier's set; the time moves only with the object.
fn finish(writer: &Writer<'_>, id: &ManagerId, changed: bool, ledger: &mut Ledger) {
    let Some(mut mine) = ledger.owners.remove(id) else { return };
    mine.set = strip(mine.set);
    if changed {
        mine.time = Some(writer.now);
    }
    if !mine.set.is_empty() {
        ledger.owners.insert(id.clone(), mine);
    }
}
