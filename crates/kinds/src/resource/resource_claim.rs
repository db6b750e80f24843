//! ResourceClaim: asks for devices.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::{GROUP, device};
use crate::check::{At, Faults, immutable, required};
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

/// Pods that may share a claim (upstream's limit).
const RESERVED_MAX: usize = 256;
const EXAMPLE: &str = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ResourceClaim", "resourceclaims")
        .schema("io.k8s.api.resource.v1.ResourceClaim")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("State", "string", "pending, allocated, reserved or deleted.", |claim, _| state(claim).into()),
            column::age(),
        ])
        .apply_order(apply_order::STORAGE)
        .health(health)
        .defaults(|claim| {
            if let Some(spec) = fill::child(claim, "spec") {
                device::default_claim(spec);
            }
        })
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn state(claim: &Value) -> String {
    let allocated = claim.at(&["status", "allocation"]).is_some_and(|allocation| allocation.is_object());
    let reserved = !claim.items(&["status", "reservedFor"]).is_empty();
    let cases = [(claim.is_deleting(), "deleted"), (allocated, "allocated"), (reserved, "reserved")];
    let words: Vec<&str> = cases.into_iter().filter(|(applies, _)| *applies).map(|(_, word)| word).collect();
    if allocated || claim.is_deleting() { words.join(",") } else { "pending".to_owned() }
}

fn health(claim: &Value) -> Converged {
    // A claim is allocated when a pod needs it; until then it waits without fault.
    match state(claim).as_str() {
        "deleted" => Converged::Progressing("is being deleted".to_owned()),
        _ => Converged::Yes,
    }
}

fn validate(claim: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(claim);
    device::check_claim(&root.field("spec"), &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        let status = root.field("status");
        check_reserved(&status.field("reservedFor"), &mut faults);
        return faults;
    }
    faults.extend(validate(new));
    immutable(&root.field("spec"), &old_root.field("spec"), &mut faults);
    faults
}

fn check_reserved(list: &At, faults: &mut Faults) {
    if list.items().len() > RESERVED_MAX {
        faults.push(FieldError::too_many(list.path, list.items().len(), RESERVED_MAX));
    }
    let mut uids = BTreeSet::new();
    for consumer in list.each() {
        for field in ["resource", "name", "uid"] {
            required(&consumer.field(field), faults);
        }
        let uid = consumer.field("uid");
        if !uids.insert(uid.text()) {
            faults.push(uid.duplicate());
        }
    }
}
