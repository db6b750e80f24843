//! A node that is silent is said to be in an unknown state, and nodes that are not well are tainted.
//!
//! Owns: the `Unknown` status of a silent node's conditions, the taints `node.kubernetes.io/*` that follow from its
//! conditions and from `spec.unschedulable`, the time that a `NoExecute` taint was added where nobody wrote it, and the
//! Ready condition of pods on nodes that are not ready. A node is silent when neither its Lease nor its status was
//! renewed for the grace period. Leases do not survive a restart of the server, so a missing one is made, with the time
//! at which it was missed first: from then on the silence counts.
//! While no node at all is ready nothing is evicted: then the fault is here rather than there.
//! At rest: conditions, taints and pods say the same. Never touches other taints.

use std::time::Duration;

use brain::facts::{Node, Pod, Seen};
use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::pods;
use crate::target::Target;

const NODES: Resource = Resource::new("", "v1", "nodes");
const COLLECTION: &str = "core/nodes";
const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
const LEASE_COLLECTION: &str = "coordination.k8s.io/leases";
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Silence after which a node's state is unknown, upstream's default; a node renews its Lease every ten seconds.
const GRACE: Duration = Duration::from_secs(50);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Conditions a silent node is said not to know any more.
const WATCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Condition, status and the taint that keeps pods away.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The controller.
pub struct NodeLifecycleController;

/// The node as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    target: Target,
    object: Value,
    /// Whether any node of the cluster is ready.
    some_node_is_ready: bool,
}

/// What is known of its life.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    has_lease: bool,
    last_sign: Time,
    /// Pods on it that say they are ready, if the node is not.
    ready_pods: Vec<Value>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the missing Lease, as of now.
    StartClock(Time),
    /// Writes the node's status.
    Tell(Value),
    /// Writes the taints.
    Taint(Value),
    /// Writes a pod's status.
    Unready(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The node is not ready.
    NotReady(String),
}

