//! ResourceQuota: what a namespace may hold and ask for altogether.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt};
use serde_json::{Map, Value};

use super::pod::resources::{is_huge_pages, quantity, resource_name};
use crate::check::{At, Faults};
use crate::{Column, KindDef, UpdateOf, apply_order, column};

/// Resources without a domain that a quota can bound.
const BOUNDED: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const OF_PODS: &[&str] = &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];
/// Scopes that are there or not, without a value to compare with.
const PLAIN_SCOPES: &[&str] =
    &["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating"];
const VALUED_SCOPES: &[&str] = &["PriorityClass", "VolumeAttributesClass"];
const MUST_EXIST: &str = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, \
    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
    ResourceQuotaScopeCrossNamespacePodAffinity";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"},
    "spec": {"hard": {"pods": "10", "requests.cpu": "4"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "ResourceQuota", "resourcequotas")
        .short("quota")
        .schema("io.k8s.api.core.v1.ResourceQuota")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("Request", "string", "What is requested and may be.", |quota, _| used(quota, false).into()),
            Column::new("Limit", "string", "What is limited and may be.", |quota, _| used(quota, true).into()),
            column::age(),
        ])
        .apply_order(apply_order::BOUND)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn used(quota: &Value, limits: bool) -> String {
    let hard = quota.map(&["status", "hard"]).into_iter().flatten();
    let wanted = hard.filter(|(resource, _)| resource.starts_with("limits.") == limits);
    let text = |(resource, most): (&String, &Value)| {
        let now = match quota.text(&["status", "used", resource]) {
            "" => "0",
            now => now,
        };
        format!("{resource}: {now}/{}", most.as_str().unwrap_or(""))
    };
    wanted.map(text).collect::<Vec<_>>().join(", ")
}

fn validate(quota: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(quota);
    let spec = root.field("spec");
    check_amounts(&spec.field("hard"), &mut faults);
    check_scopes(&spec, &mut faults);
    check_selector(&spec, &mut faults);
    check_status(&root, &mut faults);
    faults
}

fn check_status(root: &At, faults: &mut Faults) {
    let status = root.field("status");
    check_amounts(&status.field("hard"), faults);
    check_amounts(&status.field("used"), faults);
}

fn check_amounts(list: &At, faults: &mut Faults) {
    for (resource, entry) in list.entries() {
        resource_name(&entry, resource, faults);
        if !resource.contains('/') && !is_bounded(resource) {
            faults.push(entry.invalid_as(resource, "must be a standard resource for quota"));
        }
        quantity(&entry, resource, faults);
    }
}

fn is_bounded(resource: &str) -> bool {
    BOUNDED.contains(&resource) || is_huge_pages(resource) || resource.starts_with("requests.hugepages-")
}

fn is_scope(scope: &str) -> bool {
    PLAIN_SCOPES.contains(&scope) || VALUED_SCOPES.contains(&scope)
}

/// Whether objects of the scope use the resource at all.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => OF_CLAIMS.contains(&resource),
        _ => OF_PODS.contains(&resource),
    }
}

fn misfits<'v>(spec: &'v At, scope: &'v str) -> impl Iterator<Item = &'v String> {
    let hard = spec.value.get("hard").and_then(Value::as_object);
    let bounded = hard.into_iter().flat_map(Map::keys).filter(|resource| is_bounded(resource));
    bounded.filter(move |resource| is_scope(scope) && !fits(scope, resource))
}

fn check_scopes(spec: &At, faults: &mut Faults) {
    let scopes = spec.field("scopes");
    let mut seen = BTreeSet::new();
    for scope in scopes.each() {
        if !is_scope(scope.text()) {
            faults.push(scopes.invalid("unsupported scope"));
        }
        faults.extend(misfits(spec, scope.text()).map(|_| scopes.invalid("unsupported scope applied to resource")));
        seen.insert(scope.text());
    }
    check_conflicts(&scopes, &seen, faults);
}

fn check_conflicts(at: &At, scopes: &BTreeSet<&str>, faults: &mut Faults) {
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(one) && scopes.contains(other) {
            faults.push(at.invalid("conflicting scopes"));
        }
    }
}

fn check_selector(spec: &At, faults: &mut Faults) {
    let selector = spec.field("scopeSelector");
    // Upstream names the list, not its items.
    let list = selector.field("matchExpressions");
    let mut seen = BTreeSet::new();
    for item in list.each() {
        let requirement = list.with(item.value);
        let (scope, operator) = (requirement.field("scopeName"), requirement.field("operator"));
        if !is_scope(scope.text()) {
            faults.push(scope.invalid_as(scope.text(), "unsupported scope"));
        }
        faults.extend(
            misfits(spec, scope.text())
                .map(|_| list.invalid_as(selector.value.clone(), "unsupported scope applied to resource")),
        );
        if PLAIN_SCOPES.contains(&scope.text()) && operator.text() != "Exists" {
            faults.push(operator.invalid_as(operator.text(), MUST_EXIST));
        }
        check_operator(&operator, &requirement.field("values"), faults);
        seen.insert(scope.text());
    }
    check_conflicts(&spec.field("scopes"), &seen, faults);
}

fn check_operator(operator: &At, values: &At, faults: &mut Faults) {
    match (operator.text(), values.items().is_empty()) {
        ("In" | "NotIn", true) => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            faults.push(values.required(detail));
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            faults.push(values.invalid(detail));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
        _ => faults.push(operator.invalid_as(operator.text(), "not a valid selector operator")),
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let root = At::root(new);
    if what == UpdateOf::Status {
        let mut faults = Faults::new();
        check_status(&root, &mut faults);
        return faults;
    }
    let mut faults = validate(new);
    let scopes = |quota: &'_ Value| -> BTreeSet<String> {
        quota.items(&["spec", "scopes"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if scopes(new) != scopes(old) {
        let spec = root.field("spec");
        faults.push(spec.field("scopes").invalid("field is immutable"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let quota = json!({"status": {"hard": {"pods": "10", "limits.cpu": "4"}, "used": {"pods": "3"}}});
        assert_eq!(used(&quota, false), "pods: 3/10");
        assert_eq!(used(&quota, true), "limits.cpu: 0/4");
    }

    #[test]
    fn faults() {
        let check = |spec: Value, expected: &[&str]| {
            let texts: Vec<String> = validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"hard": {"pods": "1", "count/jobs.batch": "2"}, "scopes": ["BestEffort"]}), &[]);
        check(
            json!({"hard": {"disk": "1"}}),
            &[
                "spec.hard[disk]: Invalid value: \"disk\": must be a standard resource type or fully qualified",
                "spec.hard[disk]: Invalid value: \"disk\": must be a standard resource for quota",
            ],
        );
        check(
            json!({"hard": {"services": "1"}, "scopes": ["Terminating", "NotTerminating"]}),
            &[
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes",
            ],
        );
        check(
            json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}),
            &[
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` \
               is 'In' or 'NotIn' for scope selector",
            ],
        );
    }
}
