//! A PodDisruptionBudget says how many of its pods may be disrupted right now.
//!
//! Owns: the budget's status. `disruptedPods` is also written by the eviction that spends the budget; an entry is
//! dropped when its pod is being deleted, or when two minutes have passed and the pod is still there (the eviction
//! came to nothing). At rest: the status says what follows from the pods and the workloads that own them.

use std::collections::BTreeMap;
use std::time::Duration;

use brain::facts::{Pod, Seen};
use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::condition::Condition;
use meta::int_or_string::{plain_value, scaled_value};
use meta::labels::Selector;
use meta::{ObjectExt, Time, condition};
use serde_json::Value;
use store::{Event, Key};

const BUDGETS: Resource = Resource::new("policy", "v1", "poddisruptionbudgets");
const COLLECTION: &str = "policy/poddisruptionbudgets";
const PODS: &str = "core/pods";
/// How long an eviction may take to show in its pod.
const EVICTION_WAIT: Duration = Duration::from_secs(120);

/// The controller.
pub struct DisruptionController;

/// The budget as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    object: Value,
    /// The number of pods that the workloads want, or why it is not known.
    expected: Result<i64, String>,
    healthy_wanted: Result<i64, String>,
}

/// Its pods.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observed {
    /// By name.
    pods: BTreeMap<String, BudgetPod>,
}

