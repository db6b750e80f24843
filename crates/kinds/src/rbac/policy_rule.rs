//! One rule of a role.

use crate::check::{At, Faults};

/// Where a rule stands: namespaces have no addresses of their own, so their roles name only resources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum In {
    Namespace,
    Cluster,
}

pub(super) fn check_all(role: &At, place: In, faults: &mut Faults) {
    role.field("rules").each().for_each(|rule| check(&rule, place, faults));
}

fn check(rule: &At, place: In, faults: &mut Faults) {
    let (verbs, urls) = (rule.field("verbs"), rule.field("nonResourceURLs"));
    if verbs.items().is_empty() {
        faults.push(verbs.required("verbs must contain at least one value"));
    }
    if urls.items().is_empty() {
        check_resources(rule, faults);
        return;
    }
    if place == In::Namespace {
        faults.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
    }
    let is_given = |field: &&str| !rule.field(field).items().is_empty();
    if ["apiGroups", "resources", "resourceNames"].iter().any(is_given) {
        faults.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
    }
}

fn check_resources(rule: &At, faults: &mut Faults) {
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        let list = rule.field(field);
        if list.items().is_empty() {
            faults.push(list.required(format!("resource rules must supply at least one {what}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn rules() {
        let check = |rule: Value, place: In, expected: &[&str]| {
            let mut faults = Faults::new();
            check_all(&At::root(&json!({"rules": [rule]})), place, &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), In::Namespace, &[]);
        check(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]}), In::Cluster, &[]);
        check(
            json!({"nonResourceURLs": ["/healthz"], "resources": ["pods"]}),
            In::Namespace,
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply to non-resource \
                 URLs",
                "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: rules cannot apply to both regular resources \
                 and non-resource URLs",
            ],
        );
        check(
            json!({"verbs": ["get"]}),
            In::Cluster,
            &[
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        );
    }
}
