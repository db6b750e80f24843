//! Every node has a range of addresses for its pods, a part of the cluster's range that no other node has.
//!
//! The cluster's range stands in the ConfigMap `kube-system/cluster-network`, which the server writes when it starts;
//! without it the usual one counts. All nodes are the business of one key (the namespace kube-system): two decisions
//! at a time could give one range away twice.
//! Owns: `spec.podCIDR` and `spec.podCIDRs` of nodes that have none; a range once given stays with its node.
//! At rest: every node has a range, or the event `CIDRNotAvailable`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use brain::facts::Node;
use brain::{Action, Brain, Def, Note, Object, Outcome, Patch, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::json;
use store::{Change, Event, Key};

use crate::namespace_roots::{self, HOME, NAMESPACES};

const NODES: Resource = Resource::new("", "v1", "nodes");
const EVENTS: Resource = Resource::new("", "v1", "events");
const NODE_COLLECTION: &str = "core/nodes";
const CONFIG: &str = "cluster-network";
/// Where events about what has no namespace stand.
const EVENT_NAMESPACE: &str = "default";
const COMPONENT: &str = "cidrAllocator";
const REASON: &str = "CIDRNotAvailable";
/// Upstream's words.
const MESSAGE: &str = "CIDRNotAvailable";
/// How the field looks in stored bytes.
const FIELD: &[u8] = b"\"podCIDR\":";
/// Nodes looked after in one turn: each costs a request, and the next turn follows at once.
const NODES_PER_TURN_MAX: usize = 128;
/// Most bits between the cluster's prefix and a node's (upstream's limit): 65,536 nodes.
const BITS_MAX: u8 = 16;

/// The controller.
pub struct NodeIpamController;

/// The cluster's range and how much of it a node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desired {
    network: u32,
    prefix: u8,
    node_prefix: u8,
}

impl Default for Desired {
    fn default() -> Desired {
        Desired { network: u32::from(Ipv4Addr::new(10, 244, 0, 0)), prefix: 16, node_prefix: 24 }
    }
}

/// A node without a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    created: Time,
    name: String,
    uid: String,
    is_told: bool,
}

/// What is given already, and who waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Numbers of the parts of the range that are given.
    taken: BTreeSet<u32>,
    pending: Vec<Pending>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Gives a node this part of the range.
    Assign(Pending, u32),
    /// Says that there is none left for a node.
    Tell(Pending, Time),
}

/// Every reason: none, events say it.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for NodeIpamController {
    const DEF: Def = Def {
        name: "node-ipam",
        root: NAMESPACES,
        root_kind: "Namespace",
        watches: &[
            Watch { collection: NODE_COLLECTION, roots: node_roots },
            Watch { collection: "core/configmaps", roots: |_, event| namespace_roots::home_of_named(event, CONFIG) },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        if *key.item != *HOME {
            return None;
        }
        let desired = desired(view);
        let mut observed = Observed::default();
        for node in view.list(NODE_COLLECTION, "") {
            let facts = Node::of(&node);
            let ranges =
                facts.spec.pod_cidrs.iter().chain(Some(&facts.spec.pod_cidr).filter(|range| !range.is_empty()));
            let mut has_range = false;
            for range in ranges {
                has_range = true;
                observed.taken.extend(desired.parts_of(range));
            }
            if !has_range && !node.meta().is_deleting() {
                observed.pending.push(pending(view, &node));
            }
        }
        observed.pending.sort();
        Some((desired, observed))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let mut free = (0..desired.parts()).filter(|part| !observed.taken.contains(part));
        let mut outcome = Outcome::rest();
        for node in &observed.pending {
            match free.next() {
                Some(part) => outcome.steps.push(Step::Assign(node.clone(), part)),
                None if !node.is_told => outcome.steps.push(Step::Tell(node.clone(), now)),
                None => {}
            }
            if outcome.steps.len() == NODES_PER_TURN_MAX {
                return outcome.wake_at(now);
            }
        }
        outcome
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let mut given = observed.taken.clone();
        for step in &outcome.steps {
            if let Step::Assign(node, part) = step
                && (*part >= desired.parts() || !given.insert(*part))
            {
                return Err(format!("{} is given a range that is not free", node.name));
            }
        }
        Ok(())
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        match step {
            Step::Assign(node, part) => {
                let range = desired.range(part);
                Action::Patch {
                    resource: NODES,
                    subresource: "",
                    namespace: String::new(),
                    name: node.name,
                    uid: node.uid,
                    patch: Patch::Merge(json!({"spec": {"podCIDR": range, "podCIDRs": [range]}})),
                }
            }
            Step::Tell(node, now) => {
                let stamp = now.to_rfc3339();
                let object = json!({
                    "apiVersion": "v1", "kind": "Event",
                    "metadata": {"name": event_name(&node.name, &node.uid), "namespace": EVENT_NAMESPACE},
                    "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
                    "reason": REASON, "message": format!("Node {} status is now: {MESSAGE}", node.name),
                    "type": "Normal", "source": {"component": COMPONENT},
                    "firstTimestamp": stamp, "lastTimestamp": stamp, "count": 1,
                });
                Action::Create { resource: EVENTS, namespace: EVENT_NAMESPACE.to_owned(), object }
            }
        }
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

impl Desired {
    /// From `10.244.0.0/16` and the length of a node's prefix; `None` when they make no ranges.
    fn parse(range: &str, node_prefix: &str) -> Option<Desired> {
        let (network, prefix) = parse_range(range)?;
        let node_prefix: u8 = node_prefix.parse().ok()?;
        let bits = node_prefix.checked_sub(prefix)?;
        (bits <= BITS_MAX && node_prefix <= 30).then_some(Desired { network, prefix, node_prefix })
    }

    fn parts(self) -> u32 {
        1 << (self.node_prefix - self.prefix)
    }

    fn range(self, part: u32) -> String {
        let start = self.network | (part << (32 - u32::from(self.node_prefix)));
        format!("{}/{}", Ipv4Addr::from(start), self.node_prefix)
    }

    /// The numbers of the parts that a range shares addresses with.
    fn parts_of(self, range: &str) -> std::ops::Range<u32> {
        let Some((start, prefix)) = parse_range(range) else { return 0..0 };
        let last = start | u32::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
        let end = self.network | u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0);
        if last < self.network || start > end {
            return 0..0;
        }
        let part =
            |address: u32| (address.clamp(self.network, end) - self.network) >> (32 - u32::from(self.node_prefix));
        part(start)..part(last) + 1
    }
}

/// Network and length of the prefix of an IPv4 range.
fn parse_range(text: &str) -> Option<(u32, u8)> {
    let (network, prefix) = text.split_once('/')?;
    let prefix: u8 = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix))?;
    let mask = u32::MAX << (32 - u32::from(prefix));
    Some((u32::from(network.parse::<Ipv4Addr>().ok()?) & mask, prefix))
}