#[derive(Clone, Debug, PartialEq)]
struct BudgetPod {
    is_ready: bool,
    is_deleting: bool,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the status.
    Tell(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The number of pods wanted is not known.
    Unknown(String),
    /// The selector selects none.
    NoPods,
}

impl Brain for DisruptionController {
    const DEF: Def = Def {
        name: "disruption",
        root: BUDGETS,
        root_kind: "PodDisruptionBudget",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: PODS, roots: pod_roots },
            Watch { collection: "apps/deployments", roots: namespace_roots },
            Watch { collection: "apps/replicasets", roots: namespace_roots },
            Watch { collection: "apps/statefulsets", roots: namespace_roots },
            Watch { collection: "core/replicationcontrollers", roots: namespace_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let budget = view.get_key(key)?;
        let object = budget.tree();
        let selector = Selector::from_label_selector(object.at(&["spec", "selector"])).unwrap_or(Selector::nothing());
        let is_covered = |pod: &Object| selector.matches(&pod.meta().labels);
        let namespace = &*budget.meta().namespace;
        let exact = object.map(&["spec", "selector", "matchLabels"]).and_then(|pairs| pairs.iter().next());
        let candidates = match exact {
            Some((key, value)) => view.pods_labelled(namespace, key, value.as_str().unwrap_or_default()),
            None => view.list(PODS, namespace),
        };
        let pods = candidates.into_iter().filter(is_covered).map(Seen::<Pod>::from);
        // Ended pods are nobody's health any more, but their owners still count.
        let pods: Vec<Seen<Pod>> = pods.collect();
        let expected = expected(view, &object, &pods);
        let healthy_wanted = expected.clone().and_then(|expected| healthy_wanted(&object, expected));
        let pods = pods.iter().map(|pod| {
            let is_ready = pod.facts.is_ready();
            (pod.name().to_owned(), BudgetPod { is_ready, is_deleting: pod.is_deleting() })
        });
        Some((Desired { object, expected, healthy_wanted }, Observed { pods: pods.collect() }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let (disrupted, recheck) = disrupted(&desired.object, observed, now);
        let (told, note) = match (&desired.expected, &desired.healthy_wanted) {
            (Ok(expected), Ok(wanted)) => {
                let told = told(&desired.object, observed, &disrupted, *expected, *wanted, now);
                (told, observed.pods.is_empty().then_some(Why::NoPods))
            }
            (Err(error), _) | (_, Err(error)) => {
                (failed(&desired.object, error, now), Some(Why::Unknown(error.clone())))
            }
        };
        let mut outcome = Outcome::rest();
        outcome.notes.extend(note);
        outcome.steps.extend((told != desired.object).then_some(Step::Tell(told)));
        match recheck {
            Some(time) => outcome.wake_at(time),
            None => outcome,
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let ready = observed.pods.values().filter(|pod| pod.is_ready && !pod.is_deleting).count();
        for Step::Tell(new) in &outcome.steps {
            let allowed = new.int(&["status", "disruptionsAllowed"]).unwrap_or(0);
            if allowed < 0 || usize::try_from(allowed).unwrap_or(usize::MAX) > ready {
                return Err(format!("{allowed} disruptions are allowed of {ready} ready pods"));
            }
        }
        Ok(())
    }

    fn perform(Step::Tell(object): Step, _: &Desired, _: &Observed) -> Action {
        Action::Update { resource: BUDGETS, subresource: "status", object }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::Unknown(error) => Note::warning(
                "CalculateExpectedPodCountFailed",
                format!("Failed to calculate the number of expected pods: {error}"),
            ),
            Why::NoPods => Note::quiet("NoPods", "No matching pods found"),
        }
    }
}

/// The number of pods that the budget is a share of. Only a plain `minAvailable` needs no workload.
fn expected(view: &View, budget: &Value, pods: &[Seen<Pod>]) -> Result<i64, String> {
    let plain = budget.at(&["spec", "minAvailable"]).is_some_and(Value::is_number);
    if plain && budget.at(&["spec", "maxUnavailable"]).is_none() {
        return Ok(i64::try_from(pods.len()).unwrap_or(i64::MAX));
    }
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        // Pods that nobody manages are no share of anything.
        let Some(owner) = pod.meta().controller() else { continue };
        let (uid, replicas) = scale_of(view, &pod.meta().namespace, owner)
            .ok_or_else(|| format!("found no controllers for pod {:?}", pod.name()))?;
        scales.insert(uid, replicas);
    }
    Ok(scales.values().fold(0, |sum, replicas| sum.saturating_add(*replicas)))
}

/// The workload that scales the pod's owner: a ReplicaSet's Deployment, else the owner itself.
fn scale_of(view: &View, namespace: &str, owner: &view::OwnerRef) -> Option<(String, i64)> {
    let collection = match &*owner.kind {
        "ReplicaSet" => "apps/replicasets",
        "Deployment" => "apps/deployments",
        "StatefulSet" => "apps/statefulsets",
        "ReplicationController" => "core/replicationcontrollers",
        kind => return custom_scale(view, namespace, owner, kind),
    };
    let object = view.get(collection, namespace, &owner.name).filter(|object| object.meta().uid == owner.uid)?;
    match object.meta().controller() {
        Some(above) if &*owner.kind == "ReplicaSet" && &*above.kind == "Deployment" => scale_of(view, namespace, above),
        _ => Some((owner.uid.to_string(), object.tree().int(&["spec", "replicas"]).unwrap_or(1))),
    }
}

/// A custom kind with a scale subresource.
fn custom_scale(view: &View, namespace: &str, owner: &view::OwnerRef, kind: &str) -> Option<(String, i64)> {
    let served = crate::served::by_kind(view, &owner.api_version, kind)?;
    let name = format!("{}.{}", served.resource.plural, served.resource.group);
    let definition = view.get("apiextensions.k8s.io/customresourcedefinitions", "", &name)?.tree();
    let versions = definition.items(&["spec", "versions"]).iter();
    let version = versions.into_iter().find(|version| version.text(&["name"]) == served.resource.version)?;
    let path = version.text(&["subresources", "scale", "specReplicasPath"]).trim_start_matches('.').to_owned();
    let object =
        view.get(&served.collection, namespace, &owner.name).filter(|object| object.meta().uid == owner.uid)?;
    let steps: Vec<&str> = path.split('.').filter(|step| !step.is_empty()).collect();
    if steps.is_empty() { None } else { Some((owner.uid.to_string(), object.tree().int(&steps).unwrap_or(0))) }
}

fn healthy_wanted(budget: &Value, expected: i64) -> Result<i64, String> {
    if let Some(max) = budget.at(&["spec", "maxUnavailable"]) {
        return Ok((expected - scaled_value(max, expected, true)?).max(0));
    }
    match budget.at(&["spec", "minAvailable"]) {
        Some(min) if min.is_number() => Ok(plain_value(min)),
        Some(min) => scaled_value(min, expected, true),
        None => Ok(0),
    }
}

/// The evictions that are still to show, and when to look at them again.
fn disrupted(budget: &Value, observed: &Observed, now: Time) -> (BTreeMap<String, Value>, Option<Time>) {
    let (mut kept, mut recheck) = (BTreeMap::new(), None::<Time>);
    for (name, time) in budget.map(&["status", "disruptedPods"]).into_iter().flatten() {
        let is_there = observed.pods.get(name).is_some_and(|pod| !pod.is_deleting);
        let until = time.as_str().and_then(Time::parse).unwrap_or(Time::EPOCH).after(EVICTION_WAIT);
        if is_there && until > now {
            kept.insert(name.clone(), time.clone());
            recheck = Some(recheck.map_or(until, |time| time.min(until)));
        }
    }
    (kept, recheck)
}

fn told(
    budget: &Value,
    observed: &Observed,
    disrupted: &BTreeMap<String, Value>,
    expected: i64,
    wanted: i64,
    now: Time,
) -> Value {
    let healthy =
        observed.pods.iter().filter(|(name, pod)| pod.is_ready && !pod.is_deleting && !disrupted.contains_key(*name));
    let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let allowed = if expected <= 0 { 0 } else { (healthy - wanted).max(0) };
    let mut new = budget.clone();
    let numbers = [
        ("currentHealthy", healthy),
        ("desiredHealthy", wanted),
        ("expectedPods", expected),
        ("disruptionsAllowed", allowed),
    ];
    for (field, number) in numbers {
        new.put(&["status", field], number);
    }
    new.put(&["status", "observedGeneration"], budget.generation());
    match disrupted.is_empty() {
        true => drop(new.remove(&["status", "disruptedPods"])),
        false => {
            new.put(&["status", "disruptedPods"], disrupted.clone().into_iter().collect::<serde_json::Map<_, _>>())
        }
    }
    let condition = if allowed > 0 {
        Condition::new("DisruptionAllowed", "True", "SufficientPods", "")
    } else {
        Condition::new("DisruptionAllowed", "False", "InsufficientPods", "")
    };
    set_condition(&mut new, condition.observed(budget.generation()), now);
    new
}

/// Nothing may be disrupted while the numbers are not known.
fn failed(budget: &Value, error: &str, now: Time) -> Value {
    let mut new = budget.clone();
    new.put(&["status", "disruptionsAllowed"], 0);
    new.put(&["status", "observedGeneration"], budget.generation());
    let condition = Condition::new("DisruptionAllowed", "False", "SyncFailed", error.to_owned());
    set_condition(&mut new, condition.observed(budget.generation()), now);
    new
}

/// A `metav1.Condition` has a message even when there is nothing to say.
fn set_condition(budget: &mut Value, condition: Condition<'_>, now: Time) {
    condition::set(budget, condition, now);
    let conditions =
        budget.get_mut("status").and_then(|status| status.get_mut("conditions")).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if condition.at(&["message"]).is_none() {
            condition.put(&["message"], "");
        }
    }
}

/// The budgets whose selector matches the pod as it is or was.
fn pod_roots(view: &View, event: &Event) -> Vec<Key> {
    let entries = event.previous.iter().chain([&event.entry]);
    let pods: Vec<Object> = entries.map(|entry| Object::new(event.key.clone(), entry.clone())).collect();
    let namespace = event.key.item.split_once('/').map_or("", |(namespace, _)| namespace);
    let covers = |budget: &Object| {
        let tree = budget.tree();
        let selector = Selector::from_label_selector(tree.at(&["spec", "selector"])).unwrap_or(Selector::nothing());
        pods.iter().any(|pod| selector.matches(&pod.meta().labels))
    };
    view.list(COLLECTION, namespace).into_iter().filter(covers).map(|budget| budget.key).collect()
}

/// A workload's scale concerns the budgets of its namespace.
fn namespace_roots(view: &View, event: &Event) -> Vec<Key> {
    let namespace = event.key.item.split_once('/').map_or("", |(namespace, _)| namespace);
    view.list(COLLECTION, namespace).into_iter().map(|budget| budget.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{START, World};
    use brain::Controller;
    use serde_json::json;

    fn world(spec: Value) -> World {
        let mut world = World::new([Controller::of::<DisruptionController>()]);
        let mut spec = spec;
        spec.put(&["selector"], json!({"matchLabels": {"app": "web"}}));
        world.put(COLLECTION, json!({"metadata": {"name": "web", "namespace": "a", "generation": 1}, "spec": spec}));
        world.put(
            "apps/deployments",
            json!({"metadata": {"name": "web", "namespace": "a", "uid": "d"}, "spec": {"replicas": 4}}),
        );
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
        world.put(
            "apps/replicasets",
            json!({"metadata": {"name": "web-1", "namespace": "a", "uid": "rs", "ownerReferences": owner}, "spec": {"replicas": 3}}),
        );
        for n in 0..3 {
            pod(&mut world, &format!("p{n}"), true);
        }
        world
    }

    fn pod(world: &mut World, name: &str, ready: bool) {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": true}]);
        world.put(
            PODS,
            json!({"metadata": {"name": name, "namespace": "a", "labels": {"app": "web"}, "ownerReferences": owner},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}}),
        );
    }

    fn numbers(world: &World) -> [i64; 4] {
        let budget = world.get(COLLECTION, "a", "web").unwrap();
        ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|field| budget.int(&["status", field]).unwrap_or(-1))
    }

