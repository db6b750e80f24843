//! Scale: the number of replicas of anything that has one. Spoken at `scale` subresources.

use meta::FieldError;
use serde_json::Value;

use crate::KindDef;
use crate::check::{At, Faults, non_negative};

const EXAMPLE: &str = r#"{"apiVersion": "autoscaling/v1", "kind": "Scale",
    "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::spoken("autoscaling", "v1", "Scale")
        .schema("io.k8s.api.autoscaling.v1.Scale")
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(scale: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(scale);
    let spec = root.field("spec");
    non_negative(&spec.field("replicas"), &mut faults);
    faults
}
