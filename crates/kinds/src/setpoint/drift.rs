//! Drift: where does the world differ from these objects, and who made it so?

use serde_json::json;

use super::{manifests, question};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "setpoint.dev/v1alpha1", "kind": "Drift", "spec": {"objects": [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    question("Drift", "drifts", json!({"objects": manifests(), "fieldManager": {"type": "string"}})).example(EXAMPLE)
}