impl Brain for NodeLifecycleController {
    const DEF: Def = Def {
        name: "node",
        root: NODES,
        root_kind: "Node",
        watches: &[
            Watch { collection: COLLECTION, roots: node_roots },
            Watch { collection: LEASE_COLLECTION, roots: lease_roots },
            Watch { collection: pods::COLLECTION, roots: pod_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let node = view.get_key(key).filter(|node| !node.meta().is_deleting())?;
        let object = node.tree();
        let lease = view.get(LEASE_COLLECTION, LEASE_NAMESPACE, &key.item);
        let renewed = lease.as_ref().and_then(|lease| Time::parse(lease.tree().text(&["spec", "renewTime"])));
        let heartbeat = condition::find(&object, "Ready").and_then(|c| Time::parse(c.text(&["lastHeartbeatTime"])));
        let last_sign =
            node.meta().creation_timestamp.max(renewed.unwrap_or_default()).max(heartbeat.unwrap_or_default());
        let some_node_is_ready = view.list(COLLECTION, "").iter().any(|node| Node::of(node).is_ready());
        let since = condition::find(&object, "Ready").and_then(|c| Time::parse(c.text(&["lastTransitionTime"])));
        let ready_pods = if Node::of(&node).is_ready() {
            Vec::new()
        } else {
            ready_pods(view, &key.item, since.unwrap_or_default())
        };
        let desired = Desired { target: Target::of(&node), object, some_node_is_ready };
        Some((desired, Observed { has_lease: lease.is_some(), last_sign, ready_pods }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let object = &desired.object;
        let silent_at = observed.last_sign.after(GRACE);
        let outcome = if silent_at > now { Outcome::rest().wake_at(silent_at) } else { Outcome::rest() };
        if silent_at <= now && !is_known_silent(object) {
            // The first look without a Lease starts the clock, it does not stop it.
            return match observed.has_lease {
                false => outcome.step(Step::StartClock(now)).wake_at(now.after(GRACE)),
                true => outcome.step(Step::Tell(silent(object, now))).note(Why::NotReady(object.name().to_owned())),
            };
        }
        let mut outcome = outcome;
        let taints = taints(desired, now);
        outcome.steps.extend((taints != *object.items(&["spec", "taints"])).then(|| Step::Taint(taints.into())));
        if matches!(condition::status(object, "Ready"), "False" | "Unknown") && desired.some_node_is_ready {
            outcome.steps.extend(observed.ready_pods.iter().map(|pod| Step::Unready(unready(pod, now))));
        }
        outcome
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let evicts = |step: &Step| match step {
            Step::Taint(taints) => taints.items(&[]).iter().any(is_evicting),
            _ => false,
        };
        let is_ready = condition::is_true(&desired.object, "Ready");
        match is_ready && outcome.steps.iter().any(evicts) {
            true => Err("pods of a ready node are evicted".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        match step {
            Step::StartClock(now) => Action::Create {
                resource: LEASES,
                namespace: LEASE_NAMESPACE.to_owned(),
                object: lease(&desired.target, now),
            },
            Step::Tell(object) => Action::Update { resource: NODES, subresource: "status", object },
            Step::Taint(taints) => {
                let taints = if taints.items(&[]).is_empty() { Value::Null } else { taints };
                desired.target.merge_guarded(NODES, "", json!({"spec": {"taints": taints}}))
            }
            Step::Unready(object) => Action::Update { resource: pods::PODS, subresource: "status", object },
        }
    }

    fn explain(Why::NotReady(node): Why) -> Note {
        Note::normal("NodeNotReady", format!("Node {node} status is now: NodeNotReady"))
    }
}

/// Whether every condition says already that nothing is known.
fn is_known_silent(node: &Value) -> bool {
    WATCHED.iter().all(|type_| condition::status(node, type_) == "Unknown")
}

fn silent(node: &Value, now: Time) -> Value {
    let mut new = node.clone();
    for type_ in WATCHED {
        let (reason, message) = match condition::find(node, type_) {
            Some(known) if known.text(&["status"]) == "Unknown" => continue,
            Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
            None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
        };
        condition::set(&mut new, Condition::new(type_, "Unknown", reason, message), now);
    }
    new
}

fn is_evicting(taint: &Value) -> bool {
    taint.text(&["effect"]) == "NoExecute" && matches!(taint.text(&["key"]), NOT_READY | UNREACHABLE)
}

/// The taints of others as they stand, and ours as they follow.
fn taints(desired: &Desired, now: Time) -> Vec<Value> {
    let node = &desired.object;
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (type_, status, key) in TAINTS {
        if condition::status(node, type_) == status {
            wanted.push((key, "NoSchedule"));
            if type_ == "Ready" && desired.some_node_is_ready {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node.flag(&["spec", "unschedulable"]) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let is_wanted = |taint: &Value| wanted.contains(&(taint.text(&["key"]), taint.text(&["effect"])));
    let is_ours = |taint: &Value| {
        let key = taint.text(&["key"]);
        let evicts = matches!(key, NOT_READY | UNREACHABLE) && taint.text(&["effect"]) == "NoExecute";
        let keeps_away = taint.text(&["effect"]) == "NoSchedule";
        evicts || (keeps_away && (key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, ours)| *ours == key)))
    };
    let stood = node.items(&["spec", "taints"]);
    let mut taints: Vec<Value> = stood.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in &wanted {
        let has = |taint: &Value| taint.text(&["key"]) == *key && taint.text(&["effect"]) == *effect;
        if !stood.iter().any(has) {
            taints.push(json!({"key": key, "effect": effect}));
        }
    }
    // Evictions count from here.
    for taint in taints.iter_mut().filter(|taint| taint.text(&["effect"]) == "NoExecute") {
        if taint.at(&["timeAdded"]).is_none() {
            taint.put(&["timeAdded"], now.to_rfc3339());
        }
    }
    taints
}

/// Pods that were ready when their node ceased to be. What says that it is ready since then is a node that lives and only
/// fails to say so itself: contradicting it would go on for ever.
fn ready_pods(view: &View, node: &str, since: Time) -> Vec<Value> {
    let pods = view.list(pods::COLLECTION, "").into_iter().map(Seen::<Pod>::from);
    let told = |pod: &Seen<Pod>| pod.facts.condition("Ready").and_then(|ready| ready.last_transition_time);
    let is_claimed = |pod: &Seen<Pod>| {
        *pod.facts.spec.node_name == *node && pod.facts.is_ready() && told(pod).is_none_or(|told| told < since)
    };
    pods.filter(is_claimed).take(pods::BURST_MAX).map(|pod| pod.object.tree()).collect()
}

fn unready(pod: &Value, now: Time) -> Value {
    let mut new = pod.clone();
    let ready = condition::find(pod, "Ready");
    let (reason, message) = ready.map_or(("", ""), |ready| (ready.text(&["reason"]), ready.text(&["message"])));
    condition::set(&mut new, Condition::new("Ready", "False", reason, message), now);
    new
}

fn lease(node: &Target, now: Time) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": 40, "renewTime": now.to_rfc3339_micros()}})
}

/// A node's readiness concerns all nodes: whether anything is evicted depends on whether any is ready.
fn node_roots(view: &View, event: &Event) -> Vec<Key> {
    let ready =
        |entry: &std::sync::Arc<store::Entry>| Node::of(&Object::new(event.key.clone(), entry.clone())).is_ready();
    let was = event.previous.as_ref().is_some_and(ready);
    let is = event.change != store::Change::Deleted && ready(&event.entry);
    if was == is {
        return vec![event.key.clone()];
    }
    view.snapshot().items(COLLECTION).map(|(name, _)| Key::new(COLLECTION, name.clone())).collect()
}

fn lease_roots(_: &View, event: &Event) -> Vec<Key> {
    // A renewal of a node that is well changes nothing: its own wake-up finds it.
    match event.key.item.split_once('/') {
        Some((LEASE_NAMESPACE, node)) if event.previous.is_none() || event.change == store::Change::Deleted => {
            vec![Key::new(COLLECTION, node)]
        }
        _ => Vec::new(),
    }
}

/// A pod that says it is ready concerns its node if that is not.
fn pod_roots(view: &View, event: &Event) -> Vec<Key> {
    let pod = Pod::of(&Object::new(event.key.clone(), event.entry.clone()));
    let node = view.get(COLLECTION, "", &pod.spec.node_name).filter(|_| pod.is_ready());
    node.filter(|node| !Node::of(node).is_ready()).map(|node| node.key).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{START, World};
    use brain::Controller;

    fn world() -> World {
        let mut world = World::new([Controller::of::<NodeLifecycleController>()]);
        for name in ["n1", "n2"] {
            let conditions: Vec<Value> = WATCHED
                .iter()
                .map(|type_| {
                    let status = if *type_ == "Ready" { "True" } else { "False" };
                    json!({"type": type_, "status": status, "lastHeartbeatTime": START.to_rfc3339()})
                })
                .collect();
            world.put(COLLECTION, json!({"metadata": {"name": name}, "status": {"conditions": conditions}}));
            renew(&mut world, name);
        }
        world.put(
            pods::COLLECTION,
            json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        world
    }

    fn renew(world: &mut World, name: &str) {
        let now = world.now.to_rfc3339_micros();
        world.put(
            LEASE_COLLECTION,
            json!({"metadata": {"name": name, "namespace": LEASE_NAMESPACE}, "spec": {"renewTime": now}}),
        );
    }

    fn taints_of(world: &World, name: &str) -> Vec<String> {
        let node = world.get(COLLECTION, "", name).unwrap();
        node.items(&["spec", "taints"])
            .iter()
            .map(|t| format!("{}:{}", t.text(&["key"]), t.text(&["effect"])))
            .collect()
    }

    #[test]
    fn a_silent_node_is_unknown_and_tainted_and_comes_back() {
        for mut world in [world(), world().crashing()] {
            assert_eq!(world.settle(), Vec::<String>::new());
            world.advance(49);
            renew(&mut world, "n2");
            assert_eq!(world.follow(), Vec::<String>::new());
            world.advance(1);
            assert_eq!(world.follow(), ["update status nodes n1", "patch nodes n1", "update status pods a/p"]);
            let unreachable = [format!("{UNREACHABLE}:NoSchedule"), format!("{UNREACHABLE}:NoExecute")];
            assert_eq!((taints_of(&world, "n1"), taints_of(&world, "n2")), (unreachable.to_vec(), vec![]));
            assert!(world.notes.contains(&"NodeNotReady: Node n1 status is now: NodeNotReady".to_owned()));
            let pod = world.get(pods::COLLECTION, "a", "p").unwrap();
            assert_eq!(condition::status(&pod, "Ready"), "False");
            // Its node says otherwise, so it lives.
            let now = world.now;
            world.edit(pods::COLLECTION, "a", "p", |pod| {
                condition::set(pod, Condition::new("Ready", "True", "", ""), now);
            });
            assert_eq!(world.follow(), Vec::<String>::new());
            renew(&mut world, "n1");
            world.edit(COLLECTION, "", "n1", |node| {
                for type_ in WATCHED {
                    let status = if type_ == "Ready" { "True" } else { "False" };
                    condition::set(node, Condition::new(type_, status, "", ""), START);
                }
            });
            assert_eq!(world.follow(), ["patch nodes n1"]);
            assert_eq!(taints_of(&world, "n1"), Vec::<String>::new());
        }
    }

    #[test]
    fn nobody_is_evicted_while_no_node_is_ready() {
        let mut world = world();
        world.settle();
        world.advance(50);
        world.follow();
        for name in ["n1", "n2"] {
            assert_eq!(taints_of(&world, name), [format!("{UNREACHABLE}:NoSchedule")]);
        }
    }

    #[test]
    fn a_missing_lease_starts_the_clock() {
        let mut world = world();
        world.advance(3_600);
        world.remove(LEASE_COLLECTION, LEASE_NAMESPACE, "n1");
        renew(&mut world, "n2");
        assert_eq!(world.settle(), ["create leases kube-node-lease/n1"]);
        assert_eq!(taints_of(&world, "n1"), Vec::<String>::new());
        world.advance(49);
        renew(&mut world, "n2");
        assert_eq!(world.follow(), Vec::<String>::new());
    }

    #[test]
    fn conditions_and_cordons_become_taints_and_those_of_others_stay() {
        let mut world = world();
        world.settle();
        world.edit(COLLECTION, "", "n1", |node| {
            node.put(&["spec", "unschedulable"], true);
            node.put(&["spec", "taints"], json!([{"key": "mine", "effect": "NoExecute"}]));
            condition::set(node, Condition::new("DiskPressure", "True", "", ""), START);
        });
        world.follow();
        let expected = [
            "mine:NoExecute",
            "node.kubernetes.io/disk-pressure:NoSchedule",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ];
        assert_eq!(taints_of(&world, "n1"), expected);
        let node = world.get(COLLECTION, "", "n1").unwrap();
        assert_eq!(node["spec"]["taints"][0]["timeAdded"], START.to_rfc3339());
        world.edit(COLLECTION, "", "n1", |node| drop(node.remove(&["spec", "unschedulable"])));
        world.follow();
        assert_eq!(taints_of(&world, "n1").len(), 2);
    }
}
