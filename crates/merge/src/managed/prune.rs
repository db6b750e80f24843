//! Removal of what an applier owned, applies no more, and nobody else owns.

use serde_json::Value;

use super::Writer;
use super::ledger::{Ledger, ManagerId, Owned};
use crate::fields::FieldSet;
use crate::typed::{self, Type};
use schema::Schema;

/// Removes from `merged` what was in `last`, the applier's set before, and is in nobody's set now. `ledger`
/// already holds the applier's new set under `id`.
pub(super) fn prune(writer: &Writer<'_>, merged: Value, ledger: &Ledger, id: &ManagerId, last: &Owned) -> Value {
    let same_version = writer.foreign(&last.api_version).is_none();
    // The usual case: everything applied before is applied again.
    if same_version && ledger.owners.get(id).is_some_and(|mine| last.set.is_subset(&mine.set)) {
        return merged;
    }
    if same_version {
        return prune_at(writer, writer.schema, writer.api_version, merged, ledger, &last.set);
    }
    let converted = writer.versions.and_then(|versions| versions.convert(&merged, &last.api_version));
    let Some((there, schema)) = converted else { return merged };
    let pruned = prune_at(writer, schema, &last.api_version, there, ledger, &last.set);
    match writer.versions.and_then(|versions| versions.convert(&pruned, writer.api_version)) {
        Some((back, _)) => back,
        None => merged,
    }
}

fn prune_at(
    writer: &Writer<'_>,
    schema: &Schema,
    api_version: &str,
    merged: Value,
    ledger: &Ledger,
    last: &FieldSet,
) -> Value {
    let last = named(schema, last.clone());
    let mut pruned = merged.clone();
    typed::remove_items(schema, &mut pruned, &last);
    let all = named(schema, typed::extract(schema, &merged));
    let pruned = add_back_owned(schema, &merged, &pruned, &all, owned_at(writer, ledger, api_version));
    let pruned = add_back_foreign(writer, schema, api_version, &merged, pruned, ledger);
    // What goes must have been the applier's own: fields that nobody owns stay in what stays.
    let kept = named(schema, typed::extract(schema, &pruned));
    let gone = all.difference(&kept).intersection(&last);
    let mut out = merged;
    typed::remove_items(schema, &mut out, &gone);
    out
}

/// `merged` without what is neither in `pruned` nor in `owned`.
fn add_back_owned(schema: &Schema, merged: &Value, pruned: &Value, all: &FieldSet, owned: FieldSet) -> Value {
    let kept = named(schema, typed::extract(schema, pruned));
    let gone = all.clone().difference(&kept).difference(&named(schema, owned));
    let mut out = merged.clone();
    typed::remove_items(schema, &mut out, &gone);
    out
}

/// The union of the sets in the terms of a version.
fn owned_at(writer: &Writer<'_>, ledger: &Ledger, api_version: &str) -> FieldSet {
    let here = ledger.owners.values().filter(|owned| owned.api_version == api_version || writer.versions.is_none());
    here.fold(FieldSet::new(), |all, owned| all.union(owned.set.clone()))
}

/// The same for owners in other versions: adds back what they own, in their terms.
fn add_back_foreign(
    writer: &Writer<'_>,
    schema: &Schema,
    api_version: &str,
    merged: &Value,
    pruned: Value,
    ledger: &Ledger,
) -> Value {
    let Some(versions) = writer.versions else { return pruned };
    let mut others: Vec<&str> = ledger.owners.values().map(|owned| owned.api_version.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    others.into_iter().filter(|version| *version != api_version).fold(pruned, |pruned, version| {
        let there = versions.convert(merged, version).zip(versions.convert(&pruned, version));
        let Some(((whole, other_schema), (part, _))) = there else { return pruned };
        let all = named(other_schema, typed::extract(other_schema, &whole));
        let kept = add_back_owned(other_schema, &whole, &part, &all, owned_at(writer, ledger, version));
        let Some((back, _)) = versions.convert(&kept, api_version) else { return pruned };
        union_of(schema, pruned, back)
    })
}

/// Conversion may lose what only one version can say, so what was kept before stays kept.
fn union_of(schema: &Schema, mut kept: Value, more: Value) -> Value {
    typed::merge(schema, &mut kept, &more);
    kept
}

fn named(schema: &Schema, mut set: FieldSet) -> FieldSet {
    typed::name_members(Type::Object(schema), &mut set);
    set
}
