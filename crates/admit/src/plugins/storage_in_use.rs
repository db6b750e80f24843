//! StorageObjectInUseProtection: what holds data is not removed while it is used.

use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};

use crate::admission::{Case, Effects};

/// Resource and finalizer.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let found = PROTECTED.iter().find(|(group, resource, _)| case.is_for(group, resource, ""));
    let Some((_, _, finalizer)) = found else { return Ok(()) };
    if !new.finalizers().any(|own| own == *finalizer) {
        let mut finalizers = new.items(&["metadata", "finalizers"]).to_vec();
        finalizers.push(json!(finalizer));
        new.put(&["metadata", "finalizers"], finalizers);
    }
    Ok(())
}
