//! What a plan says and what then happens, compared by counting: the plan comes from the server, the deeds are those of
//! its real controllers, and what they did is read off the store by code that shares nothing with the planner.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use meta::ObjectExt;
use serde_json::{Value, json};
use store::{Snapshot, Store};
use testkit::Cluster;

const MERGE: &str = "application/merge-patch+json";

/// Random changes of an ordinary run; `SETPOINT_PLAN_CHANGES` asks for more.
const CHANGES: usize = 25;
/// How long the world may take to come to rest. Long: nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);
/// A world in which nothing was written for so long has come to rest.
const SILENCE: Duration = Duration::from_millis(250);

/// What happened: kind and fate, and how many.
type Counts = BTreeMap<(String, &'static str), i64>;

/// SplitMix64: the same seed, the same changes.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn template(app: &str, version: u64) -> Value {
    let annotations = json!({"simulated.setpoint.dev/stop-delay": "0s"});
    json!({"metadata": {"labels": {"app": app}, "annotations": annotations}, "spec": {"containers": [
        {"name": "main", "image": format!("app:{version}"), "resources": {"requests": {"cpu": "100m"}}}]}})
}

/// Something that somebody may declare.
fn manifest(dice: &mut Dice) -> Value {
    let number = dice.roll(3);
    let (replicas, version) = (dice.roll(5), dice.roll(3));
    let name = |kind: &str| format!("{kind}-{number}");
    match dice.roll(9) {
        0..=2 => {
            let name = name("web");
            let strategy = if number == 0 { json!({"type": "Recreate"}) } else { json!({"type": "RollingUpdate"}) };
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "strategy": strategy,
                    "template": template(&name, version)}})
        }
        3 => {
            let name = name("db");
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
                "spec": {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
                    "template": template(&name, version)}})
        }
        4 => {
            let name = name("agent");
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(&name, version)}})
        }
        5 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name("conf")},
            "data": {"version": version.to_string()}}),
        6 => json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name("web")},
            "spec": {"selector": {"app": name("web")}, "ports": [{"port": 80 + version}]}}),
        7 => json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name("key")},
            "stringData": {"key": format!("secret-{version}")}}),
        _ => json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name("web")},
            "spec": {"minAvailable": replicas, "selector": {"matchLabels": {"app": name("web")}}}}),
    }
}

fn path(object: &Value) -> String {
    let (root, plural) = match object.text(&["kind"]) {
        "Deployment" => ("/apis/apps/v1", "deployments"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "ConfigMap" => ("/api/v1", "configmaps"),
        "Secret" => ("/api/v1", "secrets"),
        _ => ("/api/v1", "services"),
    };
    format!("{root}/namespaces/default/{plural}/{}", object.name())
}

async fn ask(cluster: &Cluster, spec: Value) -> Value {
    let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Plan", "spec": spec});
    let mut answer = cluster.post("/apis/setpoint.dev/v1alpha1/plans", &question).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body["status"].take()
}

/// What a plan says will happen.
fn planned(plan: &Value) -> Counts {
    let mut counts = Counts::new();
    let fate = |action: &str| match action {
        "create" => Some("made"),
        "update" => Some("changed"),
        "delete" => Some("gone"),
        _ => None,
    };
    for change in plan.items(&["changes"]) {
        if let Some(fate) = fate(change.text(&["action"])) {
            *counts.entry((change.text(&["object", "kind"]).to_owned(), fate)).or_default() += 1;
        }
    }
    for consequence in plan.items(&["consequences"]) {
        if let Some(fate) = fate(consequence.text(&["action"])) {
            let count = consequence.int(&["count"]).expect("a count");
            *counts.entry((consequence.text(&["kind"]).to_owned(), fate)).or_default() += count;
        }
    }
    counts
}

/// What did happen between two states, in everything that lasts.
fn happened(before: &Snapshot, after: &Snapshot) -> Counts {
    let mut counts = Counts::new();
    for collection in before.collections_changed(after) {
        if matches!(&*collection, "core/events" | "coordination.k8s.io/leases") {
            continue;
        }
        let read =
            |entry: &std::sync::Arc<store::Entry>| -> Value { serde_json::from_slice(&entry.value).expect("JSON") };
        let mut count = |object: &Value, fate: &'static str| {
            *counts.entry((object.text(&["kind"]).to_owned(), fate)).or_default() += 1;
        };
        for (item, old) in before.items(&collection) {
            match after.get(&collection, item) {
                None => count(&read(old), "gone"),
                // Another object of the same name: a pod of a StatefulSet.
                Some(new) if read(old).uid() != read(new).uid() => count(&read(new), "changed"),
                Some(new) if lasting(read(old)) != lasting(read(new)) => count(&read(new), "changed"),
                Some(_) => {}
            }
        }
        for (item, new) in after.items(&collection) {
            if before.get(&collection, item).is_none() {
                count(&read(new), "made");
            }
        }
    }
    counts
}