    #[test]
    fn numbers_follow_the_budget() {
        let check = |spec: Value, expected: [i64; 4]| {
            let mut world = world(spec.clone());
            world.settle();
            assert_eq!(numbers(&world), expected, "{spec}");
        };
        check(json!({"minAvailable": 2}), [3, 2, 3, 1]);
        check(json!({"minAvailable": "50%"}), [4, 2, 3, 1]);
        check(json!({"maxUnavailable": 1}), [4, 3, 3, 0]);
        check(json!({"maxUnavailable": "25%"}), [4, 3, 3, 0]);
        check(json!({"minAvailable": 0}), [3, 0, 3, 3]);
    }

    #[test]
    fn conditions_say_whether() {
        let mut world = world(json!({"minAvailable": 2}));
        world.settle();
        let find = |world: &World| {
            let budget = world.get(COLLECTION, "a", "web").unwrap();
            let condition = condition::find(&budget, "DisruptionAllowed").unwrap();
            format!("{} {}", condition.text(&["status"]), condition.text(&["reason"]))
        };
        assert_eq!(find(&world), "True SufficientPods");
        pod(&mut world, "p0", false);
        world.follow();
        assert_eq!((find(&world), numbers(&world)), ("False InsufficientPods".to_owned(), [3, 2, 2, 0]));
        world.edit(COLLECTION, "a", "web", |b| {
            b.put(&["spec"], json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}))
        });
        world.remove("apps/replicasets", "a", "web-1");
        world.follow();
        assert_eq!(find(&world), "False SyncFailed");
    }

    #[test]
    fn an_eviction_that_came_to_nothing_is_forgotten() {
        let mut world = world(json!({"minAvailable": 2}));
        world.settle();
        world.edit(COLLECTION, "a", "web", |budget| {
            budget.put(&["status", "disruptedPods"], json!({"p1": START.to_rfc3339(), "gone": START.to_rfc3339()}));
            budget.put(&["status", "disruptionsAllowed"], 0);
        });
        world.follow();
        assert_eq!(numbers(&world), [3, 2, 2, 0]);
        let budget = world.get(COLLECTION, "a", "web").unwrap();
        assert_eq!(budget.map(&["status", "disruptedPods"]).map(|pods| pods.len()), Some(1));
        assert_eq!(world.next_wake(), Some(START.after(EVICTION_WAIT)));
        world.advance(120);
        world.follow();
        assert_eq!(numbers(&world), [3, 2, 3, 1]);
    }
}