fn desired(view: &View) -> Desired {
    let config = view.get("core/configmaps", HOME, CONFIG).map(|config| config.tree());
    let text = |field| config.as_ref().map_or("", |config| config.text(&["data", field]));
    Desired::parse(text("cluster-cidr"), text("node-cidr-mask-size")).unwrap_or_default()
}

fn pending(view: &View, node: &Object) -> Pending {
    let meta = node.meta();
    let event = event_name(&meta.name, &meta.uid);
    Pending {
        created: meta.creation_timestamp,
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
        is_told: view.get("core/events", EVENT_NAMESPACE, &event).is_some(),
    }
}

fn event_name(node: &str, uid: &str) -> String {
    brain::child_name(&format!("{node}."), [uid, COMPONENT, REASON])
}

/// Only nodes that come and go change what there is to give. (To a copy that was filled anew, a node that went and
/// came again has changed its identity.)
fn node_roots(view: &View, event: &Event) -> Vec<Key> {
    let has_range = |entry: &store::Entry| entry.value.windows(FIELD.len()).any(|part| part == FIELD);
    let is_another = || {
        view.get_key(&event.key).is_some_and(|node| Node::of(&node).spec.pod_cidr.is_empty())
            && event.previous.as_ref().is_some_and(|previous| has_range(previous))
    };
    match event.change {
        Change::Modified if !is_another() => Vec::new(),
        Change::Created | Change::Deleted | Change::Modified => vec![namespace_roots::home()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::Value;

    fn world(range: &str) -> World {
        let mut world = World::new([Controller::of::<NodeIpamController>()]);
        world.put("core/namespaces", json!({"kind": "Namespace", "metadata": {"name": HOME}}));
        let config = json!({"metadata": {"name": CONFIG, "namespace": HOME},
            "data": {"cluster-cidr": range, "node-cidr-mask-size": "24"}});
        world.put("core/configmaps", config);
        world
    }

    fn add(world: &mut World, name: &str, spec: Value) {
        world.put(NODE_COLLECTION, json!({"kind": "Node", "metadata": {"name": name}, "spec": spec}));
    }

    fn ranges(world: &World) -> Vec<String> {
        world.list(NODE_COLLECTION).iter().map(|node| node.text(&["spec", "podCIDR"]).to_owned()).collect()
    }

    #[test]
    fn every_node_has_a_range_of_its_own() {
        for mut world in [world("10.9.0.0/16"), world("10.9.0.0/16").crashing()] {
            add(&mut world, "a", json!({"podCIDR": "10.9.1.0/24", "podCIDRs": ["10.9.1.0/24"]}));
            add(&mut world, "b", json!({}));
            add(&mut world, "c", json!({}));
            assert_eq!(world.follow(), ["patch nodes b", "patch nodes c"]);
            assert_eq!(ranges(&world), ["10.9.1.0/24", "10.9.0.0/24", "10.9.2.0/24"]);
        }
    }

    #[test]
    fn when_nothing_is_left_it_is_said_once_and_what_is_given_back_is_given_again() {
        let mut world = world("10.9.0.0/23");
        for name in ["a", "b", "c"] {
            add(&mut world, name, json!({}));
        }
        world.settle();
        assert_eq!(ranges(&world), ["10.9.0.0/24", "10.9.1.0/24", ""]);
        let events = world.list("core/events");
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].text(&["message"]), "Node c status is now: CIDRNotAvailable");
        world.remove(NODE_COLLECTION, "", "a");
        assert_eq!(world.follow(), ["patch nodes c"]);
        assert_eq!(ranges(&world), ["10.9.1.0/24", "10.9.0.0/24"]);
    }

    #[test]
    fn parts_that_a_range_touches() {
        let check = |range: &str, expected: std::ops::Range<u32>| {
            assert_eq!(Desired::default().parts_of(range), expected, "{range}");
        };
        check("10.244.3.0/24", 3..4);
        check("10.244.3.128/25", 3..4);
        check("10.244.2.0/23", 2..4);
        check("10.0.0.0/8", 0..256);
        check("10.245.0.0/24", 0..0);
        check("fd00::/64", 0..0);
        for (range, node, expected) in [
            ("10.0.0.0/8", "24", Some(65_536)),
            ("10.0.0.0/7", "24", None),
            ("10.0.0.0/26", "24", None),
            ("x", "24", None),
        ] {
            assert_eq!(Desired::parse(range, node).map(Desired::parts), expected, "{range}");
        }
    }
}
