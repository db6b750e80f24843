//! A request as webhooks and expressions see it, and the conditions they put on it.

use meta::ObjectExt;
use serde_json::{Value, json};

use crate::Attributes;
use crate::admission::Case;
use crate::cel::{Budget, CelValue, MATCH_COST_MAX, authorizer_variables, evaluate_asking, from_json, program, to_cel};
use crate::matching::Matched;

/// `admission.k8s.io/v1` AdmissionRequest without uid and objects.
pub fn request_facts(case: &Case<'_>, matched: &Matched) -> Value {
    let request = case.request;
    let attributes = request.attributes;
    let kind = |kind: &meta::Gvk| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let resource = |r: &meta::Gvr| json!({"group": r.group, "version": r.version, "resource": r.resource});
    let own = meta::Gvr::new(&*attributes.group, &*attributes.version, &*attributes.resource);
    let mut facts = json!({
        "kind": kind(&matched.kind),
        "resource": resource(&matched.resource),
        "requestKind": kind(request.kind),
        "requestResource": resource(&own),
        "operation": request.operation.as_str(),
        "userInfo": attributes.user.to_value(),
        "dryRun": request.dry_run,
        "options": request.options,
    });
    let texts = [
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        facts[key] = json!(text);
    }
    facts
}

/// The variables every expression about a request may use: `object`, `oldObject`, `request`, `namespaceObject`,
/// `authorizer`.
pub fn variables(case: &Case<'_>, matched: &Matched, new: Option<&Value>) -> Vec<(&'static str, CelValue)> {
    let mut facts = request_facts(case, matched);
    // Expressions find every field, filled or not.
    for field in ["subResource", "requestSubResource", "name", "namespace"] {
        if facts.get(field).is_none() {
            facts[field] = json!("");
        }
    }
    let attributes = case.request.attributes;
    let namespaced = !attributes.namespace.is_empty() && attributes.resource != "namespaces";
    let namespace = if namespaced { case.world.namespace(&attributes.namespace) } else { None };
    let mut variables = vec![
        ("object", object_value(case, matched, new)),
        ("oldObject", object_value(case, matched, case.old)),
        ("request", from_json(&facts)),
        ("namespaceObject", namespace.as_deref().map_or(CelValue::Null, |namespace| from_json(namespace))),
    ];
    variables.extend(authorizer_variables(attributes));
    variables
}

fn object_value(case: &Case<'_>, matched: &Matched, object: Option<&Value>) -> CelValue {
    let Some(object) = object else { return CelValue::Null };
    match case.world.catalog.kind(&matched.kind) {
        Some(def) => to_cel(object, def.schema.get()),
        None => from_json(object),
    }
}

/// Whether all `matchConditions` hold. The error names the condition that could not be evaluated; a condition that
/// is false decides even when another one fails.
pub fn conditions_hold(
    conditions: &[Value],
    variables: &[(&str, CelValue)],
    may: &dyn Fn(&Attributes) -> bool,
) -> Result<bool, String> {
    let mut budget = Budget::new(MATCH_COST_MAX);
    let mut errors = Vec::new();
    for condition in conditions {
        let (name, source) = (condition.text(&["name"]), condition.text(&["expression"]));
        let outcome = program(source)
            .map_err(|why| format!("compilation error: {why}"))
            .and_then(|program| evaluate_asking(&program, variables, &mut budget, may).map_err(|why| why.to_string()));
        match outcome {
            Ok(CelValue::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => errors.push(format!("matchCondition {name:?}: expression '{source}' resulted in error: {why}")),
        }
    }
    if errors.is_empty() { Ok(true) } else { Err(errors.join(", ")) }
}
