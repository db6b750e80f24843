use brain::{Controller, View};
use meta::ObjectExt;
use serde_json::{Value, json};

use super::rollout::REVISION;
use super::{DEPLOYMENTS, DeploymentController};
use crate::replica_set::{REPLICA_SETS, ReplicaSetController};
use crate::testing::{Cluster, the_same_after_crashes};

fn controllers() -> Vec<Controller> {
    vec![Controller::of::<DeploymentController>(), Controller::of::<ReplicaSetController>()]
}

fn cluster() -> Cluster {
    Cluster::new(controllers())
}

fn deployment(replicas: i64, strategy: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "strategy": strategy, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit(&DEPLOYMENTS, "web", |d| d["spec"]["template"]["spec"]["containers"][0]["image"] = image.into());
}

fn status(cluster: &Cluster) -> Value {
    let mut status = cluster.get(&DEPLOYMENTS, "web")["status"].clone();
    let conditions = std::mem::take(&mut status["conditions"]);
    let plain = |c: &Value| format!("{} {} {}", c.text(&["type"]), c.text(&["status"]), c.text(&["reason"]));
    let mut conditions: Vec<String> = conditions.as_array().into_iter().flatten().map(plain).collect();
    conditions.sort();
    status["conditions"] = conditions.into();
    status
}

/// `image=replicas@revision` of every ReplicaSet, by revision.
fn sets(cluster: &Cluster) -> Vec<String> {
    let mut sets: Vec<(i64, String)> = cluster.world.list("apps/replicasets").iter().map(line).collect();
    sets.sort();
    sets.into_iter().map(|(_, line)| line).collect()
}

fn line(set: &Value) -> (i64, String) {
    let image = set.at(&["spec", "template", "spec", "containers"]).map_or("", |c| c[0].text(&["image"]));
    let revision = set.annotation(REVISION).unwrap_or("").to_owned();
    let replicas = set.int(&["spec", "replicas"]).unwrap_or(-1);
    (revision.parse().unwrap_or(0), format!("{image}={replicas}@{revision}"))
}

/// Counts at every revision: sizes within the surge, and available pods within the budget once there were enough.
fn guard(cluster: &mut Cluster, replicas: i64, surge: i64, unavailable: i64) {
    let reached = std::cell::Cell::new(false);
    cluster.world.inspect = Some(Box::new(move |view: &View| {
        let trees = |collection: &str| view.list(collection, "").iter().map(|o| o.tree()).collect::<Vec<_>>();
        let size: i64 = trees("apps/replicasets").iter().filter_map(|set| set.int(&["spec", "replicas"])).sum();
        assert!(size <= replicas + surge, "{size} replicas");
        let ready = |pod: &&Value| !pod.is_deleting() && meta::condition::is_true(pod, "Ready");
        let available = trees("core/pods").iter().filter(ready).count() as i64;
        reached.set(reached.get() || available >= replicas);
        assert!(!reached.get() || available >= replicas - unavailable, "{available} available pods");
    }));
}

#[test]
fn a_new_deployment_gets_its_pods() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(3, rolling(json!("25%"), json!("25%"))));
    cluster.run();
    assert_eq!(sets(&cluster), ["web:1=3@1"]);
    assert_eq!(cluster.get(&DEPLOYMENTS, "web").annotation(REVISION), Some("1"));
    assert_eq!(
        status(&cluster),
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
            "terminatingReplicas": 0,
            "conditions": ["Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"],
        })
    );
    let set = &cluster.world.list("apps/replicasets")[0];
    let hash = set.label("pod-template-hash").unwrap_or_default();
    assert_eq!(set.name(), format!("web-{hash}"));
    assert_eq!(set.annotation("deployment.kubernetes.io/max-replicas"), Some("4"));
    assert!(cluster.world.notes.contains(&format!("ScalingReplicaSet: Scaled up replica set web-{hash} from 0 to 3")));
    for pod in cluster.pods() {
        assert_eq!(pod.label("pod-template-hash"), Some(hash));
        assert!(pod.name().starts_with(&format!("web-{hash}-")), "{}", pod.name());
    }
}

#[test]
fn a_rolling_update_keeps_its_limits_at_every_step() {
    for (replicas, surge, unavailable, bounds) in [
        (4, json!(1), json!(0), (1, 0)),
        (4, json!(0), json!(1), (0, 1)),
        (4, json!("50%"), json!("25%"), (2, 1)),
        (1, json!("25%"), json!("25%"), (1, 0)),
        (3, json!(0), json!(0), (0, 1)),
        (5, json!("100%"), json!("100%"), (5, 5)),
    ] {
        for crashing in [false, true] {
            let mut cluster = cluster();
            cluster.world.crashing = crashing;
            guard(&mut cluster, replicas, bounds.0, bounds.1);
            cluster.create(&DEPLOYMENTS, deployment(replicas, rolling(surge.clone(), unavailable.clone())));
            cluster.run();
            set_image(&mut cluster, "web:2");
            cluster.run();
            assert_eq!(sets(&cluster), ["web:1=0@1".to_owned(), format!("web:2={replicas}@2")]);
            assert_eq!(status(&cluster)["availableReplicas"], replicas);
            assert_eq!(cluster.pods().len() as i64, replicas);
        }
    }
}

