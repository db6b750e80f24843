//! Diagnosis: is this object as it should be, and if not, why not?

use serde_json::json;

use super::{question, reference};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "setpoint.dev/v1alpha1", "kind": "Diagnosis", "spec": {"object":
    {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    question("Diagnosis", "diagnoses", json!({"object": reference()})).example(EXAMPLE)
}
