use brain::{Controller, View};
use meta::ObjectExt;
use serde_json::{Value, json};

use super::{CLAIMS, STATEFUL_SETS, StatefulSetController};
use crate::pods::PODS;
use crate::revisions::POD_LABEL;
use crate::testing::{Cluster, the_same_after_crashes};

fn controllers() -> Vec<Controller> {
    vec![Controller::of::<StatefulSetController>(), Controller::of::<crate::garbage_collector::GarbageCollector>()]
}

fn cluster() -> Cluster {
    Cluster::new(controllers())
}

fn set(replicas: i64, extra: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 1, "selector": {"matchLabels": {"app": "db"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": "db:1"}]},
            },
        },
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

fn set_image(cluster: &mut Cluster, image: &str) {
    cluster.edit(&STATEFUL_SETS, "db", |d| d["spec"]["template"]["spec"]["containers"][0]["image"] = image.into());
}

fn status(cluster: &Cluster) -> Value {
    cluster.get(&STATEFUL_SETS, "db")["status"].clone()
}

/// `name image` of every pod.
fn pods(cluster: &Cluster) -> Vec<String> {
    cluster.pods().iter().map(|p| format!("{} {}", p.name(), p["spec"]["containers"][0].text(&["image"]))).collect()
}

fn names(list: Vec<Value>) -> Vec<String> {
    list.iter().map(|object| object.name().to_owned()).collect()
}

/// What was done to pods and claims, in order, while the cluster ran.
fn run(cluster: &mut Cluster) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let log = if cluster.world.crashing { cluster.world.settle() } else { cluster.world.follow() };
        done.extend(log.into_iter().filter(|l| l.contains(" pods ") || l.contains(" persistentvolumeclaims ")));
        if !cluster.move_one_pod() {
            return done;
        }
    }
}

fn with_claims() -> Value {
    json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]})
}

/// At every revision: at most so many of the pods that were up are not.
fn guard(cluster: &mut Cluster, replicas: i64, unavailable: i64) {
    let reached = std::cell::Cell::new(false);
    cluster.world.inspect = Some(Box::new(move |view: &View| {
        let ready = |pod: &brain::Object| !pod.meta().is_deleting() && meta::condition::is_true(&pod.tree(), "Ready");
        let up = view.list("core/pods", "").iter().filter(|pod| ready(pod)).count() as i64;
        reached.set(reached.get() || up >= replicas);
        assert!(!reached.get() || up >= replicas - unavailable, "{up} pods are up");
    }));
}

#[test]
fn pods_come_in_order_each_with_its_claim() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(2, with_claims()));
    assert_eq!(
        run(&mut cluster),
        [
            "create persistentvolumeclaims default/data-db-0",
            "create pods default/db-0",
            "create persistentvolumeclaims default/data-db-1",
            "create pods default/db-1",
        ]
    );
    let pod = cluster.get(&PODS, "db-1");
    assert_eq!(pod["spec"]["hostname"], "db-1");
    assert_eq!(pod["spec"]["subdomain"], "db");
    assert_eq!(pod["spec"]["volumes"], json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]));
    assert_eq!(pod.label("apps.kubernetes.io/pod-index"), Some("1"));
    assert_eq!(pod.label("statefulset.kubernetes.io/pod-name"), Some("db-1"));
    assert_eq!(cluster.get(&CLAIMS, "data-db-1").label("app"), Some("db"));
    let revision = status(&cluster).text(&["currentRevision"]).to_owned();
    assert_eq!(pod.label(POD_LABEL), Some(&*revision));
    assert_eq!(
        status(&cluster),
        json!({
            "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
            "updatedReplicas": 2, "currentRevision": revision, "updateRevision": revision, "collisionCount": 0,
        })
    );
    assert!(cluster.world.notes.contains(&"SuccessfulCreate: create Pod db-0 in StatefulSet db successful".to_owned()));
    assert!(
        cluster
            .world
            .notes
            .contains(&"SuccessfulCreate: create Claim data-db-0 Pod db-0 in StatefulSet db success".to_owned())
    );
}

