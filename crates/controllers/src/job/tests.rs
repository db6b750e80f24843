use super::*;
use crate::rig::World;
use brain::Controller;

fn world(spec: Value) -> World {
    let mut world = World::new([Controller::of::<JobController>()]);
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "namespace": "a", "uid": "job"},
        "spec": {"selector": {"matchLabels": {"job-name": "sum"}}, "template": {"metadata": {"labels": {"job-name": "sum"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}}});
    for (field, value) in spec.as_object().unwrap() {
        job.put(&["spec", field], value.clone());
    }
    world.put(COLLECTION, job);
    world
}

fn both(spec: Value) -> [World; 2] {
    [world(spec.clone()), world(spec).crashing()]
}

fn job(world: &World) -> Value {
    world.get(COLLECTION, "a", "sum").unwrap()
}

fn status(world: &World, field: &str) -> Value {
    job(world).at(&["status", field]).cloned().unwrap_or_default()
}

fn active(world: &World) -> Vec<Value> {
    let is_active =
        |pod: &Value| !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") && !pod.is_deleting();
    world.list(pods::COLLECTION).into_iter().filter(is_active).collect()
}

fn index_of(pod: &Value) -> i64 {
    pod.annotation(COMPLETION_INDEX).and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// Ends up to `count` active pods (of one index, if given) with this exit code.
fn finish(world: &mut World, count: usize, index: Option<i64>, code: i64) {
    let at = world.now.to_rfc3339();
    let pods = active(world).into_iter().filter(|pod| index.is_none_or(|index| index_of(pod) == index)).take(count);
    for pod in pods.collect::<Vec<_>>() {
        world.edit(pods::COLLECTION, "a", pod.name(), |pod| {
            pod.put(
                &["status"],
                json!({"phase": if code == 0 { "Succeeded" } else { "Failed" }, "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": at}}}]}),
            );
        });
    }
    world.follow();
}

fn conditions(world: &World) -> Vec<String> {
    let job = job(world);
    let all = job.items(&["status", "conditions"]).iter();
    all.filter(|c| c.text(&["status"]) == "True")
        .map(|c| format!("{} {}", c.text(&["type"]), c.text(&["reason"])))
        .collect()
}

fn held(world: &World) -> usize {
    world.list(pods::COLLECTION).iter().filter(|pod| pod.finalizers().any(|f| f == TRACKING)).count()
}

#[test]
fn pods_run_in_parallel_until_enough_have_succeeded() {
    for mut world in both(json!({"completions": 3, "parallelism": 2})) {
        world.settle();
        assert_eq!((active(&world).len(), status(&world, "active")), (2, json!(2)));
        assert_eq!(status(&world, "startTime"), json!(crate::rig::START.to_rfc3339()));
        assert_eq!(held(&world), 2);
        finish(&mut world, 1, None, 0);
        assert_eq!((active(&world).len(), status(&world, "succeeded")), (2, json!(1)));
        finish(&mut world, 2, None, 0);
        assert_eq!(status(&world, "succeeded"), json!(3));
        assert_eq!(status(&world, "active"), Value::Null);
        assert_eq!(conditions(&world), ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]);
        assert_eq!(status(&world, "uncountedTerminatedPods"), json!({}));
        assert_eq!((held(&world), world.names(pods::COLLECTION).len()), (0, 3));
        assert!(world.notes.contains(&"Completed: Job completed".to_owned()));
    }
}

#[test]
fn failures_are_tried_again_later_and_at_most_so_often() {
    for mut world in both(json!({"completions": 1, "backoffLimit": 2})) {
        world.settle();
        finish(&mut world, 1, None, 1);
        assert_eq!((active(&world).len(), status(&world, "failed")), (0, json!(1)));
        for wait in [10, 20] {
            world.advance(wait - 1);
            world.follow();
            assert_eq!(active(&world).len(), 0, "not before {wait} s");
            world.advance(1);
            world.follow();
            assert_eq!(active(&world).len(), 1);
            finish(&mut world, 1, None, 1);
        }
        assert_eq!(status(&world, "failed"), json!(3));
        assert_eq!(conditions(&world), ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]);
        assert_eq!(held(&world), 0);
    }
}

#[test]
fn an_end_waits_for_pods_that_still_run() {
    for mut world in both(json!({"completions": 5, "parallelism": 2, "activeDeadlineSeconds": 60})) {
        world.settle();
        for pod in active(&world) {
            world.edit(pods::COLLECTION, "a", pod.name(), |pod| {
                pod.put(&["spec", "nodeName"], "n1");
                pod.put(&["status"], json!({"phase": "Running"}));
            });
        }
        world.follow();
        world.advance(60);
        world.follow();
        assert_eq!(conditions(&world), ["FailureTarget DeadlineExceeded"]);
        assert_eq!((status(&world, "terminating"), status(&world, "failed")), (json!(2), json!(2)));
        for name in world.names(pods::COLLECTION) {
            world.remove(pods::COLLECTION, "a", name.trim_start_matches("a/"));
        }
        world.follow();
        assert_eq!(conditions(&world), ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]);
        assert!(world.notes.contains(&"DeadlineExceeded: Job was active longer than specified deadline".to_owned()));
    }
}

