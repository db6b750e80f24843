//! Claims and volumes.

use meta::{ObjectExt, Quantity};
use serde_json::Value;

use super::Facts;

/// Claims.
pub const CLAIMS: &str = "core/persistentvolumeclaims";
/// Volumes.
pub const VOLUMES: &str = "core/persistentvolumes";
/// Classes of volume attributes.
pub const CLASSES: &str = "storage.k8s.io/volumeattributesclasses";

/// A claim that some volume fits is bound, to a volume that knows of it.
pub fn claim_bound(facts: &Facts<'_>, claim: &Value) -> Option<String> {
    if claim.is_deleting() {
        return None;
    }
    let phase = claim.text(&["status", "phase"]);
    match claim.text(&["spec", "volumeName"]) {
        "" => {
            let volume = facts.ledger.list(VOLUMES).find(|volume| fits(volume, claim))?;
            Some(format!("is not bound though volume {} fits", volume.name()))
        }
        name => match facts.ledger.find(VOLUMES, "", name) {
            None => (phase != "Lost" && phase != "Pending").then(|| format!("is {phase} though its volume is gone")),
            Some(volume) if volume.text(&["spec", "claimRef", "uid"]) == claim.uid() => {
                (phase != "Bound").then(|| format!("is {phase} instead of Bound"))
            }
            Some(_) => (phase == "Bound").then(|| format!("is Bound to {name}, which is not its own")),
        },
    }
}

/// Whether a free volume satisfies a claim.
fn fits(volume: &Value, claim: &Value) -> bool {
    let bytes = |object: &Value, path: &[&str]| Quantity::parse(object.text(path)).ok();
    let modes = |object: &Value| object.items(&["spec", "accessModes"]).to_vec();
    let class = |object: &Value| object.text(&["spec", "storageClassName"]).to_owned();
    let offered = modes(volume);
    !volume.is_deleting()
        && volume.text(&["spec", "claimRef", "name"]).is_empty()
        && volume.text(&["status", "phase"]) == "Available"
        && class(volume) == class(claim)
        && modes(claim).iter().all(|mode| offered.contains(mode))
        && bytes(volume, &["spec", "capacity", "storage"])
            >= bytes(claim, &["spec", "resources", "requests", "storage"])
}

/// A volume's phase says what became of its claim.
pub fn volume_phase(facts: &Facts<'_>, volume: &Value) -> Option<String> {
    let at = |field: &str| volume.text(&["spec", "claimRef", field]);
    let claim = facts.ledger.find(CLAIMS, at("namespace"), at("name")).filter(|claim| claim.uid() == at("uid"));
    let wanted = match claim {
        None if at("uid").is_empty() => "Available",
        None => "Released",
        Some(claim) if claim.text(&["spec", "volumeName"]) == volume.name() => "Bound",
        // The claim is about to be told, or took another.
        Some(_) => return None,
    };
    let phase = volume.text(&["status", "phase"]);
    (phase != wanted).then(|| format!("is {phase:?} instead of {wanted}"))
}

/// Whether a claim, volume or class that is being deleted is kept because it is used.
pub fn is_used(facts: &Facts<'_>, object: &Value) -> bool {
    let uses = |pod: &Value| {
        let names = pod.items(&["spec", "volumes"]).iter().map(|v| v.text(&["persistentVolumeClaim", "claimName"]));
        let mut names = names;
        !pod.text(&["spec", "nodeName"]).is_empty() && names.any(|name| name == object.name())
    };
    match object.text(&["kind"]) {
        "PersistentVolumeClaim" => facts.ledger.list_in("core/pods", object.namespace()).any(|pod| uses(pod)),
        "PersistentVolume" => object.text(&["status", "phase"]) == "Bound",
        "VolumeAttributesClass" => facts
            .ledger
            .list(CLAIMS)
            .chain(facts.ledger.list(VOLUMES))
            .any(|user| user.text(&["spec", "volumeAttributesClassName"]) == object.name()),
        _ => false,
    }
}

fn held(object: &Value, finalizer: &str) -> Option<String> {
    let is_held = object.finalizers().any(|held| held == finalizer);
    (!is_held && !object.is_deleting()).then(|| format!("is not protected by {finalizer}"))
}

/// A claim is protected.
pub fn claim_held(_: &Facts<'_>, claim: &Value) -> Option<String> {
    held(claim, "kubernetes.io/pvc-protection")
}

/// A volume is protected.
pub fn volume_held(_: &Facts<'_>, volume: &Value) -> Option<String> {
    held(volume, "kubernetes.io/pv-protection")
}

/// A class is protected.
pub fn class_held(_: &Facts<'_>, class: &Value) -> Option<String> {
    held(class, "kubernetes.io/vac-protection")
}
