//! PUT, and what every change of an existing object has in common.

use std::sync::Arc;

use kinds::{KindDef, Rules, UpdateOf};
use meta::{ApiError, ObjectExt};
use serde_json::Value;
use store::Entry;

use crate::write::{Old, update_of};
use crate::{Request, World, Write, body, create};

pub(crate) fn begin(world: World<'_>, request: &Request) -> Result<Write, ApiError> {
    let target = &request.target;
    let kind = &target.kind;
    let decoded = body::decode(&request.body, &kind.gvk(), kind.schema.get(), request.options.field_validation)?;
    expect_identity(&decoded.object, request)?;
    let old = Old::of(kind, &stored(world, request)?)?;
    expect_any_version(kind, &decoded.object)?;
    let mut write = change(world, request, old, decoded.object)?;
    write.warnings = decoded.warnings;
    Ok(write)
}

/// The entry that the request names, or 404.
pub(crate) fn stored(world: World<'_>, request: &Request) -> Result<Arc<Entry>, ApiError> {
    let target = &request.target;
    let found = world.snapshot.get_key(&target.key()).cloned();
    found.ok_or_else(|| ApiError::not_found(&target.kind.group_resource(), &target.name))
}

fn expect_identity(object: &Value, request: &Request) -> Result<(), ApiError> {
    let target = &request.target;
    let differs = |given: &str, meant: &str| !given.is_empty() && given != meant;
    if object.name().is_empty() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    if differs(object.name(), &target.name) {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            object.name(),
            target.name
        )));
    }
    if target.kind.is_namespaced() && differs(object.namespace(), &target.namespace) {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({}) does not match the namespace on the request ({})",
            object.namespace(),
            target.namespace
        )));
    }
    Ok(())
}

/// The change from `old` to `new`, `new` being decoded against the schema: preconditions that the object carries,
/// what the server owns, defaults, owners.
pub(crate) fn change(world: World<'_>, request: &Request, old: Old, new: Value) -> Result<Write, ApiError> {
    let mut write = settle(request, old, new)?;
    create::own_fields(&mut write, world);
    prepare(&mut write);
    Ok(write)
}

/// The same for an applied object, whose owners are settled already.
pub(crate) fn change_applied(request: &Request, old: Old, new: Value) -> Result<Write, ApiError> {
    let mut write = settle(request, old, new)?;
    prepare(&mut write);
    Ok(write)
}

fn settle(request: &Request, old: Old, mut new: Value) -> Result<Write, ApiError> {
    let kind = &request.target.kind;
    let insists = expect_version(kind, &old, &new, &request.target.name)?;
    keep_system_fields(&old.tree, &mut new);
    create::default(kind, &mut new);
    keep_other_half(kind, &old.tree, &mut new, update_of(&request.target.subresource));
    let mut write = Write::new(request, Some(old), new);
    write.insists = insists;
    Ok(write)
}

fn prepare(write: &mut Write) {
    if let (Rules::BuiltIn(rules), Some(old)) = (&write.kind.rules, &write.old) {
        (rules.prepare_update)(&mut write.new, &old.tree, write.update_of);
    }
}

/// Custom objects are never replaced blindly: whoever sends a whole object says which one it was made from.
fn expect_any_version(kind: &KindDef, object: &Value) -> Result<(), ApiError> {
    if kind.custom.is_none() || !object.text(&["metadata", "resourceVersion"]).is_empty() {
        return Ok(());
    }
    let error = meta::FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    // Upstream names the resource here where the kind should stand.
    let named = meta::Gvk::new(&*kind.group, "", &*kind.plural).group_kind();
    Err(ApiError::invalid(&named, object.name(), &[error]))
}

/// A resourceVersion or uid in the body must be the stored one. Says whether the body insists on a revision.
fn expect_version(kind: &KindDef, old: &Old, new: &Value, name: &str) -> Result<bool, ApiError> {
    let uid = new.uid();
    if !uid.is_empty() && uid != old.tree.uid() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.tree.uid());
        return Err(ApiError::conflict(&kind.group_resource(), name, why));
    }
    match new.text(&["metadata", "resourceVersion"]) {
        "" => Ok(false),
        version if version == old.entry.modified.0.to_string() => Ok(true),
        version if version.parse::<u64>().is_err() => {
            let error = meta::FieldError::invalid("metadata.resourceVersion", version, "must be a whole number");
            Err(ApiError::invalid(&kind.group_kind(), name, &[error]))
        }
        _ => Err(ApiError::modified(&kind.group_resource(), name)),
    }
}

/// What only the server sets stays as it is, whatever the body says.
fn keep_system_fields(old: &Value, new: &mut Value) {
    for field in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"]
    {
        match old.at(&["metadata", field]) {
            Some(value) => new.put(&["metadata", field], value.clone()),
            None => drop(new.remove(&["metadata", field])),
        }
    }
    for field in ["name", "namespace", "generateName"] {
        if let (Some(value), None) = (old.at(&["metadata", field]), new.at(&["metadata", field])) {
            new.put(&["metadata", field], value.clone());
        }
    }
    new.remove(&["metadata", "resourceVersion"]);
}

/// A write to the object leaves its status alone; a write to the status leaves everything but status and metadata
/// alone (for custom objects the metadata too, but for the record of owners).
fn keep_other_half(kind: &KindDef, old: &Value, new: &mut Value, what: UpdateOf) {
    let has_status = kind.subresource("status").is_some();
    match what {
        UpdateOf::Status => {
            let mut merged = old.clone();
            restore(&mut merged, new, "status");
            if matches!(kind.rules, Rules::BuiltIn(_)) {
                restore(&mut merged, new, "metadata");
            } else if let Some(managers) = new.at(&["metadata", "managedFields"]) {
                merged.put(&["metadata", "managedFields"], managers.clone());
            }
            merged.remove(&["metadata", "resourceVersion"]);
            *new = merged;
        }
        UpdateOf::Main if has_status => {
            let source = old.clone();
            restore(new, &source, "status");
        }
        // Other addresses write what their kinds say.
        UpdateOf::Main | UpdateOf::Other(_) => {}
    }
}

/// Makes the top-level field of `to` what it is in `from`.
fn restore(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to.put(&[field], value.clone()),
        None => drop(to.remove(&[field])),
    }
}
