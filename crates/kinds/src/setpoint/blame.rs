//! Blame: who wrote the fields of this object, when, and what was there before?

use serde_json::json;

use super::{question, reference};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "setpoint.dev/v1alpha1", "kind": "Blame", "spec": {"object":
    {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    question("Blame", "blames", json!({"object": reference()})).example(EXAMPLE)
}
