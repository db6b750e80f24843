//! The group `metrics.k8s.io`: what nodes and pods use at this moment. Upstream serves it from a server of its own;
//! here it is answered from the nodes' control groups. Nothing of it is stored.

pub mod node_metrics;
pub mod pod_metrics;

use meta::ObjectExt;
use serde_json::{Value, json};

use crate::{Column, KindDef, column};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// A kind that is measured when it is asked for.
fn measured(kind: &'static str, plural: &'static str, field: &str, shape: Value) -> KindDef {
    let text = json!({"type": "string"});
    let mut properties = json!({"timestamp": text, "window": text});
    properties[field] = shape;
    let mut def = KindDef::new(GROUP, VERSION, kind, plural)
        .schema_inline(&json!({"type": "object", "properties": properties}))
        .never_stored()
        .verbs(&["get", "list"]);
    def.singular = "".into();
    def
}

/// Quantities by resource.
fn usage() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// The columns of the table; `total` tells one resource of an object.
fn columns(cpu: fn(&Value, meta::Time) -> Value, memory: fn(&Value, meta::Time) -> Value) -> Vec<Column> {
    vec![
        column::name(),
        Column::new("cpu", "string", "Processor time.", cpu),
        Column::new("memory", "string", "Memory.", memory),
        Column::new("Window", "string", "Over which it was measured.", |object, _| object.text(&["window"]).into()),
    ]
}