#[test]
fn each_index_succeeds_once() {
    for mut world in both(json!({"completions": 4, "parallelism": 2, "completionMode": "Indexed"})) {
        world.settle();
        assert_eq!(active(&world).iter().map(index_of).collect::<Vec<_>>(), [0, 1]);
        let pod = &active(&world)[1];
        assert_eq!(pod.label(COMPLETION_INDEX), Some("1"));
        assert_eq!(pod.text(&["spec", "hostname"]), "sum-1");
        assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
        assert!(pod.name().starts_with("sum-1-"));
        finish(&mut world, 1, Some(1), 0);
        assert_eq!(status(&world, "completedIndexes"), json!("1"));
        finish(&mut world, 2, None, 0);
        finish(&mut world, 2, None, 0);
        assert_eq!((status(&world, "completedIndexes"), status(&world, "succeeded")), (json!("0-3"), json!(4)));
        assert_eq!(conditions(&world), ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]);
    }
}

#[test]
fn indexes_fail_on_their_own() {
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    for mut world in both(spec) {
        world.settle();
        finish(&mut world, 1, Some(0), 1);
        assert_eq!(active(&world).len(), 1);
        assert_eq!(held(&world), 2, "the failed pod carries the count until its successor does");
        world.advance(10);
        world.follow();
        let second = active(&world).into_iter().find(|pod| index_of(pod) == 0).unwrap();
        assert_eq!(second.annotation(FAILURES), Some("1"));
        finish(&mut world, 1, Some(0), 1);
        assert_eq!((status(&world, "failedIndexes"), status(&world, "failed")), (json!("0"), json!(2)));
        finish(&mut world, 1, Some(1), 0);
        assert_eq!(conditions(&world), ["FailureTarget FailedIndexes", "Failed FailedIndexes"]);
        assert_eq!(status(&world, "completedIndexes"), json!("1"));
    }
}

#[test]
fn a_failure_policy_ignores_and_fails() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}}]});
    for mut world in both(json!({"completions": 1, "backoffLimit": 0, "podFailurePolicy": policy})) {
        world.settle();
        let name = active(&world)[0].name().to_owned();
        world.edit(pods::COLLECTION, "a", &name, |pod| {
            pod.put(
                &["status"],
                json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
            );
        });
        world.follow();
        assert_eq!(status(&world, "failed"), Value::Null);
        world.advance(10);
        world.follow();
        let second = active(&world)[0].name().to_owned();
        finish(&mut world, 1, None, 42);
        assert_eq!(conditions(&world), ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]);
        let message = condition::find(&job(&world), "Failed").unwrap().text(&["message"]).to_owned();
        let expected =
            format!("Container c for pod a/{second} failed with exit code 42 matching FailJob rule at index 1");
        assert_eq!(message, expected);
    }
}

#[test]
fn a_success_policy_ends_the_job_early() {
    let policy = json!({"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]});
    for mut world in
        both(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}))
    {
        world.settle();
        finish(&mut world, 1, Some(1), 0);
        assert_eq!(conditions(&world), Vec::<String>::new());
        finish(&mut world, 1, Some(2), 0);
        assert_eq!(conditions(&world), ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]);
        assert_eq!((status(&world, "completedIndexes"), status(&world, "failed")), (json!("1,2"), Value::Null));
        assert_eq!(world.names(pods::COLLECTION).len(), 2, "what still ran is deleted");
    }
}

#[test]
fn suspension_takes_the_pods_away_and_gives_them_back() {
    for mut world in both(json!({"completions": 2, "parallelism": 2, "suspend": true})) {
        world.settle();
        assert_eq!((active(&world).len(), status(&world, "startTime")), (0, Value::Null));
        assert_eq!(conditions(&world), ["Suspended JobSuspended"]);
        world.edit(COLLECTION, "a", "sum", |job| job.put(&["spec", "suspend"], false));
        world.follow();
        assert_eq!(active(&world).len(), 2);
        world.edit(COLLECTION, "a", "sum", |job| job.put(&["spec", "suspend"], true));
        world.follow();
        assert_eq!(active(&world).len(), 0);
        assert_eq!(conditions(&world), ["Suspended JobSuspended"]);
        assert!(world.notes.contains(&"Resumed: Job resumed".to_owned()));
    }
}

