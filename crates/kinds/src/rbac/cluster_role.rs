//! ClusterRole: what may be done anywhere. Its rules may be gathered from other ClusterRoles by label.

use meta::labels::Selector;
use meta::{FieldError, name};
use serde_json::Value;

use super::GROUP;
use super::policy_rule::{In, check_all};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
    "metadata": {"name": "probe"}, "rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ClusterRole", "clusterroles")
        .cluster_scoped()
        .schema("io.k8s.api.rbac.v1.ClusterRole")
        .columns(vec![column::name(), column::created_at()])
        .apply_order(apply_order::IDENTITY)
        .named_by(name::path_segment)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(role: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(role);
    check_all(&root, In::Cluster, &mut faults);
    let aggregation = root.field("aggregationRule");
    if aggregation.is_set() {
        check_aggregation(&aggregation, &mut faults);
    }
    faults
}

fn check_aggregation(aggregation: &At, faults: &mut Faults) {
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.items().is_empty() {
        faults.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for selector in selectors.each() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn aggregation_selects_something() {
        let faults = validate(&json!({"aggregationRule": {}}));
        assert_eq!(
            faults[0].to_string(),
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
             aggregationRule is non-nil"
        );
    }
}
