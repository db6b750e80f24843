//! How fast the scheduler decides: a cluster in memory, binds that always succeed, no API.

use std::time::Duration;

use brain::{Action, Performed};
use meta::ObjectExt;
use serde_json::{Value, json};
use stdx::Time;
use store::{Key, Keyspace, Mem, Op, Store, Txn};
use view::Mirror;

use crate::Scheduler;

/// What pods the benchmark schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Requests only.
    Plain,
    /// Also spread evenly over zones.
    Spread,
    /// Also no two of the same name on one node, and preferably not in one zone.
    AntiAffinity,
}

/// Pods that come and are bound in one bite: about what a loop finds when it looks again.
const BITE: usize = 256;
const ZONES: usize = 3;
/// Pods of one workload.
const REPLICAS: usize = 50;

/// Schedules `pods` onto `nodes` and says how many were bound in a second of the scheduler's own time: taking in the
/// events, deciding, and hearing how it ended. `clock` tells the time since whenever.
pub fn schedule(nodes: usize, pods: usize, workload: Workload, clock: impl Fn() -> Duration) -> f64 {
    let mut world = World::new(nodes);
    let mut spent = Duration::ZERO;
    let mut bound = 0;
    for from in (0..pods).step_by(BITE) {
        world.put((from..pods.min(from + BITE)).map(|at| pod(at, workload)).collect());
        let start = clock();
        let actions = world.decide();
        spent += clock().saturating_sub(start);
        bound += actions.len();
        world.perform(&actions);
        let start = clock();
        world.look();
        spent += clock().saturating_sub(start);
    }
    bound as f64 / spent.as_secs_f64().max(f64::MIN_POSITIVE)
}

struct World {
    store: Mem,
    mirror: Mirror,
    scheduler: Scheduler,
}

impl World {
    fn new(nodes: usize) -> World {
        let store = Mem::new();
        let mut world = World { mirror: Mirror::of(&store), store, scheduler: Scheduler::new() };
        (0..nodes)
            .collect::<Vec<_>>()
            .chunks(BITE)
            .for_each(|some| world.put(some.iter().map(|at| node(*at)).collect()));
        world.look();
        world
    }

    fn put(&mut self, objects: Vec<Value>) {
        let op = |object: Value| {
            let collection = if object.text(&["kind"]) == "Node" { "core/nodes" } else { "core/pods" };
            Op::Put {
                key: brain::key(collection, object.namespace(), object.name()),
                value: object.to_string().into(),
                annex: "".into(),
                stamp_at: None,
                keyspace: Keyspace::Durable,
            }
        };
        let ops = objects.into_iter().map(op).collect();
        self.store.submit(Txn { preconditions: Vec::new(), ops }, Box::new(|_| ()));
    }

    fn look(&mut self) {
        let scheduler = &mut self.scheduler;
        if !self.mirror.advance(&self.store, |_, event| scheduler.observe(event, Time::EPOCH)) {
            self.scheduler.rebuild(self.mirror.view(), Time::EPOCH);
        }
    }

    fn decide(&mut self) -> Vec<Action> {
        self.look();
        let mut actions = Vec::new();
        while let Some(decision) = self.scheduler.next(self.mirror.view(), Time::EPOCH) {
            self.scheduler.done(decision.ticket, Performed::Done { wrote: None }, Time::EPOCH);
            let binds = |action: &Action| matches!(action, Action::Bind { .. });
            actions.extend(decision.effects.into_iter().map(|effect| effect.action).filter(binds));
        }
        actions
    }

    fn perform(&mut self, actions: &[Action]) {
        let mut bound = Vec::new();
        for action in actions {
            let Action::Bind { namespace, name, node, .. } = action else { continue };
            let key: Key = brain::key("core/pods", namespace, name);
            let Some(pod) = self.mirror.view().get_key(&key) else { continue };
            let mut tree = pod.tree();
            tree.put(&["spec", "nodeName"], node.as_str());
            bound.push(tree);
        }
        self.put(bound);
    }
}

fn node(at: usize) -> Value {
    let name = format!("node-{at:05}");
    json!({"kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", at % ZONES)}},
        "spec": {}, "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}}})
}

fn pod(at: usize, workload: Workload) -> Value {
    let (name, app) = (format!("pod-{at:06}"), format!("app-{}", at / REPLICAS));
    let selector = json!({"matchLabels": {"app": app}});
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "containers": [{"name": "main", "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}],
    });
    match workload {
        Workload::Plain => {}
        Workload::Spread => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        }
        Workload::AntiAffinity => {
            spec["affinity"]["podAntiAffinity"] = json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm":
                    {"labelSelector": selector, "topologyKey": "topology.kubernetes.io/zone"}}],
            });
        }
    }
    json!({"kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]},
        "spec": spec, "status": {"phase": "Pending"}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_bound() {
        for workload in [Workload::Plain, Workload::Spread, Workload::AntiAffinity] {
            let mut world = World::new(60);
            world.put((0..100).map(|at| pod(at, workload)).collect());
            assert_eq!(world.decide().len(), 100, "{workload:?}");
            assert_eq!(world.scheduler.cache().verify(), Ok(()));
        }
    }
}
