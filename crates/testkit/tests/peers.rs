//! Faults that were measured in other implementations of this API: each has a test here that shows it is not ours.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use testkit::{Cluster, config_map, deployment};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_writes_nothing() {
    let cluster = Cluster::api().await;
    cluster.create(&config_map("kept", "1")).await;
    let before = cluster.revision();
    let answer = cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("tried", "1")).await;
    assert_eq!((answer.code, answer.body["metadata"]["name"].as_str()), (201, Some("tried")));
    let kept = format!("{CONFIG_MAPS}/kept");
    assert_eq!(cluster.put(&format!("{kept}?dryRun=All"), &config_map("kept", "2")).await.body["data"]["value"], "2");
    assert_eq!(cluster.delete(&format!("{kept}?dryRun=All")).await.code, 200);
    assert_eq!(cluster.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.code, 200);
    assert_eq!(cluster.revision(), before);
    assert_eq!(cluster.get(&kept).await.body["data"]["value"], "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_has_everything_up_to_its_own_revision() {
    let cluster = std::sync::Arc::new(Cluster::api().await);
    let writer = std::sync::Arc::clone(&cluster);
    let writing = tokio::spawn(async move {
        let mut written = Vec::new();
        for at in 0..500 {
            let made = writer.create(&config_map(&format!("c{at}"), "1")).await;
            let revision: u64 = made["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
            written.push((revision, format!("c{at}")));
        }
        written
    });
    let mut lists = Vec::new();
    while !writing.is_finished() {
        lists.push(cluster.get(CONFIG_MAPS).await.body);
    }
    let written = writing.await.expect("all written");
    for list in lists {
        let revision: u64 = list["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
        let items = list["items"].as_array().expect("items");
        let names: BTreeSet<&str> = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
        for (at, name) in &written {
            assert_eq!(*at <= revision, names.contains(name.as_str()), "{name} of {at} in the list of {revision}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_reads_late_misses_nothing() {
    let cluster = Cluster::api().await;
    let start = cluster.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");
    let mut body = cluster.open(Method::GET, &path, "application/json", Bytes::new()).await.into_body();
    // Far more than fits between the cursor and a reader that does not read.
    for at in 0..2_000 {
        cluster.create(&config_map(&format!("c{at}"), &"x".repeat(500))).await;
    }
    let (mut seen, mut rest) = (0, Vec::new());
    while seen < 2_000 {
        let frame = body.frame().await.expect("goes on").expect("is whole").into_data().expect("data");
        rest.extend_from_slice(&frame);
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let event: Value = serde_json::from_slice(&rest[..end]).expect("JSON");
            assert_eq!(event["type"], "ADDED");
            assert_eq!(event["object"]["metadata"]["name"], format!("c{seen}"));
            seen += 1;
            rest.drain(..=end);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_whose_history_is_gone_is_told() {
    let cluster = Cluster::api().await;
    let start = cluster.revision();
    cluster.create(&config_map("a", "1")).await;
    cluster.create(&config_map("b", "1")).await;
    store::Store::compact(&*cluster.store, store::Revision(cluster.revision()));
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");
    let body = cluster.open(Method::GET, &path, "application/json", Bytes::new()).await.into_body();
    let bytes = body.collect().await.expect("ends").to_bytes();
    let event: Value = serde_json::from_slice(&bytes).expect("one event");
    assert_eq!((event["type"].as_str(), event["object"]["code"].as_i64()), (Some("ERROR"), Some(410)));
    // What is live stays: compaction forgets history, not state.
    assert_eq!(cluster.get(CONFIG_MAPS).await.body["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_that_misses_its_own_template_is_refused() {
    let cluster = Cluster::api().await;
    let mut object = deployment("web", 1);
    object["spec"]["selector"]["matchLabels"]["app"] = json!("other");
    let answer = cluster.post(DEPLOYMENTS, &object).await;
    assert_eq!((answer.code, answer.body["reason"].as_str()), (422, Some("Invalid")), "{}", answer.body);
    assert_eq!(answer.body["details"]["causes"][0]["field"], "spec.template.metadata.labels");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_owned_at_their_leaves() {
    let cluster = Cluster::api().await;
    let path = format!("{DEPLOYMENTS}/web");
    assert_eq!(cluster.apply(&path, "first", &deployment("web", 1)).await.code, 201);
    let scale =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    let refused = cluster.apply(&path, "second", &scale).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldManagerConflict");
    assert_eq!(cause["field"], ".spec.replicas");
    assert_eq!(refused.body["message"], "Apply failed with 1 conflict: conflict with \"first\": .spec.replicas");
    let label =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"}}});
    assert_eq!(cluster.apply(&path, "second", &label).await.code, 200, "another leaf is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_deletion_needs_no_timer() {
    let cluster = Cluster::with_controllers(0).await;
    cluster.create(&deployment("web", 3)).await;
    let pods = "/api/v1/namespaces/default/pods";
    cluster.wait(pods, |answer| answer.body["items"].as_array().map(Vec::len) == Some(3)).await;
    assert_eq!(cluster.delete(&format!("{DEPLOYMENTS}/web")).await.code, 200);
    // Each wait looks only when something was written: a collector that polls would be seen to hang here.
    cluster.wait("/apis/apps/v1/replicasets", |answer| answer.body["items"] == json!([])).await;
    cluster.wait(pods, |answer| answer.body["items"] == json!([])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_rest_nothing_is_written() {
    let cluster = Cluster::with_controllers(0).await;
    cluster.create(&deployment("web", 2)).await;
    let is_observed = |answer: &testkit::Answer| {
        answer.body["status"]["observedGeneration"] == 1 && answer.body["status"]["unavailableReplicas"] == 2
    };
    cluster.wait(&format!("{DEPLOYMENTS}/web"), is_observed).await;
    // The last writes' own wake-ups run out first: five looks in a row at an unchanged store are rest.
    let (mut last, mut unchanged) = (cluster.revision(), 0);
    for _ in 0..2_000 {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let now = cluster.revision();
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
        if unchanged == 200 {
            return;
        }
    }
    panic!("the store never came to rest");
}
