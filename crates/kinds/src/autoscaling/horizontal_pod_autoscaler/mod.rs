//! HorizontalPodAutoscaler: scales by metrics. Stored in the form of `autoscaling/v2`.

mod behavior;
mod metric;
mod shown;
pub mod v1;
pub mod v2;

use meta::{ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, required_name};
use crate::{Converged, KindDef, apply_order};

/// What both versions have in common.
fn autoscaler(version: &'static str, schema: &'static str) -> KindDef {
    KindDef::new("autoscaling", version, "HorizontalPodAutoscaler", "horizontalpodautoscalers")
        .short("hpa")
        .category("all")
        .schema(schema)
        .with_status()
        .counts_generation()
        .apply_order(apply_order::ROUTE)
        .health(health)
}

fn health(autoscaler: &Value) -> Converged {
    let condition = |kind: &str| {
        autoscaler.items(&["status", "conditions"]).iter().find(|condition| condition.text(&["type"]) == kind)
    };
    for kind in ["AbleToScale", "ScalingActive"] {
        if let Some(refusal) = condition(kind).filter(|condition| condition.text(&["status"]) == "False") {
            return Converged::Progressing(refusal.text(&["message"]).to_owned());
        }
    }
    Converged::Yes
}

/// A reference to an object of any version. What a metric describes may be in the legacy group; what is scaled is
/// not, except for ReplicationControllers.
fn check_reference(reference: &At, legacy_group: bool, faults: &mut Faults) {
    for field in ["kind", "name"] {
        required_name(&reference.field(field), name::path_segment, faults);
    }
    let version = reference.field("apiVersion");
    match meta::GroupVersion::parse(version.text()) {
        Some(parsed) if parsed.group.is_empty() && !legacy_group => {
            faults.push(version.invalid("apiVersion must specify API group"));
        }
        Some(_) => {}
        None if version.text().is_empty() && legacy_group => {}
        None if version.text().is_empty() => faults.push(version.invalid_as("", "apiVersion must specify API group")),
        None => faults.push(version.invalid(format!("unexpected GroupVersion string: {}", version.text()))),
    }
}
