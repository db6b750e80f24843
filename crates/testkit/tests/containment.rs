//! A node's credential reaches nothing but what is the node's: whatever it writes, only its own Node, Lease, pods and
//! requests change; whatever it reads, only what its pods name is shown.

use std::collections::BTreeMap;

use admit::UserInfo;
use apiserver::InProcess;
use bytes::Bytes;
use client::Transport;
use http::{Method, Request};
use meta::ObjectExt;
use serde_json::{Value, json};
use store::{Snapshot, Store};
use testkit::Cluster;

/// Requests of one run.
const REQUESTS: usize = 4_000;

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("a number") % bound
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "x"}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        },
    })
}

async fn cluster() -> Cluster {
    let cluster = Cluster::api().await;
    for name in ["a", "b"] {
        cluster.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
        cluster
            .create(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": {"holderIdentity": name}}))
            .await;
        cluster
            .create(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("of-{name}"),
                "namespace": "default"}, "stringData": {"word": format!("secret of {name}")}}))
            .await;
    }
    cluster
        .create(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"}}))
        .await;
    for object in [pod("on-a", "a", "of-a"), pod("on-b", "b", "of-b"), pod("waits", "", "of-b")] {
        cluster.create(&object).await;
    }
    cluster
}

/// Places that a node may find interesting.
const PATHS: [&str; 24] = [
    "/api/v1/nodes/a",
    "/api/v1/nodes/b",
    "/api/v1/nodes/a/status",
    "/api/v1/nodes/b/status",
    "/api/v1/nodes",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/on-a",
    "/api/v1/namespaces/default/pods/on-b",
    "/api/v1/namespaces/default/pods/waits",
    "/api/v1/namespaces/default/pods/on-a/status",
    "/api/v1/namespaces/default/pods/on-b/status",
    "/api/v1/namespaces/default/pods/waits/binding",
    "/api/v1/namespaces/default/pods/on-b/eviction",
    "/api/v1/namespaces/default/pods/on-b/exec",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/secrets/of-a",
    "/api/v1/namespaces/default/secrets/of-b",
    "/api/v1/namespaces/default/serviceaccounts/default/token",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/b",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/storage.k8s.io/v1/csinodes",
];

/// Changes that a node may want.
fn patch(dice: &mut Dice) -> Value {
    dice.pick(&[
        json!({"metadata": {"labels": {"x": "y"}}}),
        json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}}),
        json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "u"}]}}),
        json!({"metadata": {"finalizers": ["example.com/x"]}}),
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        json!({"spec": {"unschedulable": true}}),
        json!({"spec": {"nodeName": "a"}}),
        json!({"spec": {"holderIdentity": "a"}}),
        json!({"spec": {"podCIDR": "10.0.0.0/24"}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"data": {"word": "eA=="}}),
    ])
    .clone()
}

/// Objects that a node may want.
fn object(dice: &mut Dice) -> Value {
    let mirror = |mut pod: Value| {
        pod.put(&["metadata", "annotations", "kubernetes.io/config.mirror"], "x");
        pod
    };
    dice.pick(&[
        pod("new", "a", "of-b"),
        mirror(pod("mirror", "a", "of-b")),
        mirror(pod("mirror", "b", "of-a")),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "waits"}, "target": {"kind": "Node", "name": "a"}}),
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "on-b"}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "b"}, "spec": {"drivers": []}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "me"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}),
    ])
    .clone()
}

/// Whether a key may change by what the node `a` asks.
fn is_own(key: &str) -> bool {
    matches!(
        key,
        "core/nodes a"
            | "coordination.k8s.io/leases kube-node-lease/a"
            | "core/pods default/on-a"
            | "storage.k8s.io/csinodes a"
    ) || key.starts_with("core/events ")
}

fn changed(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let of = |collection: &store::Collection| -> Vec<String> {
        after.changes_since(before, collection).into_iter().map(|(item, ..)| format!("{collection} {item}")).collect()
    };
    after.collections_changed(before).iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_changes_and_reads_nothing_but_its_own() {
    let cluster = cluster().await;
    let user = UserInfo::new("system:node:a", ["system:nodes"]).authenticated();
    let node = InProcess::new(cluster.app.clone(), user);
    let (mut dice, mut answers) = (Dice(1), BTreeMap::<u16, usize>::new());
    for _ in 0..REQUESTS {
        let path = *dice.pick(&PATHS);
        let (method, media, body) = match dice.below(5) {
            0 => (Method::GET, "application/json", Value::Null),
            1 => (Method::POST, "application/json", object(&mut dice)),
            2 => (Method::DELETE, "application/json", Value::Null),
            3 => (Method::PATCH, "application/merge-patch+json", patch(&mut dice)),
            _ => (Method::PUT, "application/json", put(&cluster, path, &mut dice).await),
        };
        // What is the node's own may go; the next request finds it again.
        if method == Method::DELETE && path.ends_with("/on-a") {
            continue;
        }
        let before = cluster.store.snapshot();
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(&method).uri(path).header("content-type", media).body(bytes);
        let answer = node.call(request.expect("a request")).await.expect("an answer");
        let code = answer.status().as_u16();
        let said = client::read_all(answer.into_body(), 8 << 20).await.expect("a body");
        *answers.entry(code).or_default() += 1;
        let after = cluster.store.snapshot();
        let foreign: Vec<String> = changed(&before, &after).into_iter().filter(|key| !is_own(key)).collect();
        assert_eq!(foreign, Vec::<String>::new(), "{method} {path} {body}");
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains(&base64_of("secret of b")), "{method} {path}: {said}");
        assert!(!(code == 200 && path.ends_with("/nodes/b")), "{method} {path}");
    }
    assert!(answers.contains_key(&200) && answers[&403] > REQUESTS / 2, "{answers:?}");
    let own = cluster.get("/api/v1/nodes/a").await.body;
    // One is there from the beginning: the node has not said yet that it is ready.
    let taints: Vec<&str> = own.items(&["spec", "taints"]).iter().map(|taint| taint.text(&["key"])).collect();
    assert_eq!(taints, ["node.kubernetes.io/not-ready"]);
    let labels = own.text(&["metadata", "labels", "node-restriction.kubernetes.io/x"]).to_owned();
    assert_eq!((labels.as_str(), own.owner_references().len()), ("", 0));
}

/// The object at a path with something changed, as whoever read it before would send it.
async fn put(cluster: &Cluster, path: &str, dice: &mut Dice) -> Value {
    let mut live = cluster.get(path.trim_end_matches("/status")).await.body;
    let change = patch(dice);
    for (field, value) in change.as_object().into_iter().flatten() {
        for (inner, value) in value.as_object().into_iter().flatten() {
            live.put(&[field, inner], value.clone());
        }
    }
    live
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}