/// An object without what is observed and what the server keeps for itself.
fn lasting(mut object: Value) -> Value {
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
        object.remove(&["metadata", field]);
    }
    object
}

/// Waits until nothing is written any more, but by those who only say that they live.
async fn rest(cluster: &Cluster) -> Snapshot {
    let begun = tokio::time::Instant::now();
    let mut last = cluster.store.snapshot();
    let mut since = tokio::time::Instant::now();
    while since.elapsed() < SILENCE {
        assert!(begun.elapsed() < PATIENCE, "the world does not come to rest");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = cluster.store.snapshot();
        let volatile = ["core/events", "coordination.k8s.io/leases", "core/nodes"];
        let is_going = |entry: &std::sync::Arc<store::Entry>| {
            serde_json::from_slice::<Value>(&entry.value).expect("JSON").is_deleting()
        };
        let moved = now.collections_changed(&last).iter().any(|collection| !volatile.contains(&&**collection));
        if moved || now.items("core/pods").any(|(_, entry)| is_going(entry)) {
            since = tokio::time::Instant::now();
        }
        last = now;
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_apply_does_is_what_the_plan_said() {
    let changes = std::env::var("SETPOINT_PLAN_CHANGES").ok().and_then(|n| n.parse().ok()).unwrap_or(CHANGES);
    let cluster = Cluster::whole(2).await;
    let mut dice = Dice(7);
    let mut known: Vec<Value> = Vec::new();
    let (mut stopped, mut different) = (0, Vec::new());
    let mut before = rest(&cluster).await;
    for number in 0..changes {
        let goes = !known.is_empty() && dice.roll(5) == 0;
        let object = if goes {
            known.swap_remove(usize::try_from(dice.roll(known.len() as u64)).expect("small"))
        } else {
            manifest(&mut dice)
        };
        let about = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object.name(), "namespace": "default"});
        let spec = if goes { json!({"deletions": [about]}) } else { json!({"objects": [object]}) };
        let plan = ask(&cluster, spec).await;
        let action = plan.items(&["changes"])[0].text(&["action"]).to_owned();
        let answer = match (&*action, goes) {
            ("refuse", _) => None,
            (_, true) => Some(cluster.delete(&path(&object)).await),
            (_, false) => Some(cluster.apply(&path(&object), "setpoint", &object).await),
        };
        if answer.is_none() {
            // Apply would stop here, and says why.
            assert!(!plan.items(&["changes"])[0].text(&["reason"]).is_empty());
            stopped += 1;
            continue;
        }
        assert!(answer.as_ref().is_some_and(|a| a.code < 300), "{number}: {action}: {:?}", answer.map(|a| a.body));
        if !goes {
            known.retain(|other| path(other) != path(&object));
            known.push(object.clone());
        }
        let after = rest(&cluster).await;
        let (said, done) = (planned(&plan), happened(&before, &after));
        if said != done {
            different.push(format!("{number}: {} {}: said {said:?}, did {done:?}", action, path(&object)));
        }
        before = after;
    }
    println!(
        "{changes} changes: {} as planned, {} stopped, {} different",
        changes - stopped - different.len(),
        stopped,
        different.len()
    );
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_writes_nothing() {
    let cluster = Cluster::whole(1).await;
    let before = rest(&cluster).await;
    let object = testkit::deployment("web", 3);
    let plan = ask(&cluster, json!({"objects": [object]})).await;
    assert_eq!(planned(&plan).get(&("Pod".to_owned(), "made")), Some(&3));
    assert_eq!(happened(&before, &rest(&cluster).await), Counts::new());
}

#[tokio::test]
async fn an_apply_of_a_new_object_does_not_touch_one_that_is_there() {
    let cluster = Cluster::api().await;
    let map = testkit::config_map("a", "1");
    let request = |value: &str| {
        let body = testkit::config_map("a", value).to_string();
        http::Request::builder()
            .method(Method::PATCH)
            .uri("/api/v1/namespaces/default/configmaps/a?fieldManager=setpoint")
            .header("content-type", "application/apply-patch+yaml")
            .header("if-none-match", "*")
            .body(bytes::Bytes::from(body))
            .expect("a request")
    };
    assert_eq!(cluster.raw(request("2")).await, 201);
    assert_eq!(cluster.raw(request("3")).await, 409);
    let live = cluster.get("/api/v1/namespaces/default/configmaps/a").await.body;
    assert_eq!(live["data"]["value"], "2");
    drop(map);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_changed_by_hand_shows_with_its_name() {
    let cluster = Cluster::whole(1).await;
    let object = testkit::deployment("web", 2);
    cluster.apply("/apis/apps/v1/namespaces/default/deployments/web", "setpoint", &object).await;
    let scale = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=kubectl-edit";
    let patch = json!({"spec": {"replicas": 5}});
    cluster.send(Method::PATCH, scale, MERGE, &patch).await;
    let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Drift", "spec": {"objects": [object]}});
    let answer = cluster.post("/apis/setpoint.dev/v1alpha1/drifts", &question).await;
    let field = &answer.body["status"]["objects"][0]["fields"][0];
    assert_eq!((field.text(&["path"]), field.text(&["class"])), ("spec.replicas", "editedByHand"), "{}", answer.body);
    assert_eq!((field.text(&["manager"]), field.text(&["user"])), ("kubectl-edit", "admin"));
    assert_eq!((&field["declared"], &field["live"]), (&json!(2), &json!(5)));
    let about = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web"});
    let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Blame", "spec": {"object": about}});
    let answer = cluster.post("/apis/setpoint.dev/v1alpha1/blames", &question).await;
    let rows = answer.body.items(&["status", "fields"]).to_vec();
    let row = rows.iter().find(|row| row.text(&["path"]) == "spec.replicas").expect("the field");
    assert_eq!((row["owners"][0]["manager"].as_str(), &row["last"]["old"]), (Some("kubectl-edit"), &json!(2)));
}

/// One round of a fight over the replicas of deployment/web.
async fn take(cluster: &Cluster, round: i64) -> testkit::Answer {
    let (manager, replicas) = if round % 2 == 0 { ("one", 3) } else { ("other", 4) };
    let path = format!("/apis/apps/v1/namespaces/default/deployments/web?fieldManager={manager}");
    cluster.send(Method::PATCH, &path, MERGE, &json!({"spec": {"replicas": replicas}})).await
}

async fn choose(cluster: &Cluster, path: &str, policy: Value) -> u16 {
    let patch = json!({"metadata": {"annotations": {"setpoint.dev/fights": policy}}});
    cluster.send(Method::PATCH, path, MERGE, &patch).await.code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fight_is_named() {
    let cluster = Cluster::api().await;
    cluster.create(&testkit::deployment("web", 2)).await;
    let report = || async {
        let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "FightReport", "spec": {}});
        cluster.post("/apis/setpoint.dev/v1alpha1/fightreports", &question).await.body["status"]["fights"].clone()
    };
    let events = || async { cluster.get("/api/v1/namespaces/default/events").await.body["items"].clone() };
    for round in 0..4 {
        assert_eq!((report().await, events().await), (json!([]), json!([])), "before round {round}");
        take(&cluster, round).await;
    }
    let fights = report().await;
    assert_eq!(fights[0].text(&["path"]), "spec.replicas", "{fights}");
    let sides: Vec<&str> = fights[0].items(&["sides"]).iter().map(|side| side.text(&["manager"])).collect();
    assert_eq!(sides, ["other", "one"]);
    // The event names the field and both, no values, and is told once a minute however fast they are.
    take(&cluster, 4).await;
    let events = events().await;
    let event = &events[0];
    assert_eq!((events.as_array().map(Vec::len), event.text(&["reason"])), (Some(1), "FieldFight"), "{events}");
    assert_eq!(event.text(&["involvedObject", "fieldPath"]), "spec.replicas");
    assert!(event.text(&["message"]).starts_with("other (patch) and one (patch) fight over spec.replicas"), "{event}");
    let text = cluster.text("/metrics").await;
    assert!(text.contains("\nsetpoint_field_fight_rounds_total 2\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fight_can_be_slowed_or_frozen() {
    const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=kubectl";
    let cluster = Cluster::api().await;
    cluster.create(&testkit::deployment("web", 2)).await;
    assert_eq!(choose(&cluster, WEB, json!("slwo")).await, 422, "an unknown policy");
    for round in 0..12 {
        assert_eq!(take(&cluster, round).await.code, 200);
    }
    // By the namespace: who lost waits, here some minutes; other writes do not.
    assert_eq!(choose(&cluster, "/api/v1/namespaces/default", json!("slow")).await, 200);
    let slowed = take(&cluster, 12).await;
    assert_eq!(slowed.code, 429, "{}", slowed.body);
    assert!(slowed.body["details"]["retryAfterSeconds"].as_i64() > Some(60), "{}", slowed.body);
    assert_eq!(take(&cluster, 11).await.code, 200, "the winner changes nothing");
    // By the object: nobody of the two, but somebody who decides.
    assert_eq!(choose(&cluster, WEB, json!("freeze")).await, 200);
    let frozen = take(&cluster, 12).await;
    assert_eq!(frozen.code, 403, "{}", frozen.body);
    let patch = json!({"spec": {"replicas": 7}});
    let other = WEB.replace("kubectl", "other");
    assert_eq!(cluster.send(Method::PATCH, &other, MERGE, &patch).await.code, 403);
    assert_eq!(cluster.send(Method::PATCH, WEB, MERGE, &patch).await.code, 200);
    assert_eq!(take(&cluster, 12).await.code, 200, "that fight is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_questions_is_turned_away_and_stops_no_write() {
    let cluster = std::sync::Arc::new(Cluster::api().await);
    let objects: Vec<Value> = (0..50).map(|at| testkit::config_map(&format!("map-{at}"), "1")).collect();
    let question = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": "Plan", "spec": {"objects": objects}});
    let asked: Vec<_> = (0..60)
        .map(|_| {
            let (cluster, question) = (std::sync::Arc::clone(&cluster), question.clone());
            tokio::spawn(async move { cluster.post("/apis/setpoint.dev/v1alpha1/plans", &question).await.code })
        })
        .collect();
    cluster.create(&testkit::config_map("meanwhile", "1")).await;
    let mut codes = BTreeMap::new();
    for answer in asked {
        *codes.entry(answer.await.expect("answered")).or_insert(0) += 1;
    }
    assert!(codes.keys().all(|code| matches!(code, 201 | 429)), "{codes:?}");
    assert!(codes[&201] > 0 && codes.contains_key(&429), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_sees_what_changed_since_the_last_one() {
    let cluster = Cluster::api().await;
    let map = testkit::config_map("a", "1");
    let action = |plan: &Value| plan["changes"][0].text(&["action"]).to_owned();
    assert_eq!(action(&ask(&cluster, json!({"objects": [map]})).await), "create");
    cluster.apply(&path(&map), "setpoint", &map).await;
    assert_eq!(action(&ask(&cluster, json!({"objects": [map]})).await), "keep");
    cluster.delete(&path(&map)).await;
    assert_eq!(action(&ask(&cluster, json!({"objects": [map]})).await), "create");
}