#[test]
fn deleted_pods_are_replaced_at_once_or_when_they_have_ended() {
    for (policy, expected) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let mut world = world(json!({"completions": 1, "podReplacementPolicy": policy}));
        world.settle();
        let name = active(&world)[0].name().to_owned();
        world.edit(pods::COLLECTION, "a", &name, |pod| pod.put(&["spec", "nodeName"], "n1"));
        world.delete(pods::COLLECTION, "a", &name, None);
        world.follow();
        world.advance(40);
        world.follow();
        assert_eq!(active(&world).len(), expected, "{policy}");
    }
}

#[test]
fn parallelism_goes_down_and_up() {
    let mut world = world(json!({"parallelism": 3}));
    world.settle();
    world.edit(COLLECTION, "a", "sum", |job| job.put(&["spec", "parallelism"], 1));
    world.follow();
    assert_eq!(active(&world).len(), 1);
    world.edit(COLLECTION, "a", "sum", |job| job.put(&["spec", "parallelism"], 2));
    world.advance(3_600);
    world.follow();
    assert_eq!(active(&world).len(), 2);
}

#[test]
fn pods_of_a_job_that_is_gone_are_let_go_of() {
    let mut world = world(json!({"parallelism": 2}));
    world.settle();
    world.remove(COLLECTION, "a", "sum");
    world.follow();
    assert_eq!(held(&world), 0);
}

#[test]
fn so_are_those_that_lost_their_owner_first() {
    let mut world = world(json!({"parallelism": 2}));
    world.settle();
    world.remove(COLLECTION, "a", "sum");
    for pod in world.names(pods::COLLECTION) {
        let name = pod.rsplit('/').next().unwrap().to_owned();
        world.edit(pods::COLLECTION, "a", &name, |pod| pod.put(&["metadata", "ownerReferences"], json!([])));
    }
    assert_eq!(held(&world), 2);
    // A controller that starts now has seen none of it.
    world.settle();
    assert_eq!(held(&world), 0);
}

#[test]
fn orphans_that_match_are_adopted_and_pods_that_do_not_are_released() {
    for mut world in both(json!({"completions": 4, "parallelism": 2})) {
        world.settle();
        let name = active(&world)[0].name().to_owned();
        let pod = |world: &World| world.get(pods::COLLECTION, "a", &name).unwrap();
        world.edit(pods::COLLECTION, "a", &name, |pod| {
            pod.remove(&["metadata", "ownerReferences"]);
            pod.remove(&["metadata", "finalizers"]);
        });
        world.settle();
        assert_eq!(pod(&world).owner_references()[0].text(&["uid"]), "job");
        assert_eq!((active(&world).len(), held(&world)), (2, 2), "adopted, not replaced");
        world.edit(pods::COLLECTION, "a", &name, |pod| drop(pod.remove(&["metadata", "labels"])));
        world.settle();
        assert_eq!(pod(&world).owner_references(), &[] as &[Value]);
        assert_eq!((active(&world).len(), held(&world)), (3, 2), "released and replaced");
    }
}

#[test]
fn a_pod_that_was_let_go_of_is_replaced_beside_it() {
    for spec in [json!({"parallelism": 1}), json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2})] {
        let mut world = world(spec);
        world.edit(COLLECTION, "a", "sum", |job| {
            job.put(&["spec", "selector"], json!({"matchLabels": {"job-name": "sum"}}));
        });
        world.settle();
        let before = world.names(pods::COLLECTION);
        let name = before[0].rsplit('/').next().unwrap().to_owned();
        world.edit(pods::COLLECTION, "a", &name, |pod| pod.put(&["metadata", "labels"], json!({"job-name": "other"})));
        world.follow();
        assert_eq!(world.names(pods::COLLECTION).len(), before.len() + 1);
        assert_eq!(world.follow(), Vec::<String>::new());
    }
}

#[test]
fn in_a_namespace_that_goes_nothing_is_made_or_held() {
    let spec = json!({"completionMode": "Indexed", "completions": 1, "parallelism": 1, "backoffLimitPerIndex": 3, "backoffLimit": 9});
    let mut world = world(spec);
    world.put("core/namespaces", json!({"metadata": {"name": "a", "finalizers": ["x.io/wait"]}}));
    world.settle();
    finish(&mut world, 1, None, 1);
    assert_eq!(held(&world), 1, "a failed pod of an index is held until its successor is made");
    world.delete("core/namespaces", "", "a", None);
    world.follow();
    assert_eq!((held(&world), active(&world).len()), (0, 0));
    world.advance(600);
    assert_eq!(world.follow(), Vec::<String>::new());
}

#[test]
fn a_foreign_job_is_left_alone() {
    let mut world = world(json!({"managedBy": "x.io/queue"}));
    assert_eq!(world.settle(), Vec::<String>::new());
}
