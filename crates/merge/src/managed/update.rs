//! Ownership after a create, update or patch.

use std::sync::LazyLock;

use meta::ObjectExt as _;
use serde_json::Value;

use super::ledger::{Ledger, Operation, Owned};
use super::{Writer, blank, entries};
use crate::fields::FieldSet;
use crate::typed::{self, Comparison, Type};

static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Without the fields that nobody owns: identity and what the server fills in.
pub fn strip(set: FieldSet) -> FieldSet {
    set.difference(&STRIPPED)
}

/// Brings `new.metadata.managedFields` up to date with a write that turns `live` (`None` on creation) into `new`,
/// both defaulted.
///
/// The writer gains what it changed and keeps what it had; everybody loses what was changed or removed by
/// another. The request's own `managedFields` count when they are valid and the write is not through a
/// subresource; an empty list or one empty entry ends all tracking.
pub fn update(writer: &Writer<'_>, live: Option<&Value>, new: &mut Value) {
    let mut ledger = starting_ledger(writer, live, new);
    new.remove(&["metadata", "managedFields"]);
    let exists = live.is_some_and(|live| !live.uid().is_empty());
    if !(ledger.owners.is_empty() && exists) {
        record(writer, live, new, &mut ledger);
        ledger.cap();
    }
    ledger.write_to(new);
}

fn starting_ledger(writer: &Writer<'_>, live: Option<&Value>, new: &Value) -> Ledger {
    let of_live = || live.and_then(|live| Ledger::of(live).ok()).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return of_live();
    }
    match entries(new) {
        Some(list) if is_reset(list) => Ledger::default(),
        Some(list) => match Ledger::decode(list) {
            Ok(ledger) if !ledger.owners.is_empty() => ledger,
            _ => of_live(),
        },
        None => of_live(),
    }
}

/// Whether a request asks to forget all owners: an empty list, or one empty entry.
fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|value| value.is_null() || *value == ""),
        _ => false,
    }
}

/// Records the change from `live` to `new` for all owners.
pub(super) fn record(writer: &Writer<'_>, live: Option<&Value>, new: &Value, ledger: &mut Ledger) {
    let nothing;
    let live = match live {
        Some(live) => live,
        None => {
            nothing = blank::blank(writer.schema);
            &nothing
        }
    };
    reconcile(writer, live, ledger);
    let change = differences(writer, live, new);
    disown(writer, live, new, &change, ledger, None);
    let gained = strip(change.modified.union(change.added));
    if gained.is_empty() {
        return;
    }
    let id = writer.id(Operation::Update);
    let had = ledger.owners.remove(&id).map(|owned| owned.set).unwrap_or_default();
    let owned = Owned { set: had.union(gained), api_version: writer.api_version.to_owned(), time: Some(writer.now) };
    ledger.owners.insert(id, owned);
}

/// How two objects of the writer's version differ, apart from what the write resets.
pub(super) fn differences(writer: &Writer<'_>, live: &Value, new: &Value) -> Comparison {
    let change = typed::compare(writer.schema, live, new);
    match writer.reset {
        Some(reset) => change.excluding(reset),
        None => change,
    }
}

/// Takes what changed from everybody but `writer_id`; who owns nothing any more goes, and so does who used a
/// version that is gone.
pub(super) fn disown(
    writer: &Writer<'_>,
    live: &Value,
    new: &Value,
    change: &Comparison,
    ledger: &mut Ledger,
    writer_id: Option<&super::ManagerId>,
) {
    let mut foreign: std::collections::BTreeMap<String, Option<Comparison>> = std::collections::BTreeMap::new();
    ledger.owners.retain(|id, owned| {
        if Some(id) == writer_id {
            return true;
        }
        let change = match writer.foreign(&owned.api_version) {
            None => Some(change),
            Some(_) => foreign
                .entry(owned.api_version.clone())
                .or_insert_with(|| converted(writer, live, new, &owned.api_version))
                .as_ref(),
        };
        let Some(change) = change else { return false };
        let set = std::mem::take(&mut owned.set);
        owned.set = set.difference(&change.modified).difference(&change.added).difference(&change.removed);
        !owned.set.is_empty()
    });
}

/// The difference in the terms of another version.
pub(super) fn converted(writer: &Writer<'_>, live: &Value, new: &Value, api_version: &str) -> Option<Comparison> {
    let versions = writer.versions?;
    let (live, schema) = versions.convert(live, api_version)?;
    let (new, _) = versions.convert(new, api_version)?;
    let change = typed::compare(schema, &live, &new);
    Some(match writer.reset {
        Some(reset) => change.excluding(reset),
        None => change,
    })
}

/// Brings sets from before a change of the schema in line with it.
pub(super) fn reconcile(writer: &Writer<'_>, live: &Value, ledger: &mut Ledger) {
    for owned in ledger.owners.values_mut() {
        match writer.foreign(&owned.api_version) {
            None => typed::reconcile(Type::Object(writer.schema), &mut owned.set),
            Some(versions) => {
                if let Some((_, schema)) = versions.convert(live, &owned.api_version) {
                    typed::reconcile(Type::Object(schema), &mut owned.set);
                }
            }
        }
    }
}
