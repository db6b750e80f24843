//! Whether a container that has ended runs again.

use meta::ObjectExt;
use serde_json::Value;

/// Whether a container that ended with `code` is to run again: its own rules first, then its own policy, then the
/// pod's.
pub fn should_restart(container: &Value, pod_spec: &Value, code: i64) -> bool {
    let own = container.text(&["restartPolicy"]);
    if !own.is_empty() && container.items(&["restartPolicyRules"]).iter().any(|rule| fits(rule, code)) {
        return true;
    }
    match if own.is_empty() { pod_spec.text(&["restartPolicy"]) } else { own } {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

/// Both actions there are restart the container, whatever else they restart.
fn fits(rule: &Value, code: i64) -> bool {
    let listed = rule.items(&["exitCodes", "values"]).iter().any(|value| value.as_i64() == Some(code));
    match rule.text(&["exitCodes", "operator"]) {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// Whether the end of some container may restart all.
pub fn all_could_restart(pod_spec: &Value) -> bool {
    let containers = pod_spec.items(&["containers"]).iter().chain(pod_spec.items(&["initContainers"]));
    let mut rules = containers.flat_map(|container| container.items(&["restartPolicyRules"]));
    rules.any(|rule| rule.text(&["action"]) == "RestartAllContainers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_come_before_policies() {
        let check = |container: Value, pod_policy: &str, code: i64, expected: bool| {
            let spec = json!({ "restartPolicy": pod_policy });
            assert_eq!(should_restart(&container, &spec, code), expected, "{container} {code}");
        };
        check(json!({}), "Always", 0, true);
        check(json!({}), "OnFailure", 0, false);
        check(json!({}), "OnFailure", 1, true);
        check(json!({}), "Never", 1, false);
        check(json!({"restartPolicy": "Always"}), "Never", 0, true);
        let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        check(json!({"restartPolicy": "Never", "restartPolicyRules": rules}), "Always", 42, true);
        check(json!({"restartPolicy": "Never", "restartPolicyRules": rules}), "Always", 1, false);
    }
}
