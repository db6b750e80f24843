//! PodMetrics: what a pod's containers use.

use meta::{ObjectExt, Quantity};
use serde_json::{Value, json};

use super::{columns, measured, usage};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
    "metadata": {"name": "a", "namespace": "default"}, "timestamp": "2026-01-01T00:00:00Z", "window": "15s",
    "containers": [{"name": "c", "usage": {"cpu": "12n", "memory": "3Ki"}}]}"#;

/// The kind.
pub fn def() -> KindDef {
    let container = json!({"type": "object", "properties": {"name": {"type": "string"}, "usage": usage()}});
    measured("PodMetrics", "pods", "containers", json!({"type": "array", "items": container}))
        .columns(columns(|pod, _| total(pod, "cpu"), |pod, _| total(pod, "memory")))
        .example(EXAMPLE)
}

/// Of all containers.
fn total(pod: &Value, resource: &str) -> Value {
    let used = pod
        .items(&["containers"])
        .iter()
        .filter_map(|container| Quantity::parse(container.text(&["usage", resource])).ok());
    used.reduce(|sum, one| sum.plus(&one)).map_or(Value::Null, |sum| sum.to_string().into())
}