#[test]
fn an_update_goes_down_the_ordinals_and_waits_for_each() {
    for crashing in [false, true] {
        let mut cluster = cluster();
        cluster.world.crashing = crashing;
        guard(&mut cluster, 3, 1);
        cluster.create(&STATEFUL_SETS, set(3, json!({})));
        run(&mut cluster);
        set_image(&mut cluster, "db:2");
        assert_eq!(
            run(&mut cluster),
            [
                "delete pods default/db-2",
                "create pods default/db-2",
                "delete pods default/db-1",
                "create pods default/db-1",
                "delete pods default/db-0",
                "create pods default/db-0",
            ]
        );
        assert_eq!(pods(&cluster), ["db-0 db:2", "db-1 db:2", "db-2 db:2"]);
        let status = status(&cluster);
        assert_eq!(status["currentRevision"], status["updateRevision"]);
        assert_eq!(status["currentReplicas"], 3);
    }
}

#[test]
fn a_partition_keeps_the_lower_ordinals() {
    let mut cluster = cluster();
    let partition = |n: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": n}});
    cluster.create(&STATEFUL_SETS, set(3, json!({"updateStrategy": partition(2)})));
    run(&mut cluster);
    set_image(&mut cluster, "db:2");
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:1", "db-1 db:1", "db-2 db:2"]);
    // One that is lost below the partition comes back as it was.
    cluster.world.remove("core/pods", "default", "db-0");
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:1", "db-1 db:1", "db-2 db:2"]);
    assert_eq!((&status(&cluster)["currentReplicas"], &status(&cluster)["updatedReplicas"]), (&json!(2), &json!(1)));
    cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["updateStrategy"] = partition(0));
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:2", "db-1 db:2", "db-2 db:2"]);
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(2, json!({"updateStrategy": {"type": "OnDelete"}})));
    run(&mut cluster);
    set_image(&mut cluster, "db:2");
    assert_eq!(run(&mut cluster), Vec::<String>::new());
    cluster.world.delete("core/pods", "default", "db-0", None);
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:2", "db-1 db:1"]);
}

#[test]
fn parallel_sets_do_not_wait() {
    let mut cluster = cluster();
    guard(&mut cluster, 4, 2);
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}});
    cluster.create(&STATEFUL_SETS, set(4, json!({"podManagementPolicy": "Parallel", "updateStrategy": update})));
    cluster.settle();
    assert_eq!(cluster.pods().len(), 4);
    run(&mut cluster);
    set_image(&mut cluster, "db:2");
    let done = run(&mut cluster);
    assert_eq!(done[..2], ["delete pods default/db-3", "delete pods default/db-2"]);
    assert_eq!(pods(&cluster), ["db-0 db:2", "db-1 db:2", "db-2 db:2", "db-3 db:2"]);
}

#[test]
fn a_broken_parallel_update_is_stopped_and_can_be_repaired() {
    let mut cluster = cluster();
    guard(&mut cluster, 3, 1);
    cluster.create(&STATEFUL_SETS, set(3, json!({"podManagementPolicy": "Parallel"})));
    run(&mut cluster);
    set_image(&mut cluster, "db:broken");
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:1", "db-1 db:1", "db-2 db:broken"]);
    set_image(&mut cluster, "db:3");
    run(&mut cluster);
    assert_eq!(pods(&cluster), ["db-0 db:3", "db-1 db:3", "db-2 db:3"]);
}

#[test]
fn scaling_down_takes_the_highest_first() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(4, json!({})));
    run(&mut cluster);
    cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["replicas"] = 1.into());
    assert_eq!(
        run(&mut cluster),
        ["delete pods default/db-3", "delete pods default/db-2", "delete pods default/db-1",]
    );
    cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["ordinals"] = json!({"start": 5}));
    assert_eq!(run(&mut cluster), ["create pods default/db-5", "delete pods default/db-0"]);
}

#[test]
fn pods_that_ended_are_made_again_under_their_name() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(2, json!({})));
    run(&mut cluster);
    let uid = cluster.get(&PODS, "db-0").uid().to_owned();
    cluster.set_pod_status("db-0", json!({"phase": "Failed"}));
    run(&mut cluster);
    assert_ne!(cluster.get(&PODS, "db-0").uid(), uid);
    assert_eq!(cluster.pods().len(), 2);
}

