//! PersistentVolumeClaimResize: claims grow only when bound, and only where their class allows it.

use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects};
use crate::resources;

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let (Some(new), Some(old)) = (new.filter(|_| case.is_for("", "persistentvolumeclaims", "")), case.old) else {
        return Ok(());
    };
    let size = |claim: &Value| resources::read(claim.at(&["spec", "resources", "requests"])).remove("storage");
    let grows = match (size(old), size(new)) {
        (Some(old), Some(new)) => new > old,
        (None, Some(new)) => !new.is_zero(),
        _ => false,
    };
    if !grows {
        return Ok(());
    }
    if old.text(&["status", "phase"]) != "Bound" {
        return Err(case.forbids(Some(new), "Only bound persistent volume claims can be expanded"));
    }
    if class_allows(case, old, new) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
               support resize";
    Err(case.forbids(Some(new), why))
}

fn class_allows(case: &Case<'_>, old: &Value, new: &Value) -> bool {
    let (class, old_class) = (class_of(new), class_of(old));
    let stored = || case.world.read("storage.k8s.io/storageclasses", class);
    !class.is_empty() && class == old_class && stored().is_some_and(|class| class.flag(&["allowVolumeExpansion"]))
}

/// The class a claim names; the annotation is older and counts first.
pub(super) fn class_of(claim: &Value) -> &str {
    match claim.annotation("volume.beta.kubernetes.io/storage-class") {
        Some(class) => class,
        None => claim.text(&["spec", "storageClassName"]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_grow_where_allowed() {
        let class = |name: &str, expands: bool| {
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                   "allowVolumeExpansion": expands})
        };
        let scene = Scene::new(&[class("grows", true), class("rigid", false)]);
        let claim = |class: &str, size: &str, phase: &str| {
            json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
                   "status": {"phase": phase}})
        };
        let check = |class: &str, size: &str, phase: &str, expected: bool| {
            let (old, new) = (claim(class, "1Gi", phase), claim(class, size, phase));
            let asked = update("", "persistentvolumeclaims", "d", "c");
            let outcome = validate(&scene.case(&asked, Some(&old)), Some(&new), &mut Effects::default());
            assert_eq!(outcome.is_ok(), expected, "{class} {size} {phase}");
        };
        check("grows", "2Gi", "Bound", true);
        check("grows", "2Gi", "Pending", false);
        check("rigid", "2Gi", "Bound", false);
        check("none", "2Gi", "Bound", false);
        check("rigid", "1024Mi", "Bound", true);
    }
}
