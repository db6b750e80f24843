//! PATCH: JSON, merge, strategic merge and server-side apply.

use merge::{json_merge, json_patch, managed, strategic};
use meta::{ApiError, ObjectExt};
use schema::Schema;
use serde_json::Value;

use crate::write::Old;
use crate::{MediaType, Request, World, Write, body, create, update};

pub(crate) fn begin(world: World<'_>, request: &Request) -> Result<Write, ApiError> {
    if request.body.media_type == MediaType::ApplyYaml {
        return apply(world, request);
    }
    let kind = &request.target.kind;
    let old = Old::of(kind, &update::stored(world, request)?)?;
    let patched = patched(request, &old.tree)?;
    let decoded = body::conform(patched, kind.schema.get(), request.options.field_validation, Vec::new())?;
    let mut new = decoded.object;
    expect_kind_kept(&old.tree, &new)?;
    forget_unpatched_version(&old.tree, &mut new);
    let mut write = update::change(world, request, old, new)?;
    write.warnings = decoded.warnings;
    Ok(write)
}

/// The document with the patch applied.
pub(crate) fn patched(request: &Request, document: &Value) -> Result<Value, ApiError> {
    patched_with(request, document, request.target.kind.schema.get())
}

/// The same for a document of another kind than the address names (scale).
pub(crate) fn patched_with(request: &Request, document: &Value, schema: &Schema) -> Result<Value, ApiError> {
    let is_custom = request.target.kind.custom.is_some();
    let patch = body::decode_any(&request.body)?;
    let mut document = document.clone();
    match request.body.media_type {
        MediaType::JsonPatch => json_patch::apply(&mut document, &patch, &json_patch::Limits::default())?,
        MediaType::MergePatch => {
            expect_object(&patch)?;
            json_merge::apply(&mut document, &patch)?;
        }
        MediaType::StrategicMergePatch if !is_custom => {
            expect_object(&patch)?;
            document = strategic::apply(schema, document, &patch)?;
        }
        _ => return Err(ApiError::unsupported_media_type(accepted(is_custom))),
    }
    Ok(document)
}

/// The media types of patches that a kind takes.
pub fn accepted(is_custom: bool) -> &'static [&'static str] {
    const ALL: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ];
    if is_custom { &ALL[..3] } else { &ALL }
}

fn expect_object(patch: &Value) -> Result<(), ApiError> {
    if patch.is_object() { Ok(()) } else { Err(ApiError::bad_request("the patch must be a JSON object")) }
}

fn expect_kind_kept(old: &Value, new: &Value) -> Result<(), ApiError> {
    let same = ["apiVersion", "kind"].iter().all(|field| new.text(&[*field]) == old.text(&[*field]));
    if same { Ok(()) } else { Err(ApiError::bad_request("a patch may not change apiVersion or kind")) }
}

/// A patch that does not speak of the revision does not insist on it.
fn forget_unpatched_version(old: &Value, new: &mut Value) {
    let path = ["metadata", "resourceVersion"];
    if old.at(&path) == new.at(&path) {
        new.remove(&path);
    }
}

/// Server-side apply: makes the object where there is none.
fn apply(world: World<'_>, request: &Request) -> Result<Write, ApiError> {
    let kind = &request.target.kind;
    let decoded = body::decode_partial(&request.body, &kind.gvk(), kind.schema.get())?;
    let config = located(decoded.object, request)?;
    let entry = world.snapshot.get_key(&request.target.key());
    let old = entry.map(|entry| Old::of(kind, entry)).transpose()?;
    if old.is_some() && request.options.must_be_absent {
        return Err(ApiError::already_exists(&kind.group_resource(), &request.target.name));
    }
    if old.is_none() && !request.target.subresource.is_empty() {
        return Err(ApiError::not_found(&kind.group_resource(), &request.target.name));
    }
    let api_version = kind.group_version().to_string();
    let writer = create::writer(kind, request.manager(), &api_version, &request.target.subresource, world);
    if decoded.has_unknown {
        managed::check(&writer, &located(body::decode_any(&request.body)?, request)?)?;
    }
    let live = old.as_ref().map(|old| &old.tree);
    let merged = managed::apply(&writer, live, &config, request.options.force == Some(true))?.object;
    let mut write = match old {
        Some(old) => apply_change(request, old, merged, &config)?,
        None => {
            may_create(world, request)?;
            apply_create(world, request, merged)
        }
    };
    write.warnings = body::judged(decoded.warnings, request.options.field_validation)?;
    Ok(write)
}

/// Applying an object that is not there creates it: the right to patch is not enough.
fn may_create(world: World<'_>, request: &Request) -> Result<(), ApiError> {
    let asked = admit::Attributes { verb: "create".to_owned(), ..request.attributes() };
    let decision = world.authorizer.authorize(world.snapshot, &asked);
    if decision.is_allowed() { Ok(()) } else { Err(asked.forbidden(decision.reason())) }
}

fn located(mut config: Value, request: &Request) -> Result<Value, ApiError> {
    let target = &request.target;
    for (field, meant) in [("name", &target.name), ("namespace", &target.namespace)] {
        let given = config.text(&["metadata", field]);
        if !given.is_empty() && given != meant {
            return Err(ApiError::bad_request(format!(
                "the {field} of the object ({given}) does not match the {field} on the URL ({meant})"
            )));
        }
        if !meant.is_empty() {
            config.put(&["metadata", field], meant.clone());
        }
    }
    if config.items(&["metadata", "managedFields"]).is_empty() {
        return Ok(config);
    }
    Err(ApiError::bad_request("metadata.managedFields must be nil"))
}

fn apply_create(world: World<'_>, request: &Request, merged: Value) -> Write {
    let mut object = merged;
    let managers = object.at(&["metadata", "managedFields"]).cloned();
    create::fresh(&request.target.kind, &mut object, world);
    if let Some(managers) = managers {
        object.put(&["metadata", "managedFields"], managers);
    }
    Write::new(request, None, object)
}

fn apply_change(request: &Request, old: Old, merged: Value, config: &Value) -> Result<Write, ApiError> {
    let mut new = merged;
    // Only a revision that the applier wrote counts.
    match config.at(&["metadata", "resourceVersion"]) {
        Some(version) => new.put(&["metadata", "resourceVersion"], version.clone()),
        None => drop(new.remove(&["metadata", "resourceVersion"])),
    }
    update::change_applied(request, old, new)
}
