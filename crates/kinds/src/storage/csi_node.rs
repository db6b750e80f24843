//! CSINode: the storage drivers on a node. It has the node's name.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, required, same};
use crate::core::pod::volume::csi_driver_name;
use crate::{Column, KindDef, UpdateOf, column};

/// Longest identity that a driver gives a node, in bytes (upstream's limit).
const NODE_ID_MAX: usize = 192;
const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "node-1"},
    "spec": {"drivers": [{"name": "disk.example.com", "nodeID": "i-1", "allocatable": {"count": 16}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "CSINode", "csinodes")
        .cluster_scoped()
        .schema("io.k8s.api.storage.v1.CSINode")
        .columns(vec![
            column::name(),
            Column::new("Drivers", "integer", "Number of drivers.", |node, _| {
                node.items(&["spec", "drivers"]).len().into()
            }),
            column::age(),
        ])
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(node: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(node);
    let spec = root.field("spec");
    let mut names = BTreeSet::new();
    for driver in spec.field("drivers").each() {
        let (own, id) = (driver.field("name"), driver.field("nodeID"));
        csi_driver_name(&own, &mut faults);
        if !names.insert(own.text()) {
            faults.push(own.duplicate());
        }
        required(&id, &mut faults);
        if id.text().len() > NODE_ID_MAX {
            faults.push(id.invalid(format!("must be {NODE_ID_MAX} characters or less")));
        }
        let allocatable = driver.field("allocatable");
        let count = allocatable.field("count");
        if count.number() < 0 {
            faults.push(count.invalid("must be greater than or equal to 0"));
        }
    }
    faults
}

/// A driver's entry may come and go, but while it is there it stays what it was, except for what it can hold.
fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let root = At::root(new);
    let spec = root.field("spec");
    for driver in spec.field("drivers").each() {
        let name = driver.field("name").text();
        let before = old.items(&["spec", "drivers"]).iter().find(|before| before.text(&["name"]) == name);
        let Some(before) = before else { continue };
        for field in ["nodeID", "topologyKeys"] {
            let at = driver.field(field);
            if !same(at.value, before.get(field).unwrap_or(&Value::Null)) {
                faults.push(at.invalid("field is immutable"));
            }
        }
    }
    faults
}
