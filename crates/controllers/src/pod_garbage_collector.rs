//! Pods that nobody will finish are removed: those bound to a node that does not exist, those being deleted before
//! they were ever bound, those on nodes that are out of service, and ended ones beyond a generous number.
//!
//! Owns: nothing but the deletion, and before it the phase `Failed` and the condition `DisruptionTarget` of pods that had
//! not ended. At rest: every bound pod's node exists. A pod younger than forty seconds is left alone: its node may be
//! about to register.

use std::time::Duration;

use brain::facts::{Node, Pod, Seen, Taint};
use brain::{Action, Brain, Def, Note, Object, Outcome, View, Watch};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::{Value, json};
use store::{Change, Event, Key};

use crate::pods::{COLLECTION, PODS};
use crate::target::Target;

const NODES: &str = "core/nodes";
/// How long a node may be missing after a pod names it.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Ended pods that are kept, upstream's default: they are the record of what ran.
const ENDED_MAX: usize = 12_500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The controller.
pub struct PodGarbageCollector;

/// Why the pod shall go; `None`: it stays for now.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    cause: Option<Cause>,
    /// When a cause would become one.
    recheck: Option<Time>,
}

/// Why a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its node does not exist.
    Orphaned,
    /// It is being deleted and no node ever had it.
    Unbound,
    /// Its node is not ready and out of service.
    OutOfService,
    /// Too many pods have ended.
    Ended,
}

/// The pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    target: Target,
    object: Value,
    is_finished: bool,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Says that the pod has failed, and why: the fields of its status that change.
    Fail(Value),
    /// Removes it without grace.
    Delete,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The cause.
    Goes(Cause),
}

