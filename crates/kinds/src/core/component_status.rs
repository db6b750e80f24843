//! ComponentStatus: an old view of the health of the server's own parts; read only, computed when asked.

use meta::ObjectExt;
use serde_json::Value;

use crate::{Column, KindDef, column};

const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": "store"},
    "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]}"#;

/// The kind.
pub fn def() -> KindDef {
    let mut def = KindDef::new("", "v1", "ComponentStatus", "componentstatuses")
        .cluster_scoped()
        .short("cs")
        .schema("io.k8s.api.core.v1.ComponentStatus")
        .never_stored()
        .verbs(&["get", "list"])
        .columns(vec![
            column::name(),
            Column::new("Status", "string", "Healthy or not.", |object, _| verdict(object).into()),
            Column::new("Message", "string", "What the part says.", |object, _| of_condition(object, "message")),
            Column::new("Error", "string", "What went wrong.", |object, _| of_condition(object, "error")),
        ])
        .deprecated("v1 ComponentStatus is deprecated in v1.19+")
        .example(EXAMPLE);
    def.list_kind = "ComponentStatusList".into();
    def
}

fn healthy(object: &Value) -> Option<&Value> {
    object.items(&["conditions"]).iter().find(|condition| condition.text(&["type"]) == "Healthy")
}

fn verdict(object: &Value) -> &'static str {
    match healthy(object).map(|condition| condition.text(&["status"])) {
        Some("True") => "Healthy",
        Some("False") => "Unhealthy",
        _ => "Unknown",
    }
}

fn of_condition(object: &Value, field: &str) -> Value {
    healthy(object).map_or("", |condition| condition.text(&[field])).into()
}
