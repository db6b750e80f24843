use super::*;
use crate::rig::{START, World};
use brain::Controller;

// START is 22:13:20 UTC; the next quarter is 100 seconds away.
fn world(spec: Value) -> World {
    let mut world = World::new([Controller::of::<CronJobController>()]);
    let mut object = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "a"},
        "spec": {"schedule": "*/15 * * * *", "jobTemplate": {"metadata": {"labels": {"app": "tick"}},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}}});
    for (field, value) in spec.as_object().unwrap() {
        object.put(&["spec", field], value.clone());
    }
    world.put(COLLECTION, object);
    world
}

fn end(world: &mut World, name: &str, condition: &str) {
    let at = world.now.to_rfc3339();
    world.edit(JOB_COLLECTION, "a", name, |job| {
        job.put(
            &["status"],
            json!({"startTime": at, "completionTime": at,
            "conditions": [{"type": condition, "status": "True"}]}),
        );
    });
}

fn jobs(world: &World) -> Vec<String> {
    world.names(JOB_COLLECTION).iter().map(|name| name.trim_start_matches("a/").to_owned()).collect()
}

fn name_at(seconds: u64) -> String {
    format!("tick-{}", (START.as_secs() + seconds as i64) / 60)
}

fn status(world: &World, field: &str) -> Value {
    world.get(COLLECTION, "a", "tick").unwrap().at(&["status", field]).cloned().unwrap_or_default()
}

#[test]
fn every_time_has_one_job() {
    for mut world in [world(json!({})), world(json!({})).crashing()] {
        world.settle();
        assert_eq!(jobs(&world), Vec::<String>::new());
        assert_eq!(world.next_wake(), Some(START.after(Duration::from_secs(100))));
        world.advance(100);
        world.follow();
        assert_eq!(jobs(&world), [name_at(100)]);
        let first = world.get(JOB_COLLECTION, "a", &name_at(100)).unwrap();
        assert_eq!(first.annotation(SCHEDULED_AT), Some("2023-11-14T22:15:00Z"));
        assert_eq!((first.label("app"), first.owner_references().len()), (Some("tick"), 1));
        assert_eq!(status(&world, "lastScheduleTime"), json!("2023-11-14T22:15:00Z"));
        assert_eq!(status(&world, "active")[0]["name"], json!(name_at(100)));
        end(&mut world, &name_at(100), "Complete");
        world.follow();
        assert_eq!(status(&world, "active"), Value::Null);
        assert_eq!(status(&world, "lastSuccessfulTime"), json!("2023-11-14T22:15:00Z"));
        world.advance(900);
        world.follow();
        assert_eq!(jobs(&world), [name_at(100), name_at(1_000)]);
    }
}

#[test]
fn only_the_latest_missed_time_is_made_up_for() {
    let mut world = world(json!({}));
    world.settle();
    world.advance(100 + 3 * 900 + 5);
    world.follow();
    assert_eq!(jobs(&world), [name_at(100 + 3 * 900)]);
    world.advance(200 * 900);
    world.follow();
    assert_eq!(jobs(&world).len(), 2);
    assert!(world.notes.iter().any(|note| note.starts_with("TooManyMissedTimes")));
}

#[test]
fn a_deadline_forgets_missed_times() {
    let mut world = world(json!({"startingDeadlineSeconds": 60}));
    world.settle();
    world.advance(100 + 61);
    world.follow();
    assert_eq!(jobs(&world), Vec::<String>::new());
    world.advance(900 - 61 + 59);
    world.follow();
    assert_eq!(jobs(&world), [name_at(1_000)]);
}

#[test]
fn concurrency_policies_differ() {
    for (policy, expected) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
        let mut world = world(json!({"concurrencyPolicy": policy}));
        world.settle();
        world.advance(100);
        world.follow();
        world.advance(900);
        world.follow();
        assert_eq!(jobs(&world).len(), expected, "{policy}");
        let newest = if policy == "Forbid" { 100 } else { 1_000 };
        assert_eq!(jobs(&world).last(), Some(&name_at(newest)));
        if policy == "Replace" {
            // The old one goes first, and is not called missing after.
            let old = world.notes.iter().position(|note| note.starts_with("SuccessfulDelete"));
            let new = world.notes.iter().rposition(|note| note.starts_with("SuccessfulCreate"));
            assert!(old.is_some() && old < new, "{:?}", world.notes);
            assert!(!world.notes.iter().any(|note| note.starts_with("MissingJob")), "{:?}", world.notes);
        }
        if policy == "Forbid" {
            assert!(world.notes.iter().any(|note| note.starts_with("JobAlreadyActive")));
            end(&mut world, &name_at(100), "Complete");
            world.follow();
            assert_eq!(jobs(&world).len(), 2, "the forbidden time is made up for when the other has ended");
        }
    }
}

#[test]
fn what_leaves_the_active_list_is_told() {
    let mut world = world(json!({}));
    world.settle();
    world.advance(100);
    world.follow();
    end(&mut world, &name_at(100), "Failed");
    world.follow();
    world.advance(900);
    world.follow();
    world.delete(JOB_COLLECTION, "a", &name_at(1_000), None);
    world.follow();
    let told: Vec<&String> = world.notes.iter().filter(|note| !note.starts_with("Successful")).collect();
    let completed = format!("SawCompletedJob: Saw completed job: {}, condition: Failed", name_at(100));
    assert_eq!(told, [&completed, &format!("MissingJob: Active job went missing: {}", name_at(1_000))]);
}

#[test]
fn history_is_limited() {
    for mut world in [
        world(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0})),
        world(json!({"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0})).crashing(),
    ] {
        world.settle();
        for round in 0..4_u64 {
            world.advance(if round == 0 { 100 } else { 900 });
            world.follow();
            let condition = if round == 1 { "Failed" } else { "Complete" };
            end(&mut world, &name_at(100 + round * 900), condition);
            world.follow();
        }
        assert_eq!(jobs(&world), [name_at(1_900), name_at(2_800)]);
    }
}

#[test]
fn suspended_and_unreadable_schedules_make_nothing() {
    for spec in [json!({"suspend": true}), json!({"schedule": "nonsense"})] {
        let mut world = world(spec);
        world.advance(5_000);
        assert_eq!(world.settle(), Vec::<String>::new());
    }
}

#[test]
fn zones_stand_in_the_annotation() {
    let mut world = world(json!({"timeZone": "Europe/Berlin", "schedule": "30 23 * * *"}));
    world.settle();
    world.advance(1_000);
    world.follow();
    let job = world.list(JOB_COLLECTION).remove(0);
    assert_eq!(job.annotation(SCHEDULED_AT), Some("2023-11-14T23:30:00+01:00"));
}
