//! PodDisruptionBudget: how many pods of a group may be taken away at once on purpose.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt};
use serde_json::Value;

use crate::apps::percent::{at_most_whole, check};
use crate::check::{At, Faults, non_negative_fields, optional_one_of};
use crate::{Column, KindDef, UpdateOf, apply_order, column};

const COUNTS: &[&str] = &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"];
const EXAMPLE: &str = r#"{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
        .short("pdb")
        .schema("io.k8s.api.policy.v1.PodDisruptionBudget")
        .with_status()
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("Min Available", "string", "Pods that must stay.", |budget, _| bound(budget, "minAvailable")),
            Column::new("Max Unavailable", "string", "Pods that may be away.", |budget, _| {
                bound(budget, "maxUnavailable")
            }),
            Column::new("Allowed Disruptions", "integer", "Pods that may be taken away now.", |budget, _| {
                column::number(budget, &["status", "disruptionsAllowed"])
            }),
            column::age(),
        ])
        .apply_order(apply_order::BOUND)
        .health_by_conditions()
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn bound(budget: &Value, field: &str) -> Value {
    match budget.at(&["spec", field]) {
        Some(Value::String(share)) => share.as_str().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".into(),
    }
}

fn validate(budget: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(budget);
    let spec = root.field("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        faults.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let at = spec.field(field);
        if at.is_set() {
            check(&at, &mut faults);
            at_most_whole(&at, &mut faults);
        }
    }
    let selector = spec.field("selector");
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
    optional_one_of(&spec.field("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"], &mut faults);
    faults
}

fn validate_update(new: &Value, _: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what != UpdateOf::Status {
        return validate(new);
    }
    let mut faults = Faults::new();
    non_negative_fields(&At::root(new).field("status"), COUNTS, &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let check = |spec: Value, expected: &[&str]| {
            let texts: Vec<String> = validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"maxUnavailable": 1}), &[]);
        check(
            json!({"minAvailable": 1, "maxUnavailable": "101%"}),
            &[
                "spec: Invalid value: {\"maxUnavailable\":\"101%\",\"minAvailable\":1}: minAvailable and maxUnavailable \
                 cannot be both set",
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
            ],
        );
        check(
            json!({"unhealthyPodEvictionPolicy": "Never"}),
            &["spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
               \"IfHealthyBudget\""],
        );
    }
}