impl Brain for PodGarbageCollector {
    const DEF: Def = Def {
        name: "pod-garbage-collector",
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

    fn observe(view: &View, key: &Key, now: Time) -> Option<(Desired, Observed)> {
        let pod = Seen::<Pod>::from(view.get_key(key)?);
        let desired = desired(view, &pod, now);
        if desired.cause.is_none() && desired.recheck.is_none() {
            return None;
        }
        let is_finished = pod.facts.is_finished();
        Some((desired, Observed { target: Target::of(&pod.object), object: pod.object.tree(), is_finished }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let outcome = match desired.recheck {
            Some(time) => Outcome::rest().wake_at(time),
            None => Outcome::rest(),
        };
        let Some(cause) = desired.cause else { return outcome };
        let outcome = outcome.note(Why::Goes(cause));
        let is_released = observed.object.is_deleting()
            && observed.object.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0;
        // Whoever holds it with a finalizer may wait for its end (a Job that replaces what has failed), and nobody else
        // will say that it has come.
        let outcome = match observed.is_finished {
            false => outcome.step(Step::Fail(failed(&observed.object, message(cause), now))),
            true => outcome,
        };
        if is_released { outcome } else { outcome.step(Step::Delete) }
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match desired.cause.is_none() && !outcome.steps.is_empty() {
            true => Err("a pod goes without a cause".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, _: &Desired, observed: &Observed) -> Action {
        match step {
            // A patch, because that is what its role grants.
            Step::Fail(status) => observed.target.merge_guarded(PODS, "status", json!({"status": status})),
            Step::Delete => observed.target.delete_now(PODS),
        }
    }

    fn explain(Why::Goes(cause): Why) -> Note {
        Note::quiet("PodGC", message(cause).unwrap_or("PodGC: nobody will finish this pod"))
    }
}

fn message(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Orphaned => Some("PodGC: node no longer exists"),
        Cause::OutOfService => Some("PodGC: node is out of service"),
        Cause::Unbound | Cause::Ended => None,
    }
}

fn desired(view: &View, pod: &Seen<Pod>, now: Time) -> Desired {
    let at_once = |cause| Desired { cause: Some(cause), recheck: None };
    if !pod.facts.is_bound() {
        return if pod.is_deleting() { at_once(Cause::Unbound) } else { Desired { cause: None, recheck: None } };
    }
    let Some(node) = view.get(NODES, "", &pod.facts.spec.node_name) else {
        let until = pod.meta().creation_timestamp.after(QUARANTINE);
        return if until <= now { at_once(Cause::Orphaned) } else { Desired { cause: None, recheck: Some(until) } };
    };
    let node = Node::of(&node);
    let is_out = |taint: &Taint| *taint.key == *OUT_OF_SERVICE;
    if pod.is_deleting() && !node.is_ready() && node.spec.taints.iter().any(is_out) {
        return at_once(Cause::OutOfService);
    }
    match pod.facts.is_finished() && is_surplus(view, pod) {
        true => at_once(Cause::Ended),
        false => Desired { cause: None, recheck: None },
    }
}

/// Whether the pod is among the oldest of too many ended ones. Counting them all is needed only when there are more
/// pods than that.
fn is_surplus(view: &View, pod: &Seen<Pod>) -> bool {
    if view.snapshot().count(COLLECTION) <= ENDED_MAX {
        return false;
    }
    let ended = view.list(COLLECTION, "").into_iter().filter(|object| Pod::of(object).is_finished());
    let mut ages: Vec<(Time, Key)> = ended.map(|object| (object.meta().creation_timestamp, object.key)).collect();
    ages.sort();
    let surplus = ages.len().saturating_sub(ENDED_MAX);
    ages.iter().take(surplus).any(|(_, key)| *key == pod.object.key)
}

fn failed(pod: &Value, message: Option<&'static str>, now: Time) -> Value {
    let Some(message) = message else { return json!({"phase": "Failed"}) };
    let mut new = pod.clone();
    condition::set(&mut new, Condition::new("DisruptionTarget", "True", "DeletionByPodGC", message), now);
    json!({"phase": "Failed", "conditions": new["status"]["conditions"]})
}

/// A node that is gone, or that changed its taints, concerns its pods.
fn node_roots(view: &View, event: &Event) -> Vec<Key> {
    let node = |entry: &std::sync::Arc<store::Entry>| Node::of(&Object::new(event.key.clone(), entry.clone()));
    let taints = |node: &Node| (node.spec.taints.to_vec(), node.is_ready());
    let is_same = event.previous.as_ref().is_some_and(|old| taints(&node(old)) == taints(&node(&event.entry)));
    if event.change != Change::Deleted && is_same {
        return Vec::new();
    }
    let name = &event.key.item;
    let pods = view.list(COLLECTION, "").into_iter();
    pods.filter(|pod| *Pod::of(pod).spec.node_name == **name).map(|pod| pod.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;

    fn world() -> World {
        let mut world = World::new([Controller::of::<PodGarbageCollector>()]);
        world.put(NODES, json!({"metadata": {"name": "n1"}}));
        for (name, node) in [("here", "n1"), ("lost", "n2"), ("new", "")] {
            world.put(
                COLLECTION,
                json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node}, "status": {"phase": "Running"}}),
            );
        }
        world
    }

    #[test]
    fn pods_without_node_fail_and_go() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), Vec::<String>::new());
            world.advance(40);
            assert_eq!(world.follow(), ["patch status pods a/lost", "delete pods a/lost"]);
            world.remove(NODES, "", "n1");
            assert_eq!(world.follow(), ["patch status pods a/here", "delete pods a/here"]);
            assert_eq!(world.names(COLLECTION), ["a/new"]);
        }
    }

    #[test]
    fn the_failure_says_why() {
        let mut world = world();
        world.edit(COLLECTION, "a", "lost", |pod| pod.put(&["metadata", "finalizers"], json!(["x.io/wait"])));
        world.advance(40);
        world.follow();
        let lost = world.get(COLLECTION, "a", "lost").unwrap();
        assert_eq!((lost.text(&["status", "phase"]), condition::is_true(&lost, "DisruptionTarget")), ("Failed", true));
    }

    #[test]
    fn an_unbound_pod_that_is_held_while_it_goes_has_failed() {
        let mut world = world();
        world.edit(COLLECTION, "a", "new", |pod| {
            pod.put(&["metadata", "finalizers"], json!(["x.io/wait"]));
            pod.put(&["status", "phase"], "Pending");
        });
        world.delete(COLLECTION, "a", "new", None);
        world.settle();
        let held = world.get(COLLECTION, "a", "new").unwrap();
        assert_eq!(held.text(&["status", "phase"]), "Failed");
        assert_eq!(world.follow(), Vec::<String>::new());
    }

    #[test]
    fn deleted_pods_of_a_node_out_of_service_go() {
        let mut world = world();
        world.delete(COLLECTION, "a", "here", None);
        assert_eq!(world.settle(), Vec::<String>::new());
        let taint = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
        world.edit(NODES, "", "n1", |node| node.put(&["spec", "taints"], taint));
        assert_eq!(world.follow(), ["patch status pods a/here", "delete pods a/here"]);
    }
}