#[test]
fn a_broken_update_stops_times_out_and_is_undone() {
    let mut cluster = cluster();
    guard(&mut cluster, 4, 1, 1);
    cluster.create(&DEPLOYMENTS, deployment(4, rolling(json!(1), json!(1))));
    cluster.run();
    set_image(&mut cluster, "web:broken");
    cluster.run();
    assert_eq!(sets(&cluster), ["web:1=3@1", "web:broken=2@2"]);
    assert_eq!(
        status(&cluster)["conditions"],
        json!(["Available True MinimumReplicasAvailable", "Progressing False ProgressDeadlineExceeded"])
    );
    set_image(&mut cluster, "web:1");
    cluster.run();
    assert_eq!(sets(&cluster), ["web:broken=0@2", "web:1=4@3"]);
    let set = cluster.world.list("apps/replicasets").into_iter().find(|s| s.annotation(REVISION) == Some("3"));
    assert_eq!(set.unwrap_or_default().annotation("deployment.kubernetes.io/revision-history"), Some("1"));
    assert_eq!(
        status(&cluster)["conditions"],
        json!(["Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"])
    );
}

#[test]
fn the_history_is_as_long_as_its_limit() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(1, rolling(json!(1), json!(0))));
    for image in ["web:1", "web:2", "web:3", "web:4", "web:5"] {
        set_image(&mut cluster, image);
        cluster.run();
    }
    assert_eq!(sets(&cluster), ["web:3=0@3", "web:4=0@4", "web:5=1@5"]);
}

#[test]
fn recreation_has_never_pods_of_two_templates() {
    for crashing in [false, true] {
        let mut cluster = cluster();
        cluster.world.crashing = crashing;
        cluster.world.inspect = Some(Box::new(|view: &View| {
            let image = |pod: &brain::Object| pod.tree()["spec"]["containers"][0]["image"].to_string();
            let mut images: Vec<String> = view.list("core/pods", "").iter().map(image).collect();
            images.dedup();
            images.sort();
            images.dedup();
            assert!(images.len() <= 1, "{images:?}");
        }));
        cluster.create(&DEPLOYMENTS, deployment(3, json!({"type": "Recreate"})));
        cluster.run();
        set_image(&mut cluster, "web:2");
        cluster.run();
        assert_eq!(sets(&cluster), ["web:1=0@1", "web:2=3@2"]);
        assert_eq!(status(&cluster)["availableReplicas"], 3);
    }
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_proportional() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(10, rolling(json!(3), json!(2))));
    cluster.run();
    set_image(&mut cluster, "web:broken");
    cluster.settle();
    while cluster.move_one_pod() {
        cluster.settle();
    }
    assert_eq!(sets(&cluster), ["web:1=8@1", "web:broken=5@2"]);
    cluster.edit(&DEPLOYMENTS, "web", |d| d["spec"]["replicas"] = 15.into());
    cluster.settle();
    assert_eq!(sets(&cluster), ["web:1=11@1", "web:broken=7@2"]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(2, rolling(json!(1), json!(0))));
    cluster.run();
    cluster.edit(&DEPLOYMENTS, "web", |d| {
        d["spec"]["paused"] = true.into();
        d["spec"]["replicas"] = 4.into();
        d["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2".into();
    });
    cluster.run();
    assert_eq!(sets(&cluster), ["web:1=4@1"]);
    assert_eq!(status(&cluster)["conditions"][1], "Progressing Unknown DeploymentPaused");
    cluster.edit(&DEPLOYMENTS, "web", |d| d["spec"]["paused"] = false.into());
    cluster.run();
    assert_eq!(sets(&cluster), ["web:1=0@1", "web:2=4@2"]);
    assert_eq!(status(&cluster)["conditions"][1], "Progressing True NewReplicaSetAvailable");
}

#[test]
fn a_restart_is_a_new_template() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(2, rolling(json!(1), json!(0))));
    cluster.run();
    cluster.edit(&DEPLOYMENTS, "web", |d| {
        d.put(&["spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"], "now");
    });
    cluster.run();
    assert_eq!(sets(&cluster), ["web:1=0@1", "web:1=2@2"]);
}

