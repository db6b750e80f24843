//! VolumeAttributesClass: properties of a volume that can be changed while it is used.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::{GROUP, check_parameters};
use crate::check::{At, Faults, same};
use crate::core::pod::volume::csi_driver_name;
use crate::{Column, KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
    "metadata": {"name": "gold"}, "driverName": "disk.example.com", "parameters": {"iops": "4000"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "VolumeAttributesClass", "volumeattributesclasses")
        .cluster_scoped()
        .short("vac")
        .schema("io.k8s.api.storage.v1.VolumeAttributesClass")
        .columns(vec![
            column::name(),
            Column::new("DriverName", "string", "The driver that knows it.", |class, _| {
                class.text(&["driverName"]).into()
            }),
            column::age(),
        ])
        .apply_order(apply_order::CLASS)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    csi_driver_name(&root.field("driverName"), &mut faults);
    check_parameters(&root.field("parameters"), false, &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    for field in ["driverName", "parameters"] {
        if !same(root.field(field).value, old_root.field(field).value) {
            faults.push(root.field(field).forbidden(format!("updates to {field} are forbidden.")));
        }
    }
    faults
}
