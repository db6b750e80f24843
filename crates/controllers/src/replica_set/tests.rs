use super::*;
use crate::claim::selector;
use crate::testing::{pod, seen};
use serde_json::json;

fn now() -> Time {
    Time::parse("2026-11-30T12:00:00Z").expect("valid")
}

fn desired(replicas: usize) -> Desired {
    let target = Target { namespace: "default".into(), name: "web".into(), uid: "rs-1".into(), ..Target::default() };
    Desired {
        flavor: &FLAVOR,
        owner: Owner { api_version: "apps/v1", kind: "ReplicaSet", target, deleting: false, holds: None },
        generation: 1,
        replicas,
        min_ready_seconds: 0,
        selector: selector(Some(&json!({"matchLabels": {"app": "web"}}))),
        template: json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}]}}),
    }
}

fn observed(pods: Vec<Value>, status: Value) -> Observed {
    Observed {
        pods: pods.into_iter().map(seen).collect(),
        transfers: Vec::new(),
        taken: BTreeSet::new(),
        doubled: Doubled::new(),
        status,
        refusal: None,
    }
}

fn brief(outcome: &Outcome<Step, Why>) -> Vec<String> {
    outcome
        .steps
        .iter()
        .map(|step| match step {
            Step::Create(_) => "create".to_owned(),
            Step::Delete(pod) => format!("delete {}", pod.name),
            Step::Status(patch) => patch["status"].to_string(),
            Step::Transfer(transfer) => format!("transfer {}", transfer.target.name),
        })
        .collect()
}

fn decide(desired: &Desired, observed: &Observed) -> Vec<String> {
    let outcome = reconcile(desired, observed, now());
    check(desired, observed, &outcome).expect("holds");
    brief(&outcome)
}

#[test]
fn as_many_pods_as_wanted() {
    let settled = |n: i64| {
        json!({"replicas": n, "fullyLabeledReplicas": n, "readyReplicas": n, "availableReplicas": n,
            "observedGeneration": 1, "terminatingReplicas": 0})
    };
    let ready = |name: &str| pod(name, "Running", true);
    let check = |replicas, pods: Vec<Value>, status: Value, expected: &[&str]| {
        assert_eq!(decide(&desired(replicas), &observed(pods, status)), expected);
    };
    check(2, vec![ready("a"), ready("b")], settled(2), &[]);
    check(0, vec![], json!({"observedGeneration": 1, "replicas": 0}), &[]);
    check(2, vec![ready("a")], settled(1), &["create"]);
    check(
        1,
        vec![ready("b"), pod("a", "Pending", false), ready("c")],
        Value::Null,
        &[
            concat!(
                r#"{"availableReplicas":2,"fullyLabeledReplicas":3,"observedGeneration":1,"readyReplicas":2,"#,
                r#""replicas":3,"terminatingReplicas":0}"#
            ),
            "delete a",
            "delete b",
        ],
    );
    // A pod that has ended is replaced, and left where it is.
    check(1, vec![pod("a", "Failed", false)], json!({"observedGeneration": 1}), &["create"]);
}

#[test]
fn a_pod_being_deleted_is_replaced_and_counted_apart() {
    let mut leaving = pod("a", "Running", true);
    leaving.put(&["metadata", "deletionTimestamp"], "2026-11-30T12:00:00Z");
    let steps = decide(&desired(1), &observed(vec![leaving], json!({"observedGeneration": 1})));
    assert_eq!(steps, ["create", r#"{"replicas":0,"terminatingReplicas":1}"#]);
}

#[test]
fn a_successor_who_sees_the_first_of_two_new_pods_makes_the_second() {
    let ready = |name: &str| pod(name, "Running", true);
    let names = |pods: Vec<Value>| -> Vec<String> {
        let mut observed = observed(pods, Value::Null);
        observed.taken = observed.pods.iter().map(|pod| pod.name().to_owned()).collect();
        let outcome = reconcile(&desired(3), &observed, now());
        let made = outcome.steps.into_iter().filter_map(|step| match step {
            Step::Create(name) => Some(name),
            _ => None,
        });
        made.collect()
    };
    let both = names(vec![ready("old")]);
    assert_eq!(both.len(), 2);
    assert_eq!(names(vec![ready("old"), ready(&both[0])]), both[1..]);
    assert_ne!(names(vec![ready("other")])[0], both[0], "another decision");
}

#[test]
fn availability_takes_time_and_asks_for_a_wake_up() {
    let mut desired = desired(1);
    desired.min_ready_seconds = 10;
    let mut young = pod("a", "Running", true);
    young["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-30T11:59:55Z".into();
    let outcome = reconcile(&desired, &observed(vec![young], Value::Null), now());
    assert_eq!(outcome.wake, brain::Wake::At(Time::from_secs(now().as_secs() + 5)));
    assert!(!brief(&outcome)[0].contains("availableReplicas"));
}

#[test]
fn a_refusal_becomes_a_condition_and_goes_when_the_number_is_right() {
    let mut refused = observed(vec![], json!({"observedGeneration": 1}));
    let quota = r#"pods "web-x" is forbidden: exceeded quota"#;
    refused.refusal = Some(Refusal {
        verb: "create",
        resource: PODS,
        name: "web-x".into(),
        reason: "Forbidden".into(),
        message: quota.into(),
        at: now(),
    });
    let outcome = reconcile(&desired(1), &refused, now());
    let Step::Status(patch) = &outcome.steps[0] else { panic!("no status: {outcome:?}") };
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota,
        "lastTransitionTime": "2026-11-30T12:00:00Z"});
    assert_eq!(patch["status"]["conditions"], json!([condition]));
    assert_eq!(outcome.steps.len(), 2, "it tries again");
    assert_eq!(outcome.notes, [Why::CreateRefused(quota.into())]);
    // After a restart nothing is known of the refusal: the condition stays until the pod is there.
    let kept = json!({"observedGeneration": 1, "conditions": [condition]});
    assert_eq!(decide(&desired(1), &observed(vec![], kept.clone())), ["create"]);
    let steps = decide(&desired(1), &observed(vec![pod("a", "Pending", false)], kept));
    assert!(steps[0].contains(r#""conditions":null"#), "{steps:?}");
}

#[test]
fn a_selector_that_misses_its_template_makes_no_pods() {
    let mut desired = desired(3);
    desired.selector = selector(Some(&json!({"matchLabels": {"app": "other"}})));
    let outcome = reconcile(&desired, &observed(vec![], Value::Null), now());
    assert_eq!(outcome.notes, [Why::SelectorMismatch]);
    let Step::Status(patch) = &outcome.steps[..][0] else { panic!("no status") };
    let settled = reconcile(&desired, &observed(vec![], patch["status"].clone()), now());
    assert_eq!(settled, Outcome::rest());
}

#[test]
fn numbers_are_bounded() {
    let steps = decide(&desired(1_000_000), &observed(vec![], json!({"observedGeneration": 1})));
    assert_eq!(steps.len(), BURST_MAX);
}
