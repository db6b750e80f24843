//! Priority: from the name of a class to the number that scheduling compares.

use std::sync::Arc;

use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects, Operation, Tree};

const CLASSES: &str = "scheduling.k8s.io/priorityclasses";
const GROUP: &str = "scheduling.k8s.io";

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    if !case.is_for_pods() {
        return Ok(());
    }
    match (case.request.operation, case.old) {
        (Operation::Create, _) => set(case, new),
        (_, Some(old)) => {
            keep(old, new);
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// The validating half: there is one default class at most.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(new) = new.filter(|new| case.is_for(GROUP, "priorityclasses", "") && new.flag(&["globalDefault"])) else {
        return Ok(());
    };
    match default_class(case) {
        Some(default) if case.request.operation == Operation::Create || default.name() != new.name() => {
            let name = default.name();
            let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
            Err(case.forbids(Some(new), why))
        }
        _ => Ok(()),
    }
}

/// Clients that know nothing of the fields must not erase them.
fn keep(old: &Value, new: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        if let (None, Some(value)) = (new.at(&["spec", field]), old.at(&["spec", field])) {
            new.put(&["spec", field], value.clone());
        }
    }
}

fn set(case: &Case<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let class = class_of(case, pod)?;
    let priority = class.as_ref().and_then(|class| class.int(&["value"])).unwrap_or(0);
    if let Some(given) = pod.int(&["spec", "priority"]).filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        );
        return Err(case.forbids(Some(pod), why));
    }
    pod.put(&["spec", "priority"], priority);
    if let Some(class) = &class {
        pod.put(&["spec", "priorityClassName"], class.name());
    }
    let policy = class.as_ref().map_or("PreemptLowerPriority", |class| match class.text(&["preemptionPolicy"]) {
        "" => "PreemptLowerPriority",
        policy => policy,
    });
    let given = pod.text(&["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        );
        return Err(case.forbids(Some(pod), why));
    }
    pod.put(&["spec", "preemptionPolicy"], policy);
    Ok(())
}

fn class_of(case: &Case<'_>, pod: &Value) -> Result<Option<Arc<Tree>>, ApiError> {
    match pod.text(&["spec", "priorityClassName"]) {
        "" => Ok(default_class(case)),
        name => case
            .world
            .shared(CLASSES, name)
            .map(Some)
            .ok_or_else(|| case.forbids(Some(pod), format!("no PriorityClass with name {name} was found"))),
    }
}

/// Of several (made at the same time) the one with the lowest value counts.
fn default_class(case: &Case<'_>) -> Option<Arc<Tree>> {
    let classes = case.world.list_shared(CLASSES).filter(|class| class.flag(&["globalDefault"]));
    classes.min_by_key(|class| class.int(&["value"]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create, update};
    use super::*;
    use serde_json::json;

    fn class(name: &str, value: i64, default: bool) -> Value {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
               "value": value, "globalDefault": default})
    }

    #[test]
    fn names_become_numbers() {
        let scene = Scene::new(&[class("high", 1000, false), class("usual", 10, true)]);
        let asked = create("", "pods", "d", "p");
        let check = |spec: Value, expected: Result<Value, &str>| {
            let mut pod = json!({"spec": spec});
            let outcome = mutate(&scene.case(&asked, None), &mut pod, &mut Effects::default());
            let outcome = outcome.map(|()| pod["spec"].take()).map_err(|e| e.message);
            assert_eq!(outcome, expected.map_err(|why| format!("pods \"p\" is forbidden: {why}")));
        };
        let set = |name: &str, priority: i64| json!({"priorityClassName": name, "priority": priority, "preemptionPolicy": "PreemptLowerPriority"});
        check(json!({"priorityClassName": "high"}), Ok(set("high", 1000)));
        check(json!({}), Ok(set("usual", 10)));
        check(json!({"priorityClassName": "none"}), Err("no PriorityClass with name none was found"));
        check(
            json!({"priorityClassName": "high", "priority": 5}),
            Err("the integer value of priority (5) must not be provided in pod spec; priority admission controller \
                 computed 1000 from the given PriorityClass name"),
        );
    }

    #[test]
    fn there_is_one_default() {
        let scene = Scene::new(&[class("usual", 10, true)]);
        let refused =
            |asked, new: Value| validate(&scene.case(&asked, None), Some(&new), &mut Effects::default()).is_err();
        assert!(refused(create(GROUP, "priorityclasses", "", "other"), class("other", 1, true)));
        assert!(!refused(create(GROUP, "priorityclasses", "", "other"), class("other", 1, false)));
        assert!(!refused(update(GROUP, "priorityclasses", "", "usual"), class("usual", 10, true)));
    }
}
