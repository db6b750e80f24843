//! HorizontalPodAutoscaler in version 2: any metrics, tunable behaviour.

use meta::{FieldError, ObjectExt};
use serde_json::{Value, json};

use super::{autoscaler, behavior, check_reference, metric, shown};
use crate::check::{At, Faults, non_negative_fields};
use crate::{KindDef, UpdateOf, fill};

/// The share of its request that a pod's CPU is kept at when nothing is said.
const CPU_SHARE: i64 = 80;
const EXAMPLE: &str = r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"}, "spec": {"maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}}"#;

/// The kind.
pub fn def() -> KindDef {
    autoscaler("v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler")
        .columns(shown::columns(|object, _| {
            shown::targets(object.items(&["spec", "metrics"]), object.items(&["status", "currentMetrics"])).into()
        }))
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::absent(spec, "minReplicas", 1);
    if spec.items(&["metrics"]).is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_SHARE});
        spec.put(&["metrics"], json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    }
    if let Some(behavior) = fill::child(spec, "behavior") {
        behavior::default(behavior);
    }
}

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    validate_against(object, None)
}

fn validate_against(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let spec = root.field("spec");
    let (least, most) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if least.int().is_some_and(|number| number < 0) {
        faults.push(least.invalid("must be greater than or equal to 0"));
    }
    if most.number() < 1 {
        faults.push(most.invalid_as(most.number(), "must be greater than 0"));
    }
    if least.int().is_some_and(|number| most.number() < number) {
        faults.push(most.invalid_as(most.number(), "must be greater than or equal to `minReplicas`"));
    }
    check_target(&spec.field("scaleTargetRef"), old, &mut faults);
    metric::check_all(&spec.field("metrics"), least.int() == Some(0), &mut faults);
    let behavior = spec.field("behavior");
    if behavior.is_set() {
        behavior::check(&behavior, &mut faults);
    }
    faults
}

/// An object may keep a malformed `apiVersion` that it was stored with.
fn check_target(target: &At, old: Option<&Value>, faults: &mut Faults) {
    let before = old.and_then(|old| old.at(&["spec", "scaleTargetRef"]));
    let kept = before.is_some_and(|before| ["apiVersion", "kind"].iter().all(|f| before.get(f) == target.value.get(f)));
    let mut found = Faults::new();
    check_reference(target, target.field("kind").text() == "ReplicationController", &mut found);
    let version = target.field("apiVersion").path.to_string();
    faults.extend(found.into_iter().filter(|fault| !kept || fault.field != version));
}

pub(super) fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what != UpdateOf::Status {
        return validate_against(new, Some(old));
    }
    let mut faults = Faults::new();
    non_negative_fields(&At::root(new).field("status"), &["currentReplicas", "desiredReplicas"], &mut faults);
    faults
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::autoscaling) fn check(path: &[&str], value: Value, expected: &[&str]) {
        let mut object: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        object.put(path, value);
        default(&mut object);
        let texts: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn faults() {
        check(&["spec", "maxReplicas"], json!(1), &[]);
        check(
            &["spec", "maxReplicas"],
            json!(0),
            &[
                "spec.maxReplicas: Invalid value: 0: must be greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            ],
        );
        check(
            &["spec", "scaleTargetRef"],
            json!({"kind": "Deployment", "name": "a", "apiVersion": "v1"}),
            &["spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group"],
        );
        check(
            &["spec", "minReplicas"],
            json!(0),
            &[
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero \
               replicas",
            ],
        );
    }

    #[test]
    fn behavior_is_completed() {
        let mut object: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        default(&mut object);
        let down = &object["spec"]["behavior"]["scaleDown"];
        assert_eq!(down["stabilizationWindowSeconds"], 60);
        assert_eq!(down["policies"], json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
        assert_eq!(object["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"], 0);
        assert_eq!(object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
    }
}
