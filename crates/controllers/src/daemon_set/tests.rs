use brain::{Controller, View};
use meta::ObjectExt;
use serde_json::{Value, json};

use super::{DAEMON_SETS, DaemonSetController};
use crate::testing::{Cluster, the_same_after_crashes};

fn controllers() -> Vec<Controller> {
    vec![Controller::of::<DaemonSetController>()]
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(controllers());
    add_nodes(&mut cluster, nodes);
    cluster
}

fn add_nodes(cluster: &mut Cluster, nodes: usize) {
    for n in 1..=nodes {
        node(cluster, &format!("n{n}"), json!({}));
    }
}

fn node(cluster: &mut Cluster, name: &str, spec: Value) {
    cluster.world.put("core/nodes", json!({"metadata": {"name": name}, "spec": spec}));
}

fn daemon(strategy: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": "log"}}, "updateStrategy": strategy, "revisionHistoryLimit": 1,
            "template": {"metadata": {"labels": {"app": "log"}},
                "spec": {"containers": [{"name": "log", "image": "log:1"}]}},
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn plain() -> Value {
    daemon(rolling(json!(0), json!(1)))
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit(&DAEMON_SETS, "log", |d| d["spec"]["template"]["spec"]["containers"][0]["image"] = image.into());
}

fn status(cluster: &Cluster) -> Value {
    cluster.get(&DAEMON_SETS, "log")["status"].clone()
}

/// `node image` of every pod.
fn pods(cluster: &Cluster) -> Vec<String> {
    let line = |p: &Value| format!("{} {}", p.text(&["spec", "nodeName"]), p["spec"]["containers"][0].text(&["image"]));
    let mut lines: Vec<String> = cluster.pods().iter().map(line).collect();
    lines.sort();
    lines
}

/// At every revision: on at most so many nodes nothing is available, and on at most so many there are two pods.
fn guard(cluster: &mut Cluster, nodes: usize, unavailable: usize, surge: usize) {
    let reached = std::cell::Cell::new(false);
    cluster.world.inspect = Some(Box::new(move |view: &View| {
        let pods = view.list("core/pods", "");
        let place = |pod: &brain::Object| super::node_of(&brain::facts::Pod::of(pod)).unwrap_or_default().to_owned();
        let up = |pod: &&brain::Object| !pod.meta().is_deleting() && brain::facts::Pod::of(pod).is_ready();
        let mut ready: Vec<String> = pods.iter().filter(up).map(place).collect();
        ready.sort();
        ready.dedup();
        reached.set(reached.get() || ready.len() == nodes);
        assert!(!reached.get() || ready.len() + unavailable >= nodes, "only {ready:?}");
        let mut all: Vec<String> = pods.iter().filter(|pod| !pod.meta().is_deleting()).map(place).collect();
        let total = all.len();
        all.sort();
        all.dedup();
        assert!(total - all.len() <= surge, "{total} pods on {} nodes", all.len());
    }));
}

#[test]
fn every_node_that_is_meant_gets_a_pod() {
    let mut cluster = cluster(2);
    node(&mut cluster, "tainted", json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}));
    node(
        &mut cluster,
        "cordoned",
        json!({"unschedulable": true,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}),
    );
    cluster.create(&DAEMON_SETS, plain());
    cluster.run();
    assert_eq!(pods(&cluster), ["cordoned log:1", "n1 log:1", "n2 log:1"]);
    let all = json!({
        "observedGeneration": 1, "currentNumberScheduled": 3, "desiredNumberScheduled": 3, "numberMisscheduled": 0,
        "numberReady": 3, "numberAvailable": 3, "updatedNumberScheduled": 3,
    });
    assert_eq!(status(&cluster), all);
    let pod = cluster.pods()[0].clone();
    let tolerated: Vec<&str> = pod.items(&["spec", "tolerations"]).iter().map(|t| t.text(&["key"])).collect();
    assert_eq!(tolerated.len(), 6);
    let revision = cluster.world.list("apps/controllerrevisions")[0].clone();
    assert_eq!(revision.name(), format!("log-{}", pod.label("controller-revision-hash").unwrap_or_default()));
    // A new node gets one, a node that is gone loses its.
    node(&mut cluster, "n3", json!({}));
    cluster.run();
    assert_eq!(status(&cluster)["numberReady"], 4);
    node(&mut cluster, "n3", json!({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}));
    cluster.run();
    assert_eq!(
        (&status(&cluster)["numberMisscheduled"], &status(&cluster)["desiredNumberScheduled"]),
        (&json!(1), &json!(3))
    );
    node(&mut cluster, "n3", json!({"taints": [{"key": "gpu", "effect": "NoExecute"}]}));
    cluster.run();
    assert_eq!(status(&cluster), all);
}