#[test]
fn a_taken_name_is_stepped_around() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(1, rolling(json!(1), json!(0))));
    cluster.run();
    let name = cluster.world.list("apps/replicasets")[0].name().to_owned();
    let mut other = Cluster::new(controllers());
    let labels = json!({"app": "other"});
    other.create(
        &REPLICA_SETS,
        json!({"metadata": {"name": name}, "spec": {"replicas": 0,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}),
    );
    other.create(&DEPLOYMENTS, deployment(1, rolling(json!(1), json!(0))));
    other.run();
    assert_eq!(status(&other)["collisionCount"], 1);
    assert_eq!(status(&other)["availableReplicas"], 1);
}

#[test]
fn a_refused_replica_set_shows_in_the_conditions() {
    let mut cluster = cluster();
    cluster.world.deny = vec!["create replicasets".into()];
    cluster.create(&DEPLOYMENTS, deployment(1, rolling(json!(1), json!(0))));
    cluster.world.settle_once();
    cluster.world.advance(2);
    cluster.world.settle_once();
    assert_eq!(status(&cluster)["conditions"][1], "Progressing False ReplicaSetCreateError");
    assert!(cluster.world.notes.iter().any(|note| note.starts_with("ReplicaSetCreateError: Failed to create new")));
    cluster.world.deny.clear();
    cluster.world.advance(2);
    cluster.run();
    assert_eq!(status(&cluster)["availableReplicas"], 1);
}

#[test]
fn a_quota_shows_in_the_deployment_and_goes_again() {
    let mut cluster = cluster();
    cluster.world.deny = vec!["create pods".into()];
    cluster.create(&DEPLOYMENTS, deployment(1, rolling(json!(1), json!(0))));
    for _ in 0..3 {
        cluster.world.settle_once();
        cluster.world.advance(2);
    }
    assert!(status(&cluster)["conditions"].to_string().contains("ReplicaFailure True FailedCreate"));
    cluster.world.deny.clear();
    cluster.run();
    assert_eq!(
        status(&cluster)["conditions"],
        json!(["Available True MinimumReplicasAvailable", "Progressing True NewReplicaSetAvailable"])
    );
}

#[test]
fn selectors_that_cannot_work_make_no_hot_loop() {
    for selector in [json!({}), json!({"matchLabels": {"app": "other"}})] {
        let mut cluster = cluster();
        let mut broken = deployment(2, rolling(json!(1), json!(0)));
        broken["spec"]["selector"] = selector;
        cluster.create(&DEPLOYMENTS, broken);
        cluster.run();
        assert_eq!(sets(&cluster), Vec::<String>::new());
        assert_eq!(cluster.world.notes.len(), 1, "{:?}", cluster.world.notes);
    }
}

#[test]
fn crashes_change_nothing_in_the_end() {
    the_same_after_crashes(controllers, |cluster| {
        cluster.create(&DEPLOYMENTS, deployment(3, rolling(json!(1), json!(1))));
        cluster.run();
        set_image(cluster, "web:2");
        cluster.run();
        cluster.edit(&DEPLOYMENTS, "web", |d| d["spec"]["replicas"] = 5.into());
        set_image(cluster, "web:3");
        cluster.run();
        set_image(cluster, "web:2");
        cluster.run();
    });
}

#[test]
fn orphans_are_adopted_and_strangers_released() {
    let mut cluster = cluster();
    cluster.create(&DEPLOYMENTS, deployment(2, rolling(json!(1), json!(0))));
    cluster.run();
    // Deleted without its dependents and made again: the same pods go on.
    let pods: Vec<String> = cluster.pods().iter().map(|pod| pod.name().to_owned()).collect();
    cluster.world.delete("apps/deployments", "default", "web", None);
    let set = cluster.world.list("apps/replicasets")[0].name().to_owned();
    cluster.edit(&REPLICA_SETS, &set, |set| drop(set.remove(&["metadata", "ownerReferences"])));
    cluster.create(&DEPLOYMENTS, deployment(2, rolling(json!(1), json!(0))));
    cluster.run();
    assert_eq!(pods, cluster.pods().iter().map(|pod| pod.name().to_owned()).collect::<Vec<_>>());
    let owner = cluster.get(&REPLICA_SETS, &set);
    assert_eq!(owner.controller_ref().map(|r| r.text(&["name"])), Some("web"));
    // A pod that is relabelled is let go and replaced.
    cluster.edit(&crate::pods::PODS, &pods[0], |pod| pod["metadata"]["labels"]["app"] = "debug".into());
    cluster.run();
    assert_eq!(cluster.pods().len(), 3);
    assert_eq!(cluster.get(&crate::pods::PODS, &pods[0]).owner_references().len(), 0);
}