#[test]
fn retention_decides_what_claims_go_with() {
    let check = |when_deleted: &str, when_scaled: &str, while_up: &[&str], scaled: &[&str], deleted: &[&str]| {
        let mut cluster = cluster();
        let mut extra = with_claims();
        extra["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
        cluster.create(&STATEFUL_SETS, set(2, extra));
        run(&mut cluster);
        let owners = cluster.get(&CLAIMS, "data-db-1");
        let owners: Vec<&str> = owners.owner_references().iter().map(|r| r.text(&["kind"])).collect();
        assert_eq!(owners, while_up, "{when_deleted} {when_scaled}");
        cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["replicas"] = 1.into());
        run(&mut cluster);
        assert_eq!(names(cluster.world.list("core/persistentvolumeclaims")), scaled, "{when_deleted} {when_scaled}");
        cluster.world.delete("apps/statefulsets", "default", "db", None);
        run(&mut cluster);
        assert_eq!(names(cluster.world.list("core/persistentvolumeclaims")), deleted, "{when_deleted} {when_scaled}");
        assert_eq!(cluster.pods().len(), 0);
    };
    let both = &["data-db-0", "data-db-1"][..];
    check("Retain", "Retain", &[], both, both);
    check("Delete", "Retain", &["StatefulSet"], both, &[]);
    check("Retain", "Delete", &[], &["data-db-0"], &["data-db-0"]);
    check("Delete", "Delete", &["StatefulSet"], &["data-db-0"], &[]);
}

#[test]
fn revisions_are_kept_up_to_the_limit_and_come_back() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(1, json!({})));
    run(&mut cluster);
    let first = status(&cluster)["currentRevision"].clone();
    for image in ["db:2", "db:1"] {
        set_image(&mut cluster, image);
        run(&mut cluster);
    }
    assert_eq!(status(&cluster)["currentRevision"], first);
    let revisions = cluster.world.list("apps/controllerrevisions");
    let newest = revisions.iter().max_by_key(|r| r.int(&["revision"])).cloned().unwrap_or_default();
    assert_eq!((newest.name(), newest.int(&["revision"])), (first.as_str().unwrap_or_default(), Some(3)));
    for image in ["db:3", "db:4", "db:5"] {
        set_image(&mut cluster, image);
        run(&mut cluster);
    }
    assert_eq!(cluster.world.list("apps/controllerrevisions").len(), 2);
}

#[test]
fn a_pod_of_somebody_else_is_waited_for() {
    let mut cluster = cluster();
    cluster.create(&PODS, json!({"metadata": {"name": "db-0"}, "spec": {"containers": []}}));
    cluster.create(&STATEFUL_SETS, set(1, json!({})));
    run(&mut cluster);
    assert_eq!(status(&cluster)["replicas"], 0);
    cluster.world.remove("core/pods", "default", "db-0");
    run(&mut cluster);
    assert_eq!(status(&cluster)["readyReplicas"], 1);
}

#[test]
fn a_selector_that_cannot_work_makes_no_hot_loop() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(1, json!({"selector": {"matchLabels": {"app": "other"}}})));
    run(&mut cluster);
    assert_eq!(cluster.pods().len(), 0);
    assert_eq!(cluster.world.notes.len(), 1, "{:?}", cluster.world.notes);
}

#[test]
fn min_ready_seconds_hold_the_next_pod_back() {
    let mut cluster = cluster();
    cluster.create(&STATEFUL_SETS, set(2, json!({"minReadySeconds": 30})));
    let start = cluster.world.now;
    cluster.run();
    assert_eq!(status(&cluster)["availableReplicas"], 2);
    assert_eq!(cluster.world.now.since(start).as_secs(), 60);
}

#[test]
fn crashes_change_nothing_in_the_end() {
    the_same_after_crashes(controllers, |cluster| {
        let mut extra = with_claims();
        extra["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
        cluster.create(&STATEFUL_SETS, set(3, extra));
        cluster.run();
        set_image(cluster, "db:2");
        cluster.run();
        cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["replicas"] = 1.into());
        cluster.run();
        cluster.edit(&STATEFUL_SETS, "db", |set| set["spec"]["replicas"] = 2.into());
        set_image(cluster, "db:1");
        cluster.run();
    });
}
