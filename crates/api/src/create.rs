//! POST: a new object.

use std::sync::{Arc, LazyLock};

use kinds::{KindDef, Rules};
use merge::fields::FieldSet;
use merge::managed::{self, Writer};
use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::write::fill_system_fields;
use crate::{Request, World, Write, body};

/// Length of a generated suffix, and the longest base that leaves room for it (upstream's numbers).
const SUFFIX_LENGTH: usize = 5;
const BASE_BYTES_MAX: usize = 63 - SUFFIX_LENGTH;

pub(crate) fn begin(world: World<'_>, request: &Request) -> Result<Write, ApiError> {
    let kind = &request.target.kind;
    let decoded = body::decode(&request.body, &kind.gvk(), kind.schema.get(), request.options.field_validation)?;
    let mut object = decoded.object;
    place(&mut object, request)?;
    if !object.text(&["metadata", "resourceVersion"]).is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let name_generated = generate_name(&mut object, world);
    fresh(kind, &mut object, world);
    let mut write = Write::new(request, None, object);
    write.name_generated = name_generated;
    write.warnings = decoded.warnings;
    own_fields(&mut write, world);
    Ok(write)
}

/// Makes a decoded object a new one: system fields, what clients may not set, defaults.
pub(crate) fn fresh(kind: &KindDef, object: &mut Value, world: World<'_>) {
    fill_system_fields(object, world);
    default(kind, object);
    match &kind.rules {
        Rules::BuiltIn(rules) => {
            (rules.prepare_create)(object);
            fill_status(kind, object);
        }
        Rules::Custom if kind.subresource("status").is_some() => drop(object.remove(&["status"])),
        Rules::Custom => {}
    }
}

/// An empty status stands where upstream's types always write one: patches may then point into it.
fn fill_status(kind: &KindDef, object: &mut Value) {
    let field = kind.schema.get().body().and_then(|body| body.fields.get("status"));
    let Some(field) = field.filter(|field| field.zero == schema::Zero::Fill && object.get("status").is_none()) else {
        return;
    };
    if let Ok(empty) = schema::conform(field.schema.get(), Value::Object(serde_json::Map::new())) {
        object.put(&["status"], empty.value);
    }
}

/// Fills in defaults.
pub(crate) fn default(kind: &KindDef, object: &mut Value) {
    match &kind.rules {
        Rules::BuiltIn(rules) => (rules.default)(object),
        Rules::Custom => schema::defaults::apply(kind.schema.get(), object),
    }
}

/// Records who owns which field. Reviews and other objects that are never stored have no owners.
pub(crate) fn own_fields(write: &mut Write, world: World<'_>) {
    let (kind, subresource) = (Arc::clone(&write.kind), write.attributes.subresource.clone());
    let api_version = kind.group_version().to_string();
    let writer = writer(&kind, &write.manager, &api_version, &subresource, world);
    let live = write.old.as_ref().map(|old| &old.tree);
    managed::update(&writer, live, &mut write.new);
}

/// One write, as the record of owners sees it.
pub(crate) fn writer<'a>(
    kind: &'a KindDef,
    manager: &'a str,
    api_version: &'a str,
    subresource: &'a str,
    world: World<'_>,
) -> Writer<'a> {
    let reset = reset_fields(kind, subresource);
    Writer { schema: kind.schema.get(), manager, api_version, subresource, now: world.now, reset, versions: None }
}

/// What a write through a door cannot change, and therefore never owns: the status through the object's own address,
/// everything else through the status.
fn reset_fields(kind: &KindDef, subresource: &str) -> Option<&'static FieldSet> {
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
    static SPEC_AND_METADATA: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata"]]));
    match subresource {
        "status" if kind.custom.is_some() => Some(&SPEC_AND_METADATA),
        "status" => Some(&SPEC),
        "" if kind.subresource("status").is_some() => Some(&STATUS),
        _ => None,
    }
}

/// The namespace of the address counts; the body may repeat it.
fn place(object: &mut Value, request: &Request) -> Result<(), ApiError> {
    let target = &request.target;
    if !target.kind.is_namespaced() {
        return match object.namespace() {
            "" => Ok(()),
            // Upstream quietly drops it here and complains in validation only for updates.
            _ => {
                object.remove(&["metadata", "namespace"]);
                Ok(())
            }
        };
    }
    if target.namespace.is_empty() {
        return Err(ApiError::bad_request("an empty namespace may not be set during creation"));
    }
    if !object.namespace().is_empty() && object.namespace() != target.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.put(&["metadata", "namespace"], target.namespace.clone());
    Ok(())
}

fn generate_name(object: &mut Value, world: World<'_>) -> bool {
    let base = object.text(&["metadata", "generateName"]);
    if base.is_empty() || !object.name().is_empty() {
        return false;
    }
    let mut cut = base.len().min(BASE_BYTES_MAX);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    let name = format!("{}{}", &base[..cut], world.ids.suffix(SUFFIX_LENGTH));
    object.put(&["metadata", "name"], name);
    true
}
