//! ResourceSlice: devices that a driver offers.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::{GROUP, device};
use crate::check::{At, Faults, immutable, required, required_name};
use crate::core::pod::affinity::node_selector;
use crate::core::pod::volume::csi_driver_name;
use crate::{Column, KindDef, UpdateOf, column};

/// Devices of one slice (upstream's limit).
const DEVICES_MAX: usize = 128;
const PLACES: &[&str] = &["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
const ONE_PLACE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const EXAMPLE: &str = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "node-1-gpu"},
    "spec": {"driver": "gpu.example.com", "nodeName": "node-1", "devices": [{"name": "gpu-0"}],
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ResourceSlice", "resourceslices")
        .cluster_scoped()
        .schema("io.k8s.api.resource.v1.ResourceSlice")
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("Node", "string", "Where the devices are.", |slice, _| {
                match slice.text(&["spec", "nodeName"]) {
                    "" => "<unset>".into(),
                    node => node.into(),
                }
            }),
            Column::new("Driver", "string", "Whose devices they are.", |slice, _| {
                slice.text(&["spec", "driver"]).into()
            }),
            Column::new("Pool", "string", "What they belong to.", |slice, _| {
                slice.text(&["spec", "pool", "name"]).into()
            }),
            column::age(),
        ])
        .selectable("spec.driver")
        .selectable("spec.nodeName")
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(slice: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(slice);
    let spec = root.field("spec");
    csi_driver_name(&spec.field("driver"), &mut faults);
    check_pool(&spec.field("pool"), &mut faults);
    check_place(&spec, &mut faults);
    let devices = spec.field("devices");
    if devices.items().len() > DEVICES_MAX {
        faults.push(FieldError::too_many(devices.path, devices.items().len(), DEVICES_MAX));
    }
    let mut names = BTreeSet::new();
    for device in devices.each() {
        let own = device.field("name");
        required_name(&own, name::dns1123_label, &mut faults);
        if !names.insert(own.text()) {
            faults.push(own.duplicate());
        }
        device.field("taints").each().for_each(|taint| device::check_taint(&taint, &mut faults));
    }
    faults
}

fn check_pool(pool: &At, faults: &mut Faults) {
    required(&pool.field("name"), faults);
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.number() <= 0 {
        faults.push(count.invalid("must be greater than zero"));
    }
    if generation.number() < 0 {
        faults.push(generation.invalid("must be greater than or equal to zero"));
    }
}

fn check_place(spec: &At, faults: &mut Faults) {
    let is_given = |field: &&&str| {
        let at = spec.field(field);
        at.is_true() || at.value.is_object() || !at.text().is_empty()
    };
    match PLACES.iter().filter(is_given).count() {
        0 => faults.push(spec.required(ONE_PLACE)),
        1 => {}
        _ => faults.push(spec.invalid(ONE_PLACE)),
    }
    let selector = spec.field("nodeSelector");
    if selector.is_set() {
        node_selector(&selector, faults);
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    for field in ["driver", "nodeName"] {
        immutable(&spec.field(field), &old_spec.field(field), &mut faults);
    }
    let (pool, old_pool) = (spec.field("pool"), old_spec.field("pool"));
    immutable(&pool.field("name"), &old_pool.field("name"), &mut faults);
    faults
}
