//! The ConfigMap `kube-system/node-routes` says where the pods of every node are: `NODE: RANGE ADDRESS`. Nodes make their
//! routes from it; they may not read one another's Nodes.
//!
//! Owns: the ConfigMap, whole. At rest: it names every node that has a range and an address, as the Nodes say.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use brain::facts::Node;
use brain::{Action, Brain, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Change, Entry, Event, Key};

use crate::namespace_roots::{self, HOME, NAMESPACES};
use crate::target::Target;

const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps");
const NODE_COLLECTION: &str = "core/nodes";
const NAME: &str = "node-routes";
/// Nodes named: with names of sixty characters they fill three quarters of the largest object. More do not share one
/// network segment.
const NODES_MAX: usize = 8_192;

/// The controller.
pub struct NodeRoutesController;

/// What shall stand there.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    data: BTreeMap<String, String>,
}

/// What stands there.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    config_map: Option<(Target, Value)>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the ConfigMap.
    Create,
    /// Writes its data.
    Write,
}

/// Every reason: none, the objects say it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {}

impl Brain for NodeRoutesController {
    const DEF: Def = Def {
        name: "node-routes",
        root: NAMESPACES,
        root_kind: "Namespace",
        watches: &[
            Watch { collection: "core/namespaces", roots: |_, event| vec![event.key.clone()] },
            Watch { collection: NODE_COLLECTION, roots: node_roots },
            Watch { collection: "core/configmaps", roots: |_, event| namespace_roots::home_of_named(event, NAME) },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        if *key.item != *HOME || view.get_key(key)?.meta().is_deleting() {
            return None;
        }
        let mut data = BTreeMap::new();
        for node in view.list(NODE_COLLECTION, "").into_iter().filter(|node| !node.meta().is_deleting()) {
            let facts = Node::of(&node);
            let mut addresses = facts.status.addresses.iter().filter(|address| &*address.type_ == "InternalIP");
            let ip = addresses.find_map(|address| address.address.parse::<Ipv4Addr>().ok());
            if let Some(ip) = ip.filter(|_| !facts.spec.pod_cidr.is_empty()) {
                data.insert(node.meta().name.to_string(), format!("{} {ip}", facts.spec.pod_cidr));
            }
            if data.len() == NODES_MAX {
                break;
            }
        }
        let config_map = view.get("core/configmaps", HOME, NAME).map(|map| (Target::of(&map), map.tree()));
        Some((Desired { data }, Observed { config_map }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        match &observed.config_map {
            None if desired.data.is_empty() => Outcome::rest(),
            None => Outcome::rest().step(Step::Create),
            Some((_, map)) if has(map, &desired.data) => Outcome::rest(),
            Some(_) => Outcome::rest().step(Step::Write),
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match outcome.steps.contains(&Step::Create) && observed.config_map.is_some() {
            true => Err("a ConfigMap that exists is made again".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        match (step, &observed.config_map) {
            (Step::Write, Some((_, map))) => {
                let mut object = map.clone();
                object.remove(&["binaryData"]);
                object.put(&["data"], json!(desired.data));
                Action::Update { resource: CONFIG_MAPS, subresource: "", object }
            }
            (Step::Create | Step::Write, _) => {
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": HOME},
                    "data": desired.data,
                });
                Action::Create { resource: CONFIG_MAPS, namespace: HOME.to_owned(), object }
            }
        }
    }

    fn explain(why: Why) -> Note {
        match why {}
    }
}

fn has(map: &Value, data: &BTreeMap<String, String>) -> bool {
    let stands = map.map(&["data"]).into_iter().flatten();
    let stands: BTreeMap<&str, &str> =
        stands.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect();
    stands.into_iter().eq(data.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// Of what a node says again and again only its address matters, and its range.
fn node_roots(_: &View, event: &Event) -> Vec<Key> {
    let matters = |entry: &Entry| {
        let node: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        [&["status", "addresses"][..], &["spec", "podCIDR"], &["metadata", "deletionTimestamp"], &["metadata", "uid"]]
            .map(|path| node.at(path).cloned())
    };
    let is_same = || event.previous.as_ref().is_some_and(|previous| matters(previous) == matters(&event.entry));
    match event.change {
        Change::Modified if is_same() => Vec::new(),
        Change::Created | Change::Deleted | Change::Modified => vec![namespace_roots::home()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;

    fn node(name: &str, range: &str, address: &str) -> Value {
        json!({"kind": "Node", "metadata": {"name": name}, "spec": {"podCIDR": range},
            "status": {"addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}]}})
    }

    fn data(world: &World) -> Value {
        world.get("core/configmaps", HOME, NAME).map(|map| map["data"].clone()).unwrap_or_default()
    }

    #[test]
    fn the_nodes_ranges_are_told() {
        for mut world in [World::new([Controller::of::<NodeRoutesController>()]), {
            World::new([Controller::of::<NodeRoutesController>()]).crashing()
        }] {
            world.put("core/namespaces", json!({"kind": "Namespace", "metadata": {"name": HOME}}));
            world.put(NODE_COLLECTION, node("new", "", "192.0.2.9"));
            assert_eq!(world.settle(), Vec::<String>::new(), "nobody has a range yet");
            world.put(NODE_COLLECTION, node("a", "10.244.0.0/24", "192.0.2.1"));
            world.put(NODE_COLLECTION, node("six", "10.244.9.0/24", "2001:db8::1"));
            assert_eq!(world.follow(), ["create configmaps kube-system/node-routes"]);
            assert_eq!(data(&world), json!({"a": "10.244.0.0/24 192.0.2.1"}));
            world.put(NODE_COLLECTION, node("b", "10.244.1.0/24", "192.0.2.2"));
            world.edit(NODE_COLLECTION, "", "a", |a| a.put(&["status", "addresses"], json!([])));
            assert_eq!(world.follow(), ["update configmaps kube-system/node-routes"]);
            assert_eq!(data(&world), json!({"b": "10.244.1.0/24 192.0.2.2"}));
            world.edit(NODE_COLLECTION, "", "b", |b| b.put(&["status", "conditions"], json!([{"type": "Ready"}])));
            assert_eq!(world.follow(), Vec::<String>::new());
        }
    }
}
