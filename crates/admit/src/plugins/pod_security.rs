//! PodSecurity: the standards that a namespace asks for by its labels.

use std::collections::{BTreeMap, BTreeSet};

use meta::{ApiError, FieldError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects, Operation};
use crate::pod_security::{Level, LevelVersion, Policy, details, evaluate, reasons};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Existing pods looked at when a namespace becomes stricter: enough to warn, bounded for the largest namespaces.
const PODS_MAX: usize = 3000;

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, effects: &mut Effects) -> Result<(), ApiError> {
    let Some(new) = new else { return Ok(()) };
    let attributes = case.request.attributes;
    match (attributes.group.as_str(), attributes.resource.as_str(), attributes.subresource.as_str()) {
        ("", "namespaces", "") => namespace(case, new, effects),
        ("", "pods", "" | "ephemeralcontainers" | "resize") => pod(case, new, effects),
        (_, _, "") => match template_of(case, new) {
            Some(template) => check(case, template, false, effects),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn policy_of(namespace: &Value) -> (Policy, Vec<FieldError>) {
    Policy::of_labels(namespace.map(&["metadata", "labels"]))
}

fn namespace(case: &Case<'_>, new: &Value, effects: &mut Effects) -> Result<(), ApiError> {
    let (policy, errors) = policy_of(new);
    let before = case.old.map(policy_of);
    let fresh = before.as_ref().is_none_or(|(_, old)| *old != errors);
    if !errors.is_empty() && fresh {
        return Err(ApiError::invalid(&case.request.kind.group_kind(), new.name(), &errors));
    }
    let (old, wanted) = (before.map(|(old, _)| old.enforce), policy.enforce);
    let looser = old.is_none_or(|old| {
        old == wanted
            || wanted.level == Level::Privileged
            || (old.version == wanted.version && wanted.level <= old.level)
    });
    if case.request.operation == Operation::Update && !looser {
        warn_of_pods(case, new.name(), wanted, effects);
    }
    Ok(())
}

/// What is there already is not refused; whoever tightens the rule is told of it.
fn warn_of_pods(case: &Case<'_>, namespace: &str, standard: LevelVersion, effects: &mut Effects) {
    let prefix = format!("{namespace}/");
    let entries = || case.world.snapshot.range("core/pods", &prefix, "");
    let total = entries().count();
    let mut by_reason: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, entry) in entries().take(PODS_MAX) {
        let pod: Value = serde_json::from_slice(&entry.value).unwrap_or(Value::Null);
        let refusals = evaluate(standard, &pod);
        if !refusals.is_empty() {
            by_reason.entry(reasons(&refusals)).or_default().insert(pod.name().to_owned());
        }
    }
    if total > PODS_MAX {
        let checked = format!("checked against the first {PODS_MAX} of {total} existing pods");
        effects.warn(format!("new PodSecurity enforce level only {checked}"));
    }
    if !by_reason.is_empty() {
        let level = standard.to_string();
        effects.warn(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level {level:?}"
        ));
    }
    let mut warnings: Vec<String> = by_reason.iter().map(|(reason, pods)| line(reason, pods)).collect();
    warnings.sort();
    warnings.into_iter().for_each(|warning| effects.warn(warning));
}

fn line(reason: &str, pods: &BTreeSet<String>) -> String {
    let first = pods.first().map_or("", String::as_str);
    match pods.len() {
        0 | 1 => format!("{first}: {reason}"),
        2 => format!("{first} (and 1 other pod): {reason}"),
        count => format!("{first} (and {} other pods): {reason}", count - 1),
    }
}

fn pod(case: &Case<'_>, new: &Value, effects: &mut Effects) -> Result<(), ApiError> {
    let unchanged =
        case.request.operation == Operation::Update && case.old.is_some_and(|old| !is_significant(old, new));
    if unchanged { Ok(()) } else { check(case, new, true, effects) }
}

/// Only images of existing containers and added containers matter: the rest of a pod cannot change.
fn is_significant(old: &Value, new: &Value) -> bool {
    let images = |pod: &Value, list: &str| -> Vec<String> {
        pod.items(&["spec", list]).iter().map(|container| container.text(&["image"]).to_owned()).collect()
    };
    let changed = |list: &str| images(old, list) != images(new, list);
    let debugs = new.items(&["spec", "ephemeralContainers"]).iter().any(|container| {
        let same = |other: &&Value| other.text(&["name"]) == container.text(&["name"]);
        let known = old.items(&["spec", "ephemeralContainers"]).iter().find(same);
        known.is_none_or(|known| known.text(&["image"]) != container.text(&["image"]))
    });
    changed("containers") || changed("initContainers") || debugs
}

/// The pod template of a workload.
fn template_of<'v>(case: &Case<'_>, new: &'v Value) -> Option<&'v Value> {
    let attributes = case.request.attributes;
    match (attributes.group.as_str(), attributes.resource.as_str()) {
        ("", "podtemplates") => new.at(&["template"]),
        ("batch", "cronjobs") => new.at(&["spec", "jobTemplate", "spec", "template"]),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => new.at(&["spec", "template"]),
        _ => None,
    }
}

fn check(case: &Case<'_>, pod: &Value, enforce: bool, effects: &mut Effects) -> Result<(), ApiError> {
    let Some(namespace) = case.world.namespace(case.namespace()) else { return Ok(()) };
    let (policy, errors) = policy_of(&namespace);
    if errors.is_empty() && policy.is_privileged() {
        return Ok(());
    }
    if !errors.is_empty() {
        let why = format!("Failed to parse policy: {}", FieldError::aggregate(&errors));
        effects.audit.insert(format!("{PREFIX}error"), why);
    }
    if enforce {
        effects.audit.insert(format!("{PREFIX}enforce-policy"), policy.enforce.to_string());
        let refusals = evaluate(policy.enforce, pod);
        if !refusals.is_empty() {
            let standard = policy.enforce.to_string();
            return Err(case.forbids(Some(pod), format!("violates PodSecurity {standard:?}: {}", details(&refusals))));
        }
    }
    let would = |standard: LevelVersion| {
        let refusals = evaluate(standard, pod);
        let text = || format!("would violate PodSecurity {:?}: {}", standard.to_string(), details(&refusals));
        (!refusals.is_empty()).then(text)
    };
    if let Some(violation) = would(policy.audit) {
        effects.audit.insert(format!("{PREFIX}audit-violations"), violation);
    }
    if let Some(violation) = would(policy.warn) {
        effects.warn(violation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create, update};
    use super::*;
    use serde_json::json;

    fn labelled(name: &str, level: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {format!("{PREFIX}enforce"): level},
        }})
    }

    fn privileged() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {
            "containers": [{"name": "a", "securityContext": {"privileged": true}}],
        }})
    }

    #[test]
    fn pods_are_refused_and_workloads_warned() {
        let scene = Scene::new(&[labelled("d", "baseline")]);
        let why = "privileged (container \"a\" must not set securityContext.privileged=true)";
        let asked = create("", "pods", "d", "p");
        let refused = validate(&scene.case(&asked, None), Some(&privileged()), &mut Effects::default()).unwrap_err();
        assert_eq!(
            refused.message,
            format!("pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": {why}")
        );
        let (asked, mut effects) = (create("apps", "deployments", "d", "w"), Effects::default());
        let workload = json!({"spec": {"template": privileged()}});
        validate(&scene.case(&asked, None), Some(&workload), &mut effects).expect("only warned");
        assert_eq!(effects.warnings, [format!("would violate PodSecurity \"baseline:latest\": {why}")]);
    }

    #[test]
    fn tightening_a_namespace_warns_of_what_is_there() {
        let scene = Scene::new(&[labelled("d", "privileged"), privileged()]);
        let (asked, mut effects) = (update("", "namespaces", "", "d"), Effects::default());
        let (old, new) = (labelled("d", "privileged"), labelled("d", "baseline"));
        validate(&scene.case(&asked, Some(&old)), Some(&new), &mut effects).expect("admitted");
        assert_eq!(
            effects.warnings,
            [
                "existing pods in namespace \"d\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "p: privileged",
            ]
        );
    }

    #[test]
    fn status_updates_are_not_looked_at() {
        let scene = Scene::new(&[labelled("d", "restricted")]);
        for resource in ["pods/status", "pods"] {
            let (asked, old) = (update("", resource, "d", "p"), privileged());
            let outcome = validate(&scene.case(&asked, Some(&old)), Some(&old), &mut Effects::default());
            assert_eq!(outcome, Ok(()), "{resource}");
        }
    }
}
