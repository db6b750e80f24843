//! MutatingAdmissionPolicy: expressions that say what of a new object shall be otherwise.

use std::collections::BTreeSet;

use kinds::{KindDef, Rules};
use merge::{json_patch, typed};
use meta::{ApiError, ObjectExt, Reason};
use schema::{ListKind, Schema, Shape};
use serde_json::Value;

use super::evaluate::Mutations;
use super::{constrained, params};
use crate::admission::Case;
use crate::cel::{CelValue, from_json, to_json};
use crate::matching::{self, Matched};
use crate::request_facts::variables;

const POLICIES: &str = "admissionregistration.k8s.io/mutatingadmissionpolicies";
const BINDINGS: &str = "admissionregistration.k8s.io/mutatingadmissionpolicybindings";

/// Which policies are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// All.
    First,
    /// Those that want to be asked again because others changed the object after them.
    Again,
}

/// Lets every policy that is bound and matches change the new object. Says whether one did.
pub fn mutate(case: &Case<'_>, new: &mut Value, round: Round) -> Result<bool, ApiError> {
    if case.world.snapshot.count(POLICIES) == 0 || matching::is_exempt(case) {
        return Ok(false);
    }
    let bindings = case.world.list(BINDINGS, "");
    let before = new.clone();
    for policy in case.world.list(POLICIES, "") {
        if round == Round::Again && policy.text(&["spec", "reinvocationPolicy"]) != "IfNeeded" {
            continue;
        }
        for binding in bindings.iter().filter(|binding| binding.text(&["spec", "policyName"]) == policy.name()) {
            let fails_open = policy.text(&["spec", "failurePolicy"]) == "Ignore";
            match bound(case, &policy, binding, new) {
                Err(why) if !fails_open => return Err(denial(case, new, &policy, binding, &why)),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(*new != before)
}

fn denial(case: &Case<'_>, new: &Value, policy: &Value, binding: &Value, why: &str) -> ApiError {
    let (name, bound) = (policy.name(), binding.name());
    let message = format!("policy '{name}' with binding '{bound}' denied request: {why}");
    let mut error = case.forbids(Some(new), &message);
    (error.code, error.reason) = (422, Some(Reason::Invalid));
    error.with_cause("", message, "")
}

/// One policy through one binding. What it did before it failed stands, as upstream has it.
fn bound(case: &Case<'_>, policy: &Value, binding: &Value, new: &mut Value) -> Result<(), String> {
    let constraints = policy.at(&["spec", "matchConstraints"]).unwrap_or(&Value::Null);
    let Some(matched) = constrained(case, constraints, Some(new))? else { return Ok(()) };
    if let Some(narrower) = binding.at(&["spec", "matchResources"]).filter(|given| !given.is_null())
        && constrained(case, narrower, Some(new))?.is_none()
    {
        return Ok(());
    }
    for param in params::of_binding(&case.world, case.namespace(), policy, binding)? {
        let known = |new: &Value| seen(case, &matched, param.as_ref(), new);
        let Some(mut mutations) = Mutations::of(policy, known(new), case.world.may)? else { continue };
        for mutation in policy.items(&["spec", "mutations"]) {
            *new = changed(case, mutation, &mut mutations, new)?;
            mutations.see(known(new));
        }
    }
    Ok(())
}

fn seen(case: &Case<'_>, matched: &Matched, param: Option<&Value>, new: &Value) -> Vec<(&'static str, CelValue)> {
    let mut known = variables(case, matched, Some(new));
    known.push(("params", param.map_or(CelValue::Null, from_json)));
    known
}

/// The object as one mutation wants it, in its schema's form and with defaults.
fn changed(case: &Case<'_>, mutation: &Value, run: &mut Mutations<'_>, new: &Value) -> Result<Value, String> {
    let kind = case.world.catalog.kind(case.request.kind).ok_or("the kind of the object is not served")?;
    let schema = kind.schema.get();
    let mut changed = new.clone();
    match mutation.text(&["patchType"]) {
        "JSONPatch" => {
            let steps = to_json(&run.value(mutation.text(&["jsonPatch", "expression"]))?)?;
            json_patch::apply(&mut changed, &steps, &json_patch::Limits::default())
                .map_err(|error| format!("JSON Patch: {}", ApiError::from(error).message))?;
        }
        _ => {
            let part = to_json(&run.value(mutation.text(&["applyConfiguration", "expression"]))?)?;
            apply(schema, &mut changed, &part)?;
        }
    }
    let mut changed = schema::conform(schema, changed).map_err(|error| error.to_string())?.value;
    default(kind, &mut changed);
    Ok(changed)
}

fn apply(schema: &Schema, object: &mut Value, part: &Value) -> Result<(), String> {
    if !part.is_object() {
        return Err("unsupported return type from ApplyConfiguration expression".to_owned());
    }
    let faults = typed::check(schema, part);
    if !faults.is_empty() {
        let faults = typed::print_faults(&faults);
        return Err(format!("error applying patch: failed to convert patch object to typed object: {faults}"));
    }
    let mut atomics = BTreeSet::new();
    find_atomics(schema, part, "", &mut atomics);
    if !atomics.is_empty() {
        let atomics: Vec<String> = atomics.into_iter().collect();
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    typed::merge(schema, object, part);
    Ok(())
}

/// Atomic parts, of which a policy would unknowingly remove what it does not name.
fn find_atomics(schema: &Schema, part: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (&schema.shape, part) {
        (Shape::List { items, kind }, Value::Array(list)) => {
            if *kind == ListKind::Atomic {
                found.insert(path.to_owned());
            }
            for (index, item) in list.iter().enumerate() {
                find_atomics(items.get(), item, &format!("{path}[{index}]"), found);
            }
        }
        (Shape::Map { values, atomic }, Value::Object(map)) => {
            if *atomic {
                found.insert(path.to_owned());
            }
            map.iter().for_each(|(key, value)| find_atomics(values.get(), value, &format!("{path}.{key}"), found));
        }
        (Shape::Struct(body), Value::Object(map)) => {
            if body.atomic {
                found.insert(path.to_owned());
            }
            for (key, value) in map {
                if let Some(field) = body.fields.get(&**key) {
                    find_atomics(field.schema.get(), value, &format!("{path}.{key}"), found);
                }
            }
        }
        _ => {}
    }
}

fn default(kind: &KindDef, object: &mut Value) {
    match &kind.rules {
        Rules::BuiltIn(rules) => (rules.default)(object),
        Rules::Custom => schema::defaults::apply(kind.schema.get(), object),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Scene, create};

    fn mutated(mutation: Value, change: Value) -> Result<Value, ApiError> {
        let rules =
            json!([{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*"]}]);
        let mut policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "pol"},
            "spec": {"matchConstraints": {"resourceRules": rules}, "mutations": [mutation]},
        });
        for (key, value) in change.as_object().expect("an object") {
            policy["spec"][key] = value.clone();
        }
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "bind"}, "spec": {"policyName": "pol"}});
        let scene = Scene::new(&[policy, binding]).of_kind(meta::Gvk::new("apps", "v1", "Deployment"));
        let mut new = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        });
        let asked = create("apps", "deployments", "d", "web");
        mutate(&scene.case(&asked, None), &mut new, Round::First).map(|_| new)
    }

    fn applied(expression: &str) -> Result<Value, ApiError> {
        let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
        mutated(mutation, json!({}))
    }

    #[test]
    fn parts_are_merged() {
        let new = applied("Object{spec: Object.spec{replicas: object.spec.replicas + 4}}").expect("merges");
        assert_eq!(new["spec"]["replicas"], 5);
        assert_eq!(new["spec"]["template"]["spec"]["containers"][0]["image"], "i");
        let new = applied("Object{metadata: Object.metadata{annotations: {'by': 'policy'}}}").expect("merges");
        assert_eq!(new["metadata"]["annotations"]["by"], "policy");
    }

    #[test]
    fn steps_are_taken() {
        let expression = "[JSONPatch{op: 'replace', path: '/spec/replicas', value: 3}]";
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
        assert_eq!(mutated(mutation, json!({})).expect("patches")["spec"]["replicas"], 3);
    }

    #[test]
    fn what_cannot_be_merged_is_refused_unless_the_policy_may_fail() {
        let check = |expression: &str, why: &str| {
            let error = applied(expression).expect_err(expression);
            assert!(error.message.contains(why), "{}", error.message);
            assert_eq!(error.code, 422);
            let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
            assert!(mutated(mutation, json!({"failurePolicy": "Ignore"})).is_ok());
        };
        check("Object{spec: Object.spec{nothing: 1}}", ".spec.nothing: field not declared in schema");
        check("Object{spec: Object.wrong{replicas: 1}}", "expected \"Object.spec\"");
        check(
            "Object{spec: Object.spec{selector: Object.spec.selector{}}}",
            "atomic arrays, maps or structs: .spec.selector",
        );
        check("Other{}", "undeclared reference to 'Other'");
        check("Object{spec: Object.spec{replicas: object.absent}}", "no such key: absent");
    }

    #[test]
    fn conditions_narrow() {
        let mutation = json!({"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 9}}"}});
        let conditions = json!({"matchConditions": [{"name": "many", "expression": "object.spec.replicas > 1"}]});
        assert_eq!(mutated(mutation, conditions).expect("passes")["spec"]["replicas"], 1);
    }
}
