//! Causes of small worlds, put down as they are.

use std::sync::Arc;

use kinds::Catalog;
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Key, Keyspace, Mem, Op, Store, Txn};
use view::View;

use super::{Cause, diagnose};
use crate::World;

/// An object of a collection; its name is its uid, too.
struct Placed {
    collection: &'static str,
    tree: Value,
}

/// `kind/name`, owned by the object `owner` names, in the state of `more`.
fn placed(kind: &str, name: &str, owner: &str, more: Value) -> Placed {
    let (collection, api_version) = match kind {
        "Pod" => ("core/pods", "v1"),
        "Job" => ("batch/jobs", "batch/v1"),
        "Deployment" => ("apps/deployments", "apps/v1"),
        "ReplicaSet" => ("apps/replicasets", "apps/v1"),
        "StatefulSet" => ("apps/statefulsets", "apps/v1"),
        _ => ("apps/daemonsets", "apps/v1"),
    };
    let mut tree = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1}});
    if !owner.is_empty() {
        let owner = json!({"apiVersion": "v1", "kind": "Any", "name": owner, "uid": owner, "controller": true});
        tree.put(&["metadata", "ownerReferences"], json!([owner]));
    }
    for (field, value) in more.as_object().into_iter().flatten() {
        tree.put(&[field.as_str()], value.clone());
    }
    Placed { collection, tree }
}

/// Why the first of these objects is not as it should be.
fn why(objects: &[Placed]) -> Option<Cause> {
    let store = Mem::new();
    let key = |placed: &Placed| Key::new(placed.collection, format!("default/{}", placed.tree.name()));
    let put = |placed: &Placed| Op::Put {
        key: key(placed),
        value: placed.tree.to_string().into_bytes().into(),
        annex: Default::default(),
        stamp_at: None,
        keyspace: Keyspace::Durable,
    };
    let ops = objects.iter().map(put).collect();
    store.submit(Txn { preconditions: vec![], ops }, Box::new(|done| drop(done.expect("written"))));
    let (view, catalog) = (View::of(store.snapshot()), Arc::new(Catalog::built_in()));
    let world = World { view, catalog, now: Time::from_secs(1_900_000_000) };
    let kind = world.catalog.collection(objects[0].collection).expect("served").clone();
    let object = world.view.get_key(&key(&objects[0])).expect("the object");
    diagnose(&world, &kind, &object, &|_, _| true).cause
}

/// Wants one pod and has none that is ready.
fn short() -> Value {
    let status = json!({"observedGeneration": 1, "replicas": 1, "desiredNumberScheduled": 1});
    json!({"spec": {"replicas": 1, "completions": 1}, "status": status})
}

fn pod_of(owner: &str, name: &str, status: Value) -> Placed {
    placed(
        "Pod",
        name,
        owner,
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}, "status": status}),
    )
}

fn evicted() -> Value {
    let killed = json!({"name": "c", "state": {"terminated": {"exitCode": 137}}});
    json!({"phase": "Failed", "reason": "Evicted", "message": "no room", "containerStatuses": [killed]})
}

fn ended_with(code: i64) -> Value {
    json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]})
}

fn check(objects: &[Placed], reason: &str, is_retrying: bool) {
    let cause = why(objects).unwrap_or_else(|| panic!("no cause, expected {reason}"));
    assert_eq!((cause.reason.as_str(), cause.retrying), (reason, is_retrying), "{cause:?}");
}

#[test]
fn a_failed_pod_is_tried_again_where_its_owner_makes_another() {
    for kind in ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"] {
        let owner = || placed(kind, "own", "", short());
        check(&[owner(), pod_of("own", "p", evicted())], "Evicted", true);
        check(&[owner(), pod_of("own", "p", json!({"phase": "Failed", "reason": "NodeLost"}))], "NodeLost", true);
        check(&[owner(), pod_of("own", "p", json!({"phase": "Failed"}))], "Failed", true);
        check(&[owner(), pod_of("own", "p", ended_with(3))], "Crashing", true);
    }
    let deployment = || [placed("Deployment", "top", "", short()), placed("ReplicaSet", "own", "top", short())];
    let objects: Vec<Placed> = deployment().into_iter().chain([pod_of("own", "p", evicted())]).collect();
    check(&objects, "Evicted", true);
}

#[test]
fn what_nobody_replaces_stays() {
    check(&[pod_of("", "p", evicted())], "Evicted", false);
    check(&[pod_of("", "p", ended_with(3))], "Crashing", false);
    // Asked about itself, a failed pod stays so, whoever makes another.
    check(&[pod_of("own", "p", evicted()), placed("ReplicaSet", "own", "", short())], "Evicted", false);
    for type_ in ["Failed", "FailureTarget"] {
        let given_up = json!({"status": {"failed": 1, "conditions": [
            {"type": type_, "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]}});
        let job = || placed("Job", "own", "", given_up.clone());
        check(&[job()], "BackoffLimitExceeded", false);
        check(&[job(), pod_of("own", "p", ended_with(3))], "Crashing", false);
    }
}

#[test]
fn the_pod_in_place_of_a_failed_one_explains_more() {
    let own = || placed("ReplicaSet", "own", "", short());
    let refused = json!({"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}});
    let pulling = || json!({"phase": "Pending", "containerStatuses": [refused.clone()]});
    check(&[own(), pod_of("own", "a", evicted()), pod_of("own", "b", pulling())], "ErrImagePull", true);
    check(&[own(), pod_of("own", "a", evicted()), pod_of("own", "b", json!({"phase": "Pending"}))], "Evicted", true);
}
