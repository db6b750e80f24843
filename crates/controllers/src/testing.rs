//! What tests of workloads share: literals, and a small cluster in which nodes run what controllers make.

use std::sync::Arc;

use brain::facts::{Fact, PodSpec, Seen};
use brain::{Controller, Resource};
use meta::ObjectExt;
use serde_json::{Value, json};
use store::{Entry, Key, Revision};

use crate::rig::World;

/// An object with its projection, from a literal.
pub(crate) fn seen<T: Fact>(object: Value) -> Seen<T> {
    Seen::from(stored(object))
}

/// An object as it might stand in the store.
pub(crate) fn stored(object: Value) -> brain::Object {
    let key = Key::new("any", object.name());
    let entry = Entry::new(object.to_string().into(), "".into(), Revision(1), Revision(1));
    brain::Object::new(key, Arc::new(entry))
}

/// A pod labelled `app: web`, ready (since an hour before the tests' noon) or not.
pub(crate) fn pod(name: &str, phase: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": name, "uid": name, "namespace": "default", "labels": {"app": "web"},
            "creationTimestamp": "2026-11-30T11:00:00Z"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": "2026-11-30T11:00:00Z"}]},
    })
}

/// Rounds after which a cluster that does not come to rest is called restless.
const ROUNDS_MAX: usize = 2_000;

/// A cluster: controllers, and nodes that start and stop one pod at a time.
pub(crate) struct Cluster {
    pub world: World,
    /// Pods whose image contains this never become ready.
    pub broken: &'static str,
    /// Where pods without a place of their own go.
    nodes: Vec<String>,
}

impl Cluster {
    pub fn new(controllers: impl IntoIterator<Item = Controller>) -> Cluster {
        Cluster { world: World::new(controllers), broken: "broken", nodes: vec!["n1".into(), "n2".into()] }
    }

    /// Creates an object as a user would.
    pub fn create(&mut self, resource: &Resource, mut object: Value) {
        object.put(&["metadata", "namespace"], "default");
        object.put(&["metadata", "generation"], 1);
        self.world.put(&resource.collection(), object);
    }

    /// Changes an object as a user would.
    pub fn edit(&mut self, resource: &Resource, name: &str, change: impl FnOnce(&mut Value)) {
        self.world.edit(&resource.collection(), "default", name, change);
    }

    pub fn get(&self, resource: &Resource, name: &str) -> Value {
        self.world.get(&resource.collection(), "default", name).unwrap_or_default()
    }

    pub fn pods(&self) -> Vec<Value> {
        self.world.list("core/pods")
    }

    /// Runs until nothing moves any more; time passes only where somebody waits for it.
    pub fn run(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.settle();
            if self.move_one_pod() {
                continue;
            }
            let Some(at) = self.world.next_wake().filter(|at| *at > self.world.now) else { return };
            self.world.now = at;
        }
        panic!("restless");
    }

    /// Runs until the controllers rest, and as if the time stood still.
    pub fn settle(&mut self) {
        if self.world.crashing {
            self.world.settle()
        } else {
            self.world.follow()
        };
    }

    /// Lets the first pod that can move do so: leave, be bound, become ready. Whether one did.
    pub fn move_one_pod(&mut self) -> bool {
        self.pods().iter().any(|pod| self.move_pod(pod))
    }

    fn move_pod(&mut self, pod: &Value) -> bool {
        let name = pod.name();
        if pod.is_deleting() {
            self.world.remove("core/pods", "default", name);
            return true;
        }
        if pod.text(&["spec", "nodeName"]).is_empty() {
            let node = self.node_for(pod);
            self.world.edit("core/pods", "default", name, |pod| pod.put(&["spec", "nodeName"], node));
            return true;
        }
        let image = pod.at(&["spec", "containers"]).map_or("", |list| list[0].text(&["image"]));
        if matches!(pod.text(&["status", "phase"]), "" | "Pending") && !image.contains(self.broken) {
            let now = self.world.now.to_rfc3339();
            self.set_pod_status(
                name,
                json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": now}]}),
            );
            return true;
        }
        false
    }

    /// Writes a pod's status as its node would.
    pub fn set_pod_status(&mut self, name: &str, status: Value) {
        self.world.edit("core/pods", "default", name, |pod| pod["status"] = status);
    }

    fn node_for(&self, pod: &Value) -> String {
        let spec: PodSpec = serde_json::from_value(pod["spec"].clone()).expect("a pod's spec");
        if let Some(node) = spec.node_named_by_affinity() {
            return node.to_owned();
        }
        let pods = self.pods();
        let load = |node: &&String| pods.iter().filter(|p| p.text(&["spec", "nodeName"]) == **node).count();
        self.nodes.iter().min_by_key(load).cloned().unwrap_or_default()
    }

    /// What users see at the end, without what differs from run to run: identities, times, generated names.
    pub fn digest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for collection in self.world.view().snapshot().collections() {
            for object in self.world.list(collection) {
                lines.push(format!("{collection} {}", digest(&object)));
            }
        }
        lines.sort();
        lines
    }
}

fn digest(object: &Value) -> Value {
    let mut object = object.clone();
    let generated = object.text(&["kind"]) == "Pod" && object.at(&["spec", "hostname"]).is_none();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "ownerReferences"] {
        object.remove(&["metadata", field]);
    }
    object.remove(&["status", "observedGeneration"]);
    object.remove(&["spec", "nodeName"]);
    object.remove(&["spec", "affinity"]);
    if generated {
        object.remove(&["metadata", "name"]);
    }
    if let Some(conditions) = object.at(&["status", "conditions"]).and_then(Value::as_array).cloned() {
        let plain = |c: &Value| format!("{}={} {}", c.text(&["type"]), c.text(&["status"]), c.text(&["reason"]));
        let mut plain: Vec<String> = conditions.iter().map(plain).collect();
        plain.sort();
        object.put(&["status", "conditions"], plain);
    }
    object
}

/// Plays a story in a world that lives, in one that dies after every write, and in one that loses every answer and so
/// asks twice; all must end the same.
pub(crate) fn the_same_after_crashes(controllers: fn() -> Vec<Controller>, story: impl Fn(&mut Cluster)) {
    let play = |crashing: bool, repeating: bool| {
        let mut cluster = Cluster::new(controllers());
        (cluster.world.crashing, cluster.world.repeating) = (crashing, repeating);
        story(&mut cluster);
        cluster.digest()
    };
    let plain = play(false, false);
    assert_eq!(plain, play(true, false), "after crashes");
    assert_eq!(plain, play(false, true), "after repeated writes");
}
