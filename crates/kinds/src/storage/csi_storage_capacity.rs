//! CSIStorageCapacity: how much of a class of storage is left somewhere.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, immutable, named};
use crate::core::pod::resources::quantity;
use crate::{Column, KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
    "metadata": {"name": "fast-1", "namespace": "default"}, "storageClassName": "fast", "capacity": "100Gi"}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "CSIStorageCapacity", "csistoragecapacities")
        .schema("io.k8s.api.storage.v1.CSIStorageCapacity")
        .columns(vec![
            column::name(),
            Column::new("StorageClassName", "string", "The class.", |it, _| it.text(&["storageClassName"]).into()),
            Column::new("Capacity", "string", "How much is left.", |it, _| match it.text(&["capacity"]) {
                "" => "<unset>".into(),
                amount => amount.into(),
            }),
            column::age(),
        ])
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(capacity: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(capacity);
    named(&root.field("storageClassName"), name::dns1123_subdomain, &mut faults);
    for field in ["capacity", "maximumVolumeSize"] {
        let at = root.field(field);
        if at.is_set() {
            quantity(&at, "storage", &mut faults);
        }
    }
    let topology = root.field("nodeTopology");
    if topology.is_set() {
        faults.extend(Selector::validate(topology.value, &topology.path));
    }
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    for field in ["nodeTopology", "storageClassName"] {
        immutable(&root.field(field), &old_root.field(field), &mut faults);
    }
    faults
}
