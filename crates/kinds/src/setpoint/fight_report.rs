//! FightReport: which fields do managers keep taking from one another?

use serde_json::json;

use super::question;
use crate::KindDef;

const EXAMPLE: &str =
    r#"{"apiVersion": "setpoint.dev/v1alpha1", "kind": "FightReport", "spec": {"namespace": "default"}}"#;

/// The kind.
pub fn def() -> KindDef {
    question("FightReport", "fightreports", json!({"namespace": {"type": "string"}})).example(EXAMPLE)
}
