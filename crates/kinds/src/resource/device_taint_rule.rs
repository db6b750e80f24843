//! DeviceTaintRule: taints devices from outside their driver.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, device};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "hot"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "example.com/hot", "effect": "NoSchedule"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "DeviceTaintRule", "devicetaintrules")
        .cluster_scoped()
        .schema("io.k8s.api.resource.v1.DeviceTaintRule")
        .with_status()
        .counts_generation()
        .columns(vec![column::name(), column::age()])
        .validates(validate)
        .validates_update(|new, _, what| if what == UpdateOf::Main { validate(new) } else { Vec::new() })
        .example(EXAMPLE)
}

fn validate(rule: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(rule);
    let spec = root.field("spec");
    device::check_taint(&spec.field("taint"), &mut faults);
    faults
}
