//! Plan: what would applying these objects do?

use serde_json::json;

use super::{manifests, question, reference};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "setpoint.dev/v1alpha1", "kind": "Plan", "spec": {"objects": [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    let flag = json!({"type": "boolean"});
    let spec = json!({
        "objects": manifests(),
        "updates": manifests(),
        "deletions": {"type": "array", "items": reference()},
        "fieldManager": {"type": "string"},
        "force": flag, "replace": flag,
    });
    question("Plan", "plans", spec).example(EXAMPLE)
}
