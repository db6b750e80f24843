//! HorizontalPodAutoscaler in version 1: only CPU. What it has no field for travels in annotations.

use meta::{FieldError, Gvk, ObjectExt};
use serde_json::{Value, json};

use super::{autoscaler, shown, v2};
use crate::{Conversion, KindDef, UpdateOf, fill};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What version 1 says in an annotation: the annotation, and where version 2 has it.
const CARRIED: &[(&str, &[&str])] = &[
    (METRICS, &["spec", "metrics"]),
    (BEHAVIOR, &["spec", "behavior"]),
    (CURRENT_METRICS, &["status", "currentMetrics"]),
    (CONDITIONS, &["status", "conditions"]),
];
const EXAMPLE: &str = r#"{"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"}, "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    autoscaler("v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler")
        .stored_as(Conversion {
            hub: Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"),
            hub_plural: "horizontalpodautoscalers".into(),
            to_hub,
            from_hub,
        })
        .columns(shown::columns(|object, _| {
            let hub = in_hub_form(object);
            shown::targets(hub.items(&["spec", "metrics"]), hub.items(&["status", "currentMetrics"])).into()
        }))
        .defaults(|object| {
            if let Some(spec) = fill::made(object, "spec") {
                fill::absent(spec, "minReplicas", 1);
            }
        })
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn in_hub_form(object: &Value) -> Value {
    let mut hub = object.clone();
    to_hub(&mut hub);
    hub
}

fn validate(object: &Value) -> Vec<FieldError> {
    v2::validate(&in_hub_form(object))
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    v2::validate_update(&in_hub_form(new), &in_hub_form(old), what)
}

fn to_hub(object: &mut Value) {
    object.put(&["apiVersion"], "autoscaling/v2");
    for (annotation, path) in CARRIED {
        let Some(Value::String(text)) = object.remove(&["metadata", "annotations", annotation]) else { continue };
        // An annotation that a person broke says nothing, as upstream.
        if let Ok(value) = serde_json::from_str::<Value>(&text)
            && (value.is_array() || value.is_object())
        {
            object.put(path, value);
        }
    }
    drop_empty_annotations(object);
    let target = json_share(object.remove(&["spec", "targetCPUUtilizationPercentage"]), "target");
    let current = json_share(object.remove(&["status", "currentCPUUtilizationPercentage"]), "current");
    for (metric, path) in [(target, ["spec", "metrics"]), (current, ["status", "currentMetrics"])] {
        if let Some(metric) = metric {
            let others = object.items(&path).to_vec();
            object.put(&path, [vec![metric], others].concat());
        }
    }
}

fn json_share(share: Option<Value>, field: &str) -> Option<Value> {
    let share = share.filter(|share| !share.is_null())?;
    let mut amount = json!({"averageUtilization": share});
    if field == "target" {
        amount["type"] = json!("Utilization");
    }
    Some(json!({"type": "Resource", "resource": {"name": "cpu", field: amount}}))
}

fn from_hub(object: &mut Value) {
    object.put(&["apiVersion"], "autoscaling/v1");
    if let Some(share) = take_share(object, &["spec", "metrics"], "target") {
        object.put(&["spec", "targetCPUUtilizationPercentage"], share);
    }
    if let Some(share) = take_share(object, &["status", "currentMetrics"], "current") {
        object.put(&["status", "currentCPUUtilizationPercentage"], share);
    }
    for (annotation, path) in CARRIED {
        let Some(value) = object.remove(path) else { continue };
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            object.put(&["metadata", "annotations", annotation], value.to_string());
        }
    }
}

/// Takes the first metric out of the list if it is the share of CPU, which version 1 has a field for.
fn take_share(object: &mut Value, path: &[&str], field: &str) -> Option<Value> {
    let first = object.items(path).first()?;
    let share = first.at(&["resource", field, "averageUtilization"]).filter(|share| !share.is_null())?.clone();
    let plain = first.text(&["type"]) == "Resource"
        && first.text(&["resource", "name"]) == "cpu"
        && first.at(&["resource", field, "averageValue"]).is_none_or(Value::is_null);
    if !plain {
        return None;
    }
    let rest = object.items(path)[1..].to_vec();
    object.put(path, rest);
    Some(share)
}

fn drop_empty_annotations(object: &mut Value) {
    if object.map(&["metadata", "annotations"]).is_some_and(serde_json::Map::is_empty) {
        object.remove(&["metadata", "annotations"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_version_1_cannot_say_travels_in_annotations() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let hub = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"},
            "spec": {"metrics": [cpu, memory], "behavior": {"scaleUp": {"selectPolicy": "Max"}}},
            "status": {"conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let mut object = hub.clone();
        from_hub(&mut object);
        assert_eq!(object["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        assert!(object.annotation(METRICS).is_some_and(|text| text.contains("memory")));
        to_hub(&mut object);
        assert_eq!(object, hub);
    }

    #[test]
    fn broken_annotations_say_nothing() {
        let mut object = json!({"metadata": {"annotations": {METRICS: "{"}}, "spec": {"maxReplicas": 1}});
        to_hub(&mut object);
        assert_eq!(object["spec"], json!({"maxReplicas": 1}));
    }
}
