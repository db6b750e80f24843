//! DeviceClass: devices of a sort, by a name that claims use.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, device};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == \"gpu.example.com\""}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "DeviceClass", "deviceclasses")
        .cluster_scoped()
        .schema("io.k8s.api.resource.v1.DeviceClass")
        .counts_generation()
        .columns(vec![column::name(), column::age()])
        .apply_order(apply_order::CLASS)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    let spec = root.field("spec");
    device::check_selectors(&spec.field("selectors"), &mut faults);
    device::check_configs(&spec.field("config"), &mut faults);
    faults
}
