//! Binding: says on which node a pod runs. Never stored: the pod keeps the answer.

use meta::FieldError;
use serde_json::Value;

use crate::KindDef;
use crate::check::{At, Faults, required};

const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web-0", "namespace": "default"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Binding", "bindings")
        .schema("io.k8s.api.core.v1.Binding")
        .never_stored()
        .validates(validate)
        .example(EXAMPLE)
}

/// Checks where a pod is to be bound; also used for the `binding` subresource of pods.
pub fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let target = root.field("target");
    let kind = target.field("kind");
    if !matches!(kind.text(), "" | "Node") {
        faults.push(kind.unsupported(&["Node", "<empty>"]));
    }
    required(&target.field("name"), &mut faults);
    faults
}
