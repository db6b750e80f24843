//! How fast an autoscaler goes up and down.

use meta::Quantity;
use serde_json::{Value, json};

use crate::check::{At, Faults, optional_one_of, supported_text};
use crate::fill;

/// Upstream's limits, in seconds.
const WINDOW_MAX: i64 = 3600;
const PERIOD_MAX: i64 = 1800;

pub(super) fn default(behavior: &mut Value) {
    let share = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = fill::made(behavior, "scaleUp") {
        fill::absent(up, "stabilizationWindowSeconds", 0);
        fill::absent(up, "selectPolicy", "Max");
        fill::absent(up, "policies", vec![pods, share.clone()]);
    }
    if let Some(down) = fill::made(behavior, "scaleDown") {
        fill::absent(down, "selectPolicy", "Max");
        fill::absent(down, "policies", vec![share]);
    }
}

pub(super) fn check(behavior: &At, faults: &mut Faults) {
    for direction in ["scaleUp", "scaleDown"] {
        let rules = behavior.field(direction);
        if rules.is_set() {
            check_rules(&rules, faults);
        }
    }
}

fn check_rules(rules: &At, faults: &mut Faults) {
    let window = rules.field("stabilizationWindowSeconds");
    if window.number() < 0 {
        faults.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.number() > WINDOW_MAX {
        faults.push(window.invalid(format!("must be less than or equal to {WINDOW_MAX}")));
    }
    optional_one_of(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"], faults);
    let policies = rules.field("policies");
    if policies.items().is_empty() {
        faults.push(policies.required("must specify at least one Policy"));
    }
    policies.each().for_each(|policy| check_policy(&policy, faults));
    let tolerance = rules.field("tolerance");
    if Quantity::parse(tolerance.text()).is_ok_and(|share| share.is_negative()) {
        faults.push(tolerance.invalid("must be greater than or equal to 0"));
    }
}

fn check_policy(policy: &At, faults: &mut Faults) {
    supported_text(&policy.field("type"), &["Percent", "Pods"], faults);
    for field in ["value", "periodSeconds"] {
        let at = policy.field(field);
        if at.number() <= 0 {
            faults.push(at.invalid_as(at.number(), "must be greater than zero"));
        }
    }
    let period = policy.field("periodSeconds");
    if period.number() > PERIOD_MAX {
        faults.push(period.invalid(format!("must be less than or equal to {PERIOD_MAX}")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::v2::tests::check;
    use serde_json::json;

    #[test]
    fn faults() {
        check(
            &["spec", "behavior"],
            json!({"scaleUp": {"stabilizationWindowSeconds": 3601, "policies": [{"type": "X", "value": 0, "periodSeconds": 1801}]}}),
            &[
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"X\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            ],
        );
    }
}
