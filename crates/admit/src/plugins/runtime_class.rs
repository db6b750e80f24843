//! RuntimeClass: a pod pays the overhead of its runtime and goes where the runtime is.

use meta::{ApiError, ObjectExt};
use serde_json::{Map, Value};

use crate::admission::{Case, Effects};
use crate::resources;

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(class) = class_of(case, Some(new))? else { return Ok(()) };
    if let Some(overhead) = class.at(&["overhead", "podFixed"]) {
        let own = resources::read(new.at(&["spec", "overhead"]));
        if !own.is_empty() && own != resources::read(Some(overhead)) {
            return Err(differs(case, new));
        }
        new.put(&["spec", "overhead"], overhead.clone());
    }
    match class.at(&["scheduling"]) {
        Some(scheduling) => set_scheduling(case, scheduling, new),
        None => Ok(()),
    }
}

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(pod) = new.filter(|_| case.is_for_pods()) else { return Ok(()) };
    let class = class_of(case, new)?;
    let own = pod.at(&["spec", "overhead"]);
    match class.as_ref().and_then(|class| class.at(&["overhead"])).filter(|overhead| !overhead.is_null()) {
        Some(overhead) if resources::read(overhead.get("podFixed")) != resources::read(own) => Err(differs(case, pod)),
        Some(_) => Ok(()),
        None if own.is_some_and(|own| !own.is_null()) => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            Err(case.forbids(new, why))
        }
        None => Ok(()),
    }
}

fn differs(case: &Case<'_>, pod: &Value) -> ApiError {
    case.forbids(Some(pod), "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}

fn class_of(case: &Case<'_>, pod: Option<&Value>) -> Result<Option<Value>, ApiError> {
    let name = pod.filter(|_| case.is_for_pods()).map_or("", |pod| pod.text(&["spec", "runtimeClassName"]));
    if name.is_empty() {
        return Ok(None);
    }
    let class = case.world.read("node.k8s.io/runtimeclasses", name);
    let missing = || case.forbids(pod, format!("pod rejected: RuntimeClass {name:?} not found"));
    class.ok_or_else(missing).map(Some)
}

fn set_scheduling(case: &Case<'_>, scheduling: &Value, pod: &mut Value) -> Result<(), ApiError> {
    let mut selector: Map<String, Value> = pod.map(&["spec", "nodeSelector"]).cloned().unwrap_or_default();
    for (key, wanted) in scheduling.map(&["nodeSelector"]).into_iter().flatten() {
        if let Some(own) = selector.get(key).filter(|own| *own != wanted) {
            let (wanted, own) = (wanted.as_str().unwrap_or(""), own.as_str().unwrap_or(""));
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(case.forbids(Some(pod), why));
        }
        selector.insert(key.clone(), wanted.clone());
    }
    if !selector.is_empty() {
        pod.put(&["spec", "nodeSelector"], selector);
    }
    let merged = merged(pod.items(&["spec", "tolerations"]), scheduling.items(&["tolerations"]));
    if !merged.is_empty() {
        pod.put(&["spec", "tolerations"], merged);
    }
    Ok(())
}

/// Both lists without what another toleration includes.
fn merged(own: &[Value], more: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = own.iter().chain(more).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let included = |other: &Value| includes(other, toleration);
        let later = all[index + 1..].iter().any(|other| *other != *toleration && included(other));
        if !later && !kept.iter().any(included) {
            kept.push((*toleration).clone());
        }
    }
    kept
}

fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let same = |field: &str| wide.text(&[field]) == narrow.text(&[field]);
    let any_key = wide.text(&["key"]).is_empty() && wide.text(&["operator"]) == "Exists";
    let key = same("key") || any_key;
    let effect = same("effect") || wide.text(&["effect"]).is_empty();
    let seconds = match (wide.text(&["effect"]), wide.int(&["tolerationSeconds"])) {
        ("NoExecute", Some(limit)) => narrow.int(&["tolerationSeconds"]).is_some_and(|own| own <= limit),
        _ => true,
    };
    let value = match wide.text(&["operator"]) {
        "" | "Equal" => narrow.text(&["operator"]) == "Equal" && same("value"),
        operator => operator == "Exists",
    };
    key && effect && seconds && value
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;
    use serde_json::json;

    fn admitted(spec: Value) -> Result<Value, String> {
        let scene = Scene::new(&[json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"},
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"operator": "Exists", "key": "vm"}]},
        })]);
        let (asked, mut pod) = (create("", "pods", "d", "p"), json!({"spec": spec}));
        let case = scene.case(&asked, None);
        mutate(&case, &mut pod, &mut Effects::default()).map_err(|e| e.message)?;
        validate(&case, Some(&pod), &mut Effects::default()).map_err(|e| e.message)?;
        Ok(pod["spec"].take())
    }

    #[test]
    fn overhead_and_place_follow_the_class() {
        let spec = admitted(json!({
            "runtimeClassName": "vm", "nodeSelector": {"zone": "a"},
            "tolerations": [{"operator": "Equal", "key": "vm", "value": "x"}],
        }))
        .expect("admitted");
        assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
        assert_eq!(spec["nodeSelector"], json!({"vm": "yes", "zone": "a"}));
        assert_eq!(spec["tolerations"], json!([{"operator": "Exists", "key": "vm"}]));
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |spec: Value, why: &str| {
            assert_eq!(admitted(spec).unwrap_err(), format!("pods \"p\" is forbidden: {why}"));
        };
        check(json!({"runtimeClassName": "none"}), "pod rejected: RuntimeClass \"none\" not found");
        check(
            json!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        );
        check(
            json!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        );
        check(
            json!({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no",
        );
    }
}