#[test]
fn updates_keep_their_limits_at_every_step() {
    for (surge, unavailable, bounds) in [
        (json!(0), json!(1), (1, 0)),
        (json!(0), json!("50%"), (2, 0)),
        (json!(1), json!(0), (0, 1)),
        (json!("50%"), json!(0), (0, 2)),
    ] {
        for crashing in [false, true] {
            let mut cluster = cluster(4);
            cluster.world.crashing = crashing;
            guard(&mut cluster, 4, bounds.0, bounds.1);
            cluster.create(&DAEMON_SETS, daemon(rolling(surge.clone(), unavailable.clone())));
            cluster.run();
            set_image(&mut cluster, "log:2");
            cluster.run();
            assert_eq!(pods(&cluster), ["n1 log:2", "n2 log:2", "n3 log:2", "n4 log:2"]);
            assert_eq!(status(&cluster)["updatedNumberScheduled"], 4);
        }
    }
}

#[test]
fn a_broken_update_stops_and_is_undone() {
    for surge in [0, 1] {
        let mut cluster = cluster(3);
        guard(&mut cluster, 3, 1 - surge, surge);
        cluster.create(&DAEMON_SETS, daemon(rolling(json!(surge), json!(1 - surge))));
        cluster.run();
        set_image(&mut cluster, "log:broken");
        cluster.run();
        let broken = pods(&cluster).iter().filter(|line| line.contains("broken")).count();
        assert_eq!(broken, 1);
        set_image(&mut cluster, "log:1");
        cluster.run();
        assert_eq!(pods(&cluster), ["n1 log:1", "n2 log:1", "n3 log:1"]);
    }
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut cluster = cluster(2);
    cluster.create(&DAEMON_SETS, daemon(json!({"type": "OnDelete"})));
    cluster.run();
    set_image(&mut cluster, "log:2");
    cluster.run();
    assert_eq!(pods(&cluster), ["n1 log:1", "n2 log:1"]);
    let name = cluster.pods().iter().find(|p| p.text(&["spec", "nodeName"]) == "n1").map(|p| p.name().to_owned());
    cluster.world.delete("core/pods", "default", &name.unwrap_or_default(), None);
    cluster.run();
    assert_eq!(pods(&cluster), ["n1 log:2", "n2 log:1"]);
}

#[test]
fn pods_that_ended_are_replaced_failed_ones_at_a_pace() {
    let mut cluster = cluster(1);
    cluster.create(&DAEMON_SETS, plain());
    cluster.run();
    for (phase, seconds) in [("Failed", 10), ("Succeeded", 0)] {
        let before = cluster.pods()[0].clone();
        let start = cluster.world.now;
        cluster.set_pod_status(before.name(), json!({"phase": phase}));
        cluster.run();
        assert_ne!(cluster.pods()[0].uid(), before.uid());
        assert_eq!(cluster.world.now.since(start).as_secs(), seconds);
    }
    assert!(
        cluster
            .world
            .notes
            .iter()
            .any(|note| note.starts_with("FailedDaemonPod: Found failed daemon pod default/log-"))
    );
}

#[test]
fn a_pod_for_a_node_that_never_was_bound_goes_with_it() {
    let mut cluster = cluster(1);
    cluster.create(&DAEMON_SETS, plain());
    cluster.settle();
    assert_eq!(cluster.pods().len(), 1);
    cluster.world.remove("core/nodes", "", "n1");
    cluster.run();
    assert_eq!(cluster.pods().len(), 0);
}

#[test]
fn selectors_that_cannot_work_make_no_hot_loop() {
    for selector in [json!({}), json!({"matchLabels": {"app": "other"}})] {
        let mut cluster = cluster(1);
        let mut broken = plain();
        broken["spec"]["selector"] = selector;
        cluster.create(&DAEMON_SETS, broken);
        cluster.run();
        assert_eq!(cluster.pods().len(), 0);
        assert_eq!(cluster.world.notes.len(), 1, "{:?}", cluster.world.notes);
    }
}

#[test]
fn crashes_change_nothing_in_the_end() {
    the_same_after_crashes(controllers, |cluster| {
        add_nodes(cluster, 3);
        cluster.create(&DAEMON_SETS, daemon(rolling(json!(0), json!(2))));
        cluster.run();
        set_image(cluster, "log:2");
        cluster.run();
        cluster.edit(&DAEMON_SETS, "log", |d| d["spec"]["updateStrategy"] = rolling(json!(2), json!(0)));
        set_image(cluster, "log:3");
        cluster.run();
        set_image(cluster, "log:2");
        cluster.run();
    });
}
