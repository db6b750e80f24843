//! Which requests a webhook or policy is about.

use meta::labels::Selector;
use meta::{Gvk, Gvr, ObjectExt};
use serde_json::Value;

use crate::admission::Case;

/// The version of a resource at which a rule matched: the object is to be shown at that version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Resource and version of the rule.
    pub resource: Gvr,
    /// Kind at that version.
    pub kind: Gvk,
}

/// What admission itself is configured by is not subject to it: nobody could undo a mistake.
const CONFIGURATION: [&str; 6] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// Whether the request is about the configuration of admission.
pub fn is_exempt(case: &Case<'_>) -> bool {
    let attributes = case.request.attributes;
    attributes.group == "admissionregistration.k8s.io" && CONFIGURATION.contains(&attributes.resource.as_str())
}

/// Whether the object's namespace and labels fit the selectors of `holder` (a webhook or `matchConstraints`).
/// The error is a malformed selector.
pub fn selects(case: &Case<'_>, holder: &Value, new: Option<&Value>) -> Result<bool, String> {
    Ok(selects_namespace(case, holder.get("namespaceSelector"), new)?
        && selects_object(case, holder.get("objectSelector"), new)?)
}

fn selects_namespace(case: &Case<'_>, selector: Option<&Value>, new: Option<&Value>) -> Result<bool, String> {
    let Some(selector) = read(selector)? else { return Ok(true) };
    let attributes = case.request.attributes;
    if attributes.group.is_empty() && attributes.resource == "namespaces" {
        let namespace = new.or(case.old).unwrap_or(&Value::Null);
        return Ok(selector.matches(&namespace.map(&["metadata", "labels"])));
    }
    if attributes.namespace.is_empty() {
        return Ok(true);
    }
    let namespace = case.world.namespace(&attributes.namespace).unwrap_or_default();
    Ok(selector.matches(&namespace.map(&["metadata", "labels"])))
}

fn selects_object(case: &Case<'_>, selector: Option<&Value>, new: Option<&Value>) -> Result<bool, String> {
    let Some(selector) = read(selector)? else { return Ok(true) };
    let fits = |object: &Value| selector.matches(&object.map(&["metadata", "labels"]));
    Ok(new.is_some_and(fits) || case.old.is_some_and(fits))
}

/// `None` for a selector that selects everything.
fn read(selector: Option<&Value>) -> Result<Option<Selector>, String> {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return Ok(None) };
    Selector::from_label_selector(Some(selector)).map(|selector| Some(selector).filter(|s| !s.is_everything()))
}

/// The version at which some of the rules match the request; `equivalent` also tries the other versions served.
pub fn matches_rules(case: &Case<'_>, rules: &[Value], equivalent: bool) -> Option<Matched> {
    let attributes = case.request.attributes;
    let own = Gvr::new(&*attributes.group, &*attributes.version, &*attributes.resource);
    if rules.iter().any(|rule| matches_rule(case, rule, &own.version)) {
        return Some(Matched { resource: own, kind: case.request.kind.clone() });
    }
    if !equivalent {
        return None;
    }
    let same = |def: &&std::sync::Arc<kinds::KindDef>| *def.group == own.group && *def.plural == own.resource;
    let other =
        case.world.catalog.iter().filter(same).find(|def| {
            *def.version != own.version && rules.iter().any(|rule| matches_rule(case, rule, &def.version))
        })?;
    let kind = if attributes.subresource.is_empty() { other.gvk() } else { case.request.kind.clone() };
    Some(Matched { resource: other.gvr(), kind })
}

fn matches_rule(case: &Case<'_>, rule: &Value, version: &str) -> bool {
    let attributes = case.request.attributes;
    let has = |field: &str, wanted: &str| {
        rule.items(&[field]).iter().filter_map(Value::as_str).any(|item| item == "*" || item == wanted)
    };
    let names = rule.items(&["resourceNames"]);
    has("operations", case.request.operation.as_str())
        && has("apiGroups", &attributes.group)
        && has("apiVersions", version)
        && rule.items(&["resources"]).iter().filter_map(Value::as_str).any(|r| matches_resource(case, r))
        && matches_scope(case, rule.text(&["scope"]))
        && (names.is_empty() || names.iter().any(|name| name == attributes.name.as_str()))
}

fn matches_resource(case: &Case<'_>, wanted: &str) -> bool {
    let attributes = case.request.attributes;
    let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
    let any = |wanted: &str, actual: &str| wanted == "*" || wanted == actual;
    any(resource, &attributes.resource) && any(subresource, &attributes.subresource)
}

/// A namespace object counts as cluster-wide although requests for it carry its name.
fn matches_scope(case: &Case<'_>, scope: &str) -> bool {
    let attributes = case.request.attributes;
    let is_namespace = attributes.group.is_empty() && attributes.resource == "namespaces";
    let namespaced = !attributes.namespace.is_empty() && !is_namespace;
    match scope {
        "Namespaced" => namespaced,
        "Cluster" => !namespaced,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::testing::{Scene, create};
    use serde_json::json;

    #[test]
    fn rules_match_like_upstream() {
        let scene = Scene::new(&[]);
        let check = |resource: &str, namespace: &str, change: Value, expected: bool| {
            let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
                                  "resources": ["deployments"]});
            for (key, value) in change.as_object().expect("an object") {
                rule[key] = value.clone();
            }
            let asked = create("apps", resource, namespace, "x");
            let found = matches_rules(&scene.case(&asked, None), std::slice::from_ref(&rule), false);
            assert_eq!(found.is_some(), expected, "{resource} {rule}");
        };
        check("deployments", "d", json!({}), true);
        check("deployments/scale", "d", json!({}), false);
        check("deployments/scale", "d", json!({"resources": ["*/*"]}), true);
        check("deployments/scale", "d", json!({"resources": ["deployments/*"]}), true);
        check("deployments/scale", "d", json!({"resources": ["*"]}), false);
        check("deployments", "d", json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}), true);
        check("deployments", "d", json!({"operations": ["DELETE"]}), false);
        check("deployments", "d", json!({"scope": "Cluster"}), false);
        check("deployments", "d", json!({"scope": "Namespaced"}), true);
        check("deployments", "", json!({"scope": "Cluster"}), true);
        check("deployments", "d", json!({"resourceNames": ["y"]}), false);
    }

    #[test]
    fn selectors_look_at_both_objects_and_the_namespace() {
        let scene = Scene::new(&[json!({"apiVersion": "v1", "kind": "Namespace",
                                        "metadata": {"name": "d", "labels": {"env": "prod"}}})]);
        let asked = create("", "pods", "d", "p");
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let check = |holder: Value, old: Option<&Value>, expected: bool| {
            let new = json!({});
            assert_eq!(selects(&scene.case(&asked, old), &holder, Some(&new)), Ok(expected), "{holder}");
        };
        let by = |key: &str, labels: Value| json!({key: {"matchLabels": labels}});
        check(by("namespaceSelector", json!({"env": "prod"})), None, true);
        check(by("namespaceSelector", json!({"env": "test"})), None, false);
        check(by("objectSelector", json!({"a": "b"})), None, false);
        check(by("objectSelector", json!({"a": "b"})), Some(&labelled), true);
        check(json!({"objectSelector": {}}), None, true);
    }
}
