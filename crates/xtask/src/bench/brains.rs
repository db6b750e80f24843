//! Figures of what decides, without a server: the scheduler on a large cluster, and a look at one key as the world grows.

use std::time::{Duration, Instant};

use brain::Controller;
use scheduler::bench::{Workload, schedule};
use serde_json::{Value, json};
use stdx::Time;
use store::{Key, Keyspace, Mem, Op, Store, Txn};
use view::View;

use super::figures::row;
use super::server::now;

const NODES: usize = 5_000;
/// Enough that the cluster fills to a tenth.
const PODS: usize = 20_000;
/// Workloads of the smaller world, each of ten pods; the larger has ten times as many.
const WORKLOADS: usize = 100;
const PODS_EACH: usize = 10;
/// Keys of a controller that are looked at, and how often: a look takes some microseconds.
const KEYS: usize = 50;
const ROUNDS: usize = 20;

/// How many pods a second are placed.
pub fn scheduling() {
    for (name, workload) in [
        ("scheduling, 5,000 nodes", Workload::Plain),
        ("scheduling, 5,000 nodes, spread", Workload::Spread),
        ("scheduling, 5,000 nodes, anti-affinity", Workload::AntiAffinity),
    ] {
        let begun = now();
        let rate = schedule(NODES, PODS, workload, || begun.elapsed());
        row(name, format!("{rate:.0} pods/s"), "decisions only, on one core");
    }
}

/// What one look of each controller costs in a world and in one ten times as large.
pub fn reconciling() {
    let (small, large) = (world(WORKLOADS), world(WORKLOADS * 10));
    let mut rows: Vec<(f64, &str, Duration, Duration)> = Vec::new();
    for controller in controllers::all() {
        let (before, after) = (look(&controller, &small), look(&controller, &large));
        if let (Some(before), Some(after)) = (before, after) {
            let ratio = after.as_secs_f64() / before.as_secs_f64().max(f64::MIN_POSITIVE);
            rows.push((ratio, controller.def.name, before, after));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ratio, name, before, after) in rows {
        let note = format!("{:.1} us at 1,000 pods, {:.1} us at 10,000", us(before), us(after));
        row(&format!("one look of {name}, tenfold world"), format!("{ratio:.2} times"), &note);
    }
}

fn us(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// The mean over some of its keys; none if it has no keys there.
fn look(controller: &Controller, view: &View) -> Option<Duration> {
    let keys = controller.all_keys(view);
    let every = (keys.len() / KEYS).max(1);
    let keys: Vec<Key> = keys.into_iter().step_by(every).take(KEYS).collect();
    let begun: Instant = now();
    for _ in 0..ROUNDS {
        for key in &keys {
            std::hint::black_box((controller.turn)(view, key, Time::EPOCH, None));
        }
    }
    let looks = u32::try_from(keys.len() * ROUNDS).ok()?;
    begun.elapsed().checked_div(looks)
}

fn world(workloads: usize) -> View {
    let store = Mem::new();
    (0..PODS_EACH).for_each(|at| put(&store, "core/nodes", node(at)));
    put(
        &store,
        "core/namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "uid": "default"}, "status": {"phase": "Active"}}),
    );
    for at in 0..workloads {
        let app = format!("app-{at:05}");
        put(&store, "apps/deployments", scaled(&app, "Deployment", None));
        put(&store, "apps/replicasets", scaled(&app, "ReplicaSet", Some("Deployment")));
        put(&store, "core/services", service(&app));
        (0..PODS_EACH).for_each(|pod| put(&store, "core/pods", self::pod(&app, pod)));
    }
    View::of(store.snapshot())
}

fn put(store: &Mem, collection: &str, object: Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let key = brain::key(collection, &text("/metadata/namespace"), &text("/metadata/name"));
    let value = object.to_string().into();
    let op = Op::Put { key, value, annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable };
    store.submit(Txn { preconditions: Vec::new(), ops: vec![op] }, Box::new(|_| ()));
}

fn metadata(name: &str, app: &str, owner: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "namespace": "default", "uid": format!("{name}-{}", owner.unwrap_or("")),
        "labels": {"app": app}, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"});
    if let Some(kind) = owner {
        let uid = if kind == "Deployment" { format!("{app}-") } else { format!("{app}-Deployment") };
        metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]);
    }
    metadata
}

fn scaled(app: &str, kind: &str, owner: Option<&str>) -> Value {
    let template = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "a", "image": "b"}]}});
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata(app, app, owner),
        "spec": {"replicas": PODS_EACH, "selector": {"matchLabels": {"app": app}}, "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
        "status": {"replicas": PODS_EACH, "readyReplicas": PODS_EACH, "availableReplicas": PODS_EACH}})
}

fn service(app: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(app, app, None),
        "spec": {"selector": {"app": app}, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP",
            "ipFamilies": ["IPv4"], "ports": [{"name": "a", "port": 80, "targetPort": 80, "protocol": "TCP"}]}})
}

fn pod(app: &str, at: usize) -> Value {
    let ready = json!({"type": "Ready", "status": "True"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(&format!("{app}-{at}"), app, Some("ReplicaSet")),
        "spec": {"nodeName": format!("node-{at}"), "containers": [{"name": "a", "image": "b"}]},
        "status": {"phase": "Running", "conditions": [ready], "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}})
}

fn node(at: usize) -> Value {
    let name = format!("node-{at}");
    let ready = json!({"type": "Ready", "status": "True"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "spec": {},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "2000"}, "conditions": [ready]}})
}
