//! A pod that does not tolerate a `NoExecute` taint of its node is deleted, at once or when its toleration ends.
//!
//! Owns: nothing but the deletion, and before it the condition `DisruptionTarget`. The time of a toleration counts from
//! when the taint was added or the pod was made, whichever is later. At rest: every pod tolerates its node.

use std::time::Duration;

use brain::facts::{Pod, Seen, Taint, Toleration};
use brain::{Action, Brain, Def, Note, Object, Outcome, View, Watch};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde::Deserialize;
use serde_json::Value;
use store::{Event, Key};

use crate::pods::{COLLECTION, PODS};
use crate::target::Target;

const NODES: &str = "core/nodes";

/// The controller.
pub struct TaintEvictionController;

/// When the pod shall go.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    until: Time,
}

/// The pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    target: Target,
    object: Value,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Says why the pod goes.
    Tell(Value),
    /// Deletes it.
    Delete,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A taint is not tolerated.
    NotTolerated(String),
}

impl Brain for TaintEvictionController {
    const DEF: Def = Def {
        name: "taint-eviction",
        root: PODS,
        root_kind: "Pod",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: NODES, roots: node_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let pod = Seen::<Pod>::from(view.get_key(key)?);
        if pod.is_deleting() || !pod.facts.is_bound() || pod.facts.is_finished() {
            return None;
        }
        let node = view.get(NODES, "", &pod.facts.spec.node_name)?;
        let until = until(&evicting_taints(&node), &pod.facts.spec.tolerations, pod.meta().creation_timestamp)?;
        Some((Desired { until }, Observed { target: Target::of(&pod.object), object: pod.object.tree() }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        if desired.until > now {
            return Outcome::rest().wake_at(desired.until);
        }
        let mut told = observed.object.clone();
        let message = "Taint manager: deleting due to NoExecute taint";
        let target = Condition::new("DisruptionTarget", "True", "DeletionByTaintManager", message);
        let mut outcome = Outcome::rest().note(Why::NotTolerated(observed.object.name().to_owned()));
        if condition::set(&mut told, target, now) {
            outcome = outcome.step(Step::Tell(told));
        }
        outcome.step(Step::Delete)
    }

    fn check(_: &Desired, _: &Observed, _: &Outcome<Step, Why>) -> Result<(), String> {
        Ok(())
    }

    fn perform(step: Step, _: &Desired, observed: &Observed) -> Action {
        match step {
            Step::Tell(object) => Action::Update { resource: PODS, subresource: "status", object },
            Step::Delete => observed.target.delete(PODS, None),
        }
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        matches!(step, Step::Delete).then(|| Note::normal("TaintManagerEviction", "Marking for deletion Pod"))
    }

    fn explain(Why::NotTolerated(pod): Why) -> Note {
        Note::quiet("NotTolerated", format!("a NoExecute taint is not tolerated by {pod}"))
    }
}

/// A taint and when it was added.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Added {
    #[serde(flatten)]
    taint: Taint,
    time_added: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tainted {
    spec: TaintedSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaintedSpec {
    taints: Vec<Added>,
}

fn evicting_taints(node: &Object) -> Vec<Added> {
    let read = |bytes: &[u8]| serde_json::from_slice::<Tainted>(bytes).unwrap_or_default();
    let node = node.project(read);
    node.spec.taints.iter().filter(|added| &*added.taint.effect == "NoExecute").cloned().collect()
}

/// When the first toleration ends; the epoch when a taint is not tolerated at all, `None` when all are for ever.
fn until(taints: &[Added], tolerations: &[Toleration], created: Time) -> Option<Time> {
    let end = |added: &Added| {
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(&added.taint)) else {
            return Some(Time::EPOCH);
        };
        let seconds = u64::try_from(toleration.toleration_seconds?).unwrap_or(0);
        let since = added.time_added.as_deref().and_then(Time::parse).unwrap_or(created).max(created);
        Some(since.after(Duration::from_secs(seconds)))
    };
    taints.iter().filter_map(end).min()
}

/// A node whose taints changed concerns its pods.
fn node_roots(view: &View, event: &Event) -> Vec<Key> {
    let taints = |entry: &std::sync::Arc<store::Entry>| evicting_taints(&Object::new(event.key.clone(), entry.clone()));
    if event.previous.as_ref().map(taints).unwrap_or_default() == taints(&event.entry) {
        return Vec::new();
    }
    let pods = view.list(COLLECTION, "").into_iter();
    pods.filter(|pod| *Pod::of(pod).spec.node_name == *event.key.item).map(|pod| pod.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{START, World};
    use brain::Controller;
    use serde_json::json;

    const KEY: &str = "node.kubernetes.io/unreachable";

    fn pod(world: &mut World, name: &str, tolerations: Value) {
        world.put(
            COLLECTION,
            json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": "n1", "tolerations": tolerations},
                "status": {"phase": "Running"}}),
        );
    }

    fn world() -> World {
        let mut world = World::new([Controller::of::<TaintEvictionController>()]);
        world.put(NODES, json!({"metadata": {"name": "n1"}}));
        let tolerates = |seconds: Value| json!([{"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
        pod(&mut world, "never", json!([]));
        pod(&mut world, "while", tolerates(json!(300)));
        pod(&mut world, "ever", tolerates(Value::Null));
        world
    }

    fn taint(world: &mut World, taints: Value) {
        world.edit(NODES, "", "n1", |node| node.put(&["spec", "taints"], taints));
    }

    #[test]
    fn pods_go_when_their_toleration_ends() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), Vec::<String>::new());
            taint(&mut world, json!([{"key": KEY, "effect": "NoExecute", "timeAdded": START.to_rfc3339()}]));
            assert_eq!(world.follow(), ["update status pods a/never", "delete pods a/never"]);
            world.advance(299);
            assert_eq!(world.follow(), Vec::<String>::new());
            world.advance(1);
            assert_eq!(world.follow(), ["update status pods a/while", "delete pods a/while"]);
            world.advance(100_000);
            assert_eq!(world.follow(), Vec::<String>::new());
        }
    }

    #[test]
    fn a_taint_that_goes_in_time_evicts_nobody() {
        let mut world = world();
        taint(&mut world, json!([{"key": KEY, "effect": "NoExecute", "timeAdded": START.to_rfc3339()}]));
        world.settle();
        world.advance(200);
        taint(&mut world, json!([{"key": KEY, "effect": "NoSchedule"}]));
        world.follow();
        world.advance(200);
        assert_eq!(world.follow(), Vec::<String>::new());
    }
}
