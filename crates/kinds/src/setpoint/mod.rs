//! The group `setpoint.dev`: questions about the world that this server can answer and others cannot. Nothing of it is
//! stored; the answers are versioned and described in docs/plan.md.

pub mod blame;
pub mod diagnosis;
pub mod drift;
pub mod fight_report;
pub mod plan;

use serde_json::{Value, json};

use crate::KindDef;

pub(crate) const GROUP: &str = "setpoint.dev";
const VERSION: &str = "v1alpha1";

/// A kind whose objects are asked and answered. `spec` declares the question's fields.
fn question(kind: &'static str, plural: &'static str, spec: Value) -> KindDef {
    let answer = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    KindDef::new(GROUP, VERSION, kind, plural)
        .cluster_scoped()
        .schema_inline(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec}, "status": answer}}))
        .never_stored()
}

/// The fields that name one object.
fn reference() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {"apiVersion": text, "kind": text, "namespace": text, "name": text}})
}

/// A list of manifests.
fn manifests() -> Value {
    json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}
