use std::time::Duration;

use meta::ObjectExt;
use serde_json::{Value, json};

use super::testing::World;
use super::*;
use crate::resize::{self, Grant, Pending, Reason};

fn container(name: &str) -> Value {
    json!({"name": name, "image": "app"})
}

fn sidecar(name: &str) -> Value {
    json!({"name": name, "image": "side", "restartPolicy": "Always"})
}

fn one() -> World {
    World::new(json!({"restartPolicy": "Always", "containers": [container("app")]}))
}

fn later(world: &World, seconds: u64) -> Time {
    world.now.after(Duration::from_secs(seconds))
}

#[test]
fn a_pod_starts_and_comes_to_rest() {
    let mut world = one();
    world.run();
    assert_eq!((world.phase(), world.condition("Ready")), ("Running", "True"));
    assert_eq!(world.state("app"), "running");
    assert_eq!(world.object.text(&["status", "podIP"]), "10.0.0.1");
    assert_eq!(world.object.text(&["status", "hostIP"]), "192.0.2.1");
    let turn = world.turn();
    assert_eq!((turn.steps, turn.wake), (vec![], Wake::OnChange));
    assert!(world.notices.contains(&"Container started".to_owned()), "{:?}", world.notices);
    assert_eq!(world.log.iter().filter(|step| step.starts_with("Report")).count(), 3, "{:?}", world.log);
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [container("one"), sidecar("side"), container("two")],
        "containers": [container("app")],
    });
    let mut world = World::new(spec).ends_with("one", &[0]).ends_with("two", &[0]);
    world.run();
    let starts: Vec<&String> = world.log.iter().filter(|step| step.starts_with("Start")).collect();
    assert_eq!(starts, ["StartContainer one", "StartContainer side", "StartContainer two", "StartContainer app"]);
    assert_eq!((world.phase(), world.condition("Initialized")), ("Running", "True"));
    assert_eq!((world.state("one"), world.state("side")), ("Completed".into(), "running".into()));
    world.exit("app", 0);
    world.run();
    assert_eq!((world.phase(), world.state("side").as_str()), ("Succeeded", "Error"));
    assert!(world.shown.sandboxes.iter().all(|sandbox| !sandbox.is_ready));
    assert_eq!(world.turn().steps, []);
}

#[test]
fn how_a_pod_ends() {
    let check = |policy: &str, codes: &[i64], phase: &str, ready: &str| {
        let spec = json!({"restartPolicy": policy, "containers": [container("app"), container("other")]});
        let mut world = World::new(spec).ends_with("app", codes).ends_with("other", &[0]);
        world.run();
        assert_eq!((world.phase(), world.condition("Ready")), (phase, ready), "{policy} {codes:?}");
    };
    check("Never", &[0], "Succeeded", "False");
    check("Never", &[1], "Failed", "False");
    check("OnFailure", &[1, 0], "Succeeded", "False");
    check("OnFailure", &[1, 1], "Running", "False");
    check("Always", &[0, 0], "Running", "False");
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let spec = json!({"restartPolicy": "Never", "initContainers": [container("i")], "containers": [container("app")]});
    let mut world = World::new(spec).ends_with("i", &[3]);
    world.run();
    assert_eq!((world.phase(), world.state("i").as_str()), ("Failed", "Error"));
    assert_eq!(world.state("app"), "PodInitializing");
    assert!(!world.log.contains(&"StartContainer app".to_owned()));
}

#[test]
fn a_crash_loop_waits_longer_and_longer() {
    let mut world = one().ends_with("app", &[1]);
    let begun = world.now;
    world.run_until(later(&world, 200));
    let status = &world.object["status"]["containerStatuses"][0];
    assert_eq!(world.state("app"), "CrashLoopBackOff");
    assert_eq!(status.int(&["lastState", "terminated", "exitCode"]), Some(1));
    // At 0, 0, 10, 30, 70 and 150 seconds.
    assert_eq!(status.int(&["restartCount"]), Some(5), "{status}");
    assert_eq!(
        status.text(&["state", "waiting", "message"]),
        "back-off 2m40s restarting failed container=app pod=p_d(u)"
    );
    assert_eq!(world.now, begun.after(Duration::from_secs(150)));
    assert_eq!(world.shown.containers.len(), 2, "only the last two lives are kept");
    world.memory = Memory::default();
    assert_eq!(world.turn().wake, Wake::At(begun.after(Duration::from_secs(310))), "nothing of it was in memory only");
}

#[test]
fn an_image_that_is_not_there_is_tried_again() {
    let mut world = one();
    let failure = Failure { reason: "ErrImagePull".into(), message: "not found".into() };
    world.failing.insert("Pull app".into(), failure);
    world.run();
    assert_eq!((world.phase(), world.state("app").as_str()), ("Pending", "ErrImagePull"));
    world.run_until(later(&world, 5));
    assert_eq!(world.state("app"), "ImagePullBackOff");
    world.failing.clear();
    world.run_until(later(&world, 10));
    assert_eq!(world.phase(), "Running");
}

#[test]
fn probes_decide() {
    let mut spec = container("app");
    spec["startupProbe"] = json!({"failureThreshold": 3, "periodSeconds": 1, "tcpSocket": {"port": 1}});
    spec["livenessProbe"] = json!({"failureThreshold": 1, "periodSeconds": 5, "tcpSocket": {"port": 1}});
    spec["readinessProbe"] = json!({"failureThreshold": 1, "periodSeconds": 2, "tcpSocket": {"port": 1}});
    let mut world = World::new(json!({"restartPolicy": "Always", "containers": [spec]}));
    let failing = ProbeAnswer::Failure("refused".into());
    world.probes.insert(("app".into(), Kind::Startup), failing.clone());
    world.run();
    assert_eq!(
        (world.condition("Ready"), world.object["status"]["containerStatuses"][0].flag(&["started"])),
        ("False", false)
    );
    assert!(
        !world.log.contains(&"Probe app".to_owned())
            || world.notices.contains(&"Startup probe failed: refused".to_owned())
    );
    world.probes.clear();
    world.run_until(later(&world, 2));
    assert_eq!(world.condition("Ready"), "True");
    world.probes.insert(("app".into(), Kind::Readiness), failing.clone());
    world.run_until(later(&world, 2));
    assert_eq!(world.condition("Ready"), "False");
    world.probes.clear();
    world.probes.insert(("app".into(), Kind::Liveness), failing);
    world.run_until(later(&world, 5));
    assert_eq!(world.object["status"]["containerStatuses"][0].int(&["restartCount"]), Some(1));
    let said = "Container app failed liveness probe, will be restarted".to_owned();
    assert!(world.notices.contains(&said), "{:?}", world.notices);
}

#[test]
fn readiness_survives_a_restart_of_the_agent() {
    let mut spec = container("app");
    spec["readinessProbe"] = json!({"tcpSocket": {"port": 1}});
    let mut world = World::new(json!({"containers": [spec]}));
    world.run();
    assert_eq!(world.condition("Ready"), "True");
    world.memory = Memory::default();
    world.probes.insert(("app".into(), Kind::Readiness), ProbeAnswer::Failure("no".into()));
    world.run();
    assert_eq!(world.condition("Ready"), "True", "one failure of three");
}

#[test]
fn deletion_leaves_nothing() {
    let spec = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "initContainers": [sidecar("first"), sidecar("second")], "containers": [container("app")],
    });
    let mut world = World::new(spec);
    world.run();
    world.delete(30);
    world.log.clear();
    world.run();
    let stops: Vec<&String> = world.log.iter().filter(|step| step.starts_with("Stop")).collect();
    assert_eq!(stops, ["Stop app", "Stop second", "Stop first", "StopSandbox"]);
    assert!(world.is_clean() && !world.exists);
    assert_eq!(world.log.last().map(String::as_str), Some("Delete"));
    assert!(world.turn().is_over);
}

#[test]
fn a_hook_comes_before_the_signal() {
    let mut spec = container("app");
    spec["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 1}}, "postStart": {"exec": {"command": ["true"]}}});
    let mut world = World::new(json!({"containers": [spec]}));
    world.run();
    assert!(world.log.contains(&"PostStart app".to_owned()));
    assert_eq!(world.phase(), "Running");
    world.delete(30);
    world.log.clear();
    world.run();
    assert_eq!(&world.log[..3], ["PreStop app", "Stop app", "StopSandbox"].map(str::to_owned));
    assert!(!world.exists);
}

#[test]
fn time_is_over_at_the_deadline() {
    let mut world = World::new(json!({"activeDeadlineSeconds": 60, "containers": [container("app")]}));
    world.run_until(later(&world, 61));
    assert_eq!((world.phase(), world.object.text(&["status", "reason"])), ("Failed", "DeadlineExceeded"));
    assert!(world.shown.alive().next().is_none());
}

#[test]
fn a_pod_that_is_not_admitted_fails_without_a_trace() {
    let mut world = one();
    let message = "Pod was rejected: Node didn't have enough resource: cpu".to_owned();
    world.memory.condemn(Verdict { reason: "OutOfcpu".into(), message, ..Verdict::default() });
    world.run();
    assert_eq!((world.phase(), world.object.text(&["status", "reason"])), ("Failed", "OutOfcpu"));
    assert!(world.is_clean() && world.object.items(&["status", "containerStatuses"]).is_empty());
}

#[test]
fn a_lost_sandbox_is_replaced() {
    let mut world = one();
    world.run();
    world.exit("app", 137);
    world.shown.sandboxes[0].is_ready = false;
    world.run();
    assert_eq!((world.phase(), world.object.text(&["status", "podIP"])), ("Running", "10.0.0.2"));
    assert_eq!(world.object["status"]["containerStatuses"][0].int(&["restartCount"]), Some(1));
}

#[test]
fn a_machine_that_was_started_anew_counts_on() {
    let mut world = one();
    world.run();
    (world.shown, world.memory) = (Shown::default(), Memory::default());
    world.run();
    let status = &world.object["status"]["containerStatuses"][0];
    assert_eq!((world.phase(), status.int(&["restartCount"])), ("Running", Some(1)));
    assert_eq!(status.text(&["lastState", "terminated", "reason"]), "ContainerStatusUnknown");
}

fn worlds() -> Vec<World> {
    let mut hooked = container("app");
    hooked["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 1}}, "postStart": {"exec": {"command": ["true"]}}});
    hooked["readinessProbe"] = json!({"tcpSocket": {"port": 1}});
    let full = json!({
        "restartPolicy": "Always",
        "initContainers": [container("one"), sidecar("side"), container("two")],
        "containers": [hooked, container("other")],
    });
    let job = json!({"restartPolicy": "OnFailure", "containers": [container("app")]});
    vec![
        one(),
        World::new(full).ends_with("one", &[0]).ends_with("two", &[0]),
        World::new(job).ends_with("app", &[1, 0]),
    ]
}

/// The agent is restarted, or everything that runs is killed, after each step in turn; it ends as if nothing had been.
#[test]
fn whatever_happens_after_whichever_step_it_ends_well() {
    for kind in 0..worlds().len() {
        let make = || worlds().remove(kind);
        let mut plain = make();
        plain.run_until(later(&plain, 100));
        for at in 1..=plain.performed {
            for kills in [false, true] {
                let mut world = make();
                match kills {
                    true => world.kill_after = Some(at),
                    false => world.crash_after = Some(at),
                }
                world.run_until(later(&world, 100));
                assert_eq!(world.phase(), plain.phase(), "{kind} {at} {kills}: {:?}", world.log);
                assert_eq!(world.condition("Ready"), plain.condition("Ready"), "{kind} {at} {kills}: {:?}", world.log);
                let names = |world: &World| {
                    let mut names: Vec<String> = world.shown.alive().map(|life| life.name.clone()).collect();
                    names.sort();
                    names
                };
                assert_eq!(names(&world), names(&plain), "{kind} {at} {kills}");
            }
        }
    }
}

#[test]
fn whatever_happens_during_deletion_nothing_is_left() {
    for kind in 0..worlds().len() {
        for begun in (0..30).step_by(2) {
            for at in [0, 1, 2, 3, 5, 8] {
                let mut world = worlds().remove(kind);
                // Deletion comes after so many steps of the start.
                world.crash_after = Some(begun + at);
                for _ in 0..begun {
                    let decided = world.turn();
                    let Some(step) = decided.steps.first().cloned() else { break };
                    world.take_one(&step);
                }
                world.delete(5);
                world.run_until(later(&world, 60));
                assert!(!world.exists && world.is_clean(), "{kind} {begun} {at}: {:?}", world.log);
            }
        }
    }
}

#[test]
fn an_evicted_pod_leaves_nothing_but_what_its_status_says() {
    let mut world = one();
    world.run();
    let verdict = Verdict {
        reason: "Evicted".to_owned(),
        message: "The node was low on resource: memory. ".to_owned(),
        is_disruption: true,
        grace: Some(Duration::from_secs(1)),
    };
    world.memory.condemn(verdict);
    let stop = world.turn().steps.into_iter().find(|step| matches!(step, Step::Stop { .. })).expect("it is stopped");
    assert!(matches!(stop, Step::Stop { grace, .. } if grace < Duration::from_secs(30)));
    world.run_until(later(&world, 60));
    let status = |field: &str| world.object.text(&["status", field]).to_owned();
    assert_eq!((status("phase"), status("reason")), ("Failed".to_owned(), "Evicted".to_owned()));
    assert_eq!(status("message"), "The node was low on resource: memory. ");
    let disruption = meta::condition::find(&world.object, "DisruptionTarget").expect("a condition");
    assert_eq!((disruption.text(&["status"]), disruption.text(&["reason"])), ("True", "TerminationByKubelet"));
    assert_eq!(world.state("app"), "Error");
    assert!(world.is_clean(), "{:?}", world.shown);
    assert_eq!(world.turn().steps, []);
    // The agent has forgotten all of it: the status stays.
    world.memory = Memory::default();
    world.run_until(later(&world, 60));
    assert_eq!((world.phase(), world.state("app").as_str()), ("Failed", "Error"));
}

#[test]
fn what_has_ended_makes_room_when_the_disk_is_short() {
    let spec = json!({"restartPolicy": "Never", "containers": [container("app")]});
    let mut ended = World::new(spec).ends_with("app", &[3]);
    ended.run_until(later(&ended, 60));
    assert_eq!((ended.phase(), ended.shown.containers.len()), ("Failed", 1));
    ended.is_short_of_disk = true;
    ended.run_until(later(&ended, 60));
    assert!(ended.is_clean(), "{:?}", ended.shown);
    assert_eq!((ended.phase(), ended.state("app").as_str()), ("Failed", "Error"));

    let mut restarted = one().ends_with("app", &[1, 1, 1]);
    restarted.run_until(later(&restarted, 15));
    assert_eq!(restarted.shown.containers.len(), 2);
    let restarts = |world: &World| Pod::new(&world.object).status_of("app").and_then(|s| s.int(&["restartCount"]));
    let before = restarts(&restarted);
    restarted.is_short_of_disk = true;
    restarted.run();
    assert_eq!(restarted.shown.containers.len(), 1, "{:?}", restarted.shown);
    assert_eq!(restarts(&restarted), before);
}

#[test]
fn an_image_that_was_removed_meanwhile_is_looked_for_anew() {
    let mut world = one();
    let gone = Failure { reason: "CreateContainerError".to_owned(), message: "image \"app\" is gone".to_owned() };
    world.failing.insert("CreateContainer app".to_owned(), gone);
    world.run();
    world.failing.clear();
    world.run_until(later(&world, 30));
    assert_eq!(world.state("app"), "running");
    assert_eq!(world.log.iter().filter(|step| *step == "Pull app").count(), 2, "{:?}", world.log);
}

/// A running pod whose spec now asks for more.
fn resized(policy: &str) -> World {
    let app = json!({
        "name": "app", "image": "app", "resources": {"requests": {"cpu": "1"}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": policy}],
    });
    let mut world = World::new(json!({"restartPolicy": "Always", "containers": [app]}));
    world.memory.admit(Grant::of(&world.object));
    world.run();
    world.notices.clear();
    world.object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    world.object["metadata"]["generation"] = json!(2);
    world
}

/// What the status says of the container's requests: granted and given.
fn requests(world: &World) -> (String, String) {
    let status = Pod::new(&world.object).status_of("app").cloned().unwrap_or_default();
    let text = |path: &[&str]| status.text(path).to_owned();
    (text(&["allocatedResources", "cpu"]), text(&["resources", "requests", "cpu"]))
}

#[test]
fn a_resize_waits_and_is_performed_once_it_is_granted() {
    let mut world = resized("NotRequired");
    let why = Pending { reason: Reason::Deferred, message: "no room".to_owned() };
    assert!(world.memory.hold_resize(&world.object, why.clone()).is_some());
    assert_eq!(world.memory.hold_resize(&world.object, why), None);
    world.run();
    let pending = meta::condition::find(&world.object, resize::PENDING).cloned().expect("a condition");
    let said = (pending.text(&["reason"]), pending.text(&["message"]), pending.int(&["observedGeneration"]));
    assert_eq!(said, ("Deferred", "no room", Some(2)));
    assert_eq!(requests(&world), ("1".to_owned(), "1".to_owned()));
    assert_eq!((world.condition("Ready"), world.condition(resize::IN_PROGRESS)), ("True", ""));

    let id = world.shown.containers[0].id.clone();
    world.memory.grant_resize(&world.object.clone());
    // At the same time it is said to be under way.
    let report = world.turn().steps.into_iter().find_map(|step| match step {
        Step::Report { patch } => Some(patch.to_string()),
        _ => None,
    });
    assert!(report.is_some_and(|patch| patch.contains(resize::IN_PROGRESS)));
    world.run();
    assert_eq!((world.condition(resize::PENDING), world.condition(resize::IN_PROGRESS)), ("", ""));
    assert_eq!(requests(&world), ("2".to_owned(), "2".to_owned()));
    assert_eq!((world.shown.containers.len(), &world.shown.containers[0].id), (1, &id));
    let completed = world.notices.iter().filter(|notice| notice.starts_with("Pod resize completed")).count();
    assert_eq!(completed, 1, "{:?}", world.notices);
    assert_eq!(world.turn().steps, []);
}

#[test]
fn a_resize_that_cannot_be_performed_says_why_and_goes_on_trying() {
    let mut world = resized("NotRequired");
    let failure = Failure { reason: String::new(), message: "cannot decrease memory limits".to_owned() };
    world.failing.insert("Resize".to_owned(), failure);
    world.memory.grant_resize(&world.object.clone());
    world.run_until(later(&world, 30));
    let in_progress = meta::condition::find(&world.object, resize::IN_PROGRESS).cloned().expect("a condition");
    assert_eq!(in_progress.text(&["reason"]), "Error");
    assert_eq!(in_progress.text(&["message"]), "cannot decrease memory limits");
    assert_eq!(requests(&world), ("2".to_owned(), "1".to_owned()));
    assert_eq!(world.notices.iter().filter(|notice| notice.starts_with("Pod resize error")).count(), 1);
    world.failing.clear();
    world.run_until(later(&world, 30));
    assert_eq!((world.condition(resize::IN_PROGRESS), requests(&world).1.as_str()), ("", "2"));
}

#[test]
fn a_container_that_asks_for_it_is_restarted_to_be_resized() {
    let mut world = resized("RestartContainer");
    world.memory.grant_resize(&world.object.clone());
    world.run_until(later(&world, 30));
    assert!(world.notices.iter().any(|notice| notice.contains("resize requires restart")), "{:?}", world.notices);
    let status = Pod::new(&world.object).status_of("app").cloned().unwrap_or_default();
    assert_eq!((status.int(&["restartCount"]), world.state("app").as_str()), (Some(1), "running"));
    assert_eq!((world.condition(resize::IN_PROGRESS), requests(&world).1.as_str()), ("", "2"));
}

/// Words of the steps of a turn.
fn words(world: &World) -> Vec<String> {
    let word = |step: &Step| format!("{step:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
    world.turn().steps.iter().map(word).collect()
}

#[test]
fn what_needs_a_runtime_that_is_silent_waits_for_it() {
    let probe = json!({"httpGet": {"port": 80}, "failureThreshold": 1});
    let probed = json!({"name": "app", "image": "app", "readinessProbe": probe, "livenessProbe": probe,
        "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}});
    let spec = |container: Value| json!({"restartPolicy": "Always", "containers": [container]});
    let running = |sight: Sight| {
        let mut world = World::new(spec(probed.clone()));
        world.run();
        world.sight = sight;
        world
    };
    for sight in [Sight::Old, Sight::Clouded] {
        // A new pod gets its volumes, and says that it waits.
        let mut world = one();
        world.sight = sight;
        world.run();
        assert_eq!((world.phase(), world.condition("Ready")), ("Pending", "False"), "{sight:?}");
        assert!(world.log.iter().all(|step| step == "Mount" || step == "Report"), "{:?}", world.log);
        world.sight = Sight::Clear;
        world.run();
        assert_eq!((world.phase(), world.state("app").as_str()), ("Running", "running"), "{sight:?}");

        // Probes go on and are told of; what follows for the container waits, and nothing is said that is not done.
        let mut world = running(sight);
        let failure = ProbeAnswer::Failure("no".to_owned());
        world.probes = [Kind::Readiness, Kind::Liveness].map(|kind| (("app".to_owned(), kind), failure.clone())).into();
        world.run_until(later(&world, 30));
        assert_eq!((world.condition("Ready"), world.state("app").as_str()), ("False", "running"), "{sight:?}");
        assert!(!world.notices.iter().any(|notice| notice.contains("will be restarted")), "{:?}", world.notices);
        world.probes.clear();
        world.sight = Sight::Clear;
        world.run();
        assert!(world.notices.iter().any(|notice| notice.contains("will be restarted")), "{:?}", world.notices);

        // One that is deleted stays as long as something of it may be there.
        let mut world = running(sight);
        world.delete(30);
        world.run_until(later(&world, 100));
        assert!(world.exists && world.shown.alive().count() == 1, "{sight:?}");
        world.sight = Sight::Clear;
        world.run();
        assert!(!world.exists && world.is_clean(), "{sight:?}");
    }
}

#[test]
fn a_pod_goes_only_if_nothing_of_it_can_be_there() {
    let check = |sight: Sight, is_gone: bool, expected: &[&str], is_over: bool| {
        let mut world = one();
        world.sight = sight;
        world.run();
        match is_gone {
            true => world.exists = false,
            false => world.delete(30),
        }
        let first = words(&world);
        world.memory.is_unmounted = true;
        assert_eq!(
            (first.iter().map(String::as_str).collect::<Vec<_>>(), world.turn().is_over),
            (expected.to_vec(), is_over)
        );
        world.run();
        assert_eq!(world.exists, !is_gone && sight == Sight::Clouded, "{sight:?}");
    };
    check(Sight::Old, false, &["Unmount", "Report"], false);
    check(Sight::Old, true, &["Unmount"], true);
    check(Sight::Clouded, false, &[], false);
    check(Sight::Clouded, true, &[], false);
}

#[test]
fn what_the_runtime_does_not_show_yet_is_not_made_again() {
    let mut world = one();
    let lives = |world: &World| world.log.iter().filter(|step| step.starts_with("Create")).count();
    for _ in 0..2 {
        // What was made is not shown, but that something was is known.
        let shown = world.shown.clone();
        world.run();
        let before = lives(&world);
        let made = std::mem::replace(&mut world.shown, shown);
        world.sight = Sight::Clouded;
        world.run_until(later(&world, 100));
        assert_eq!(lives(&world), before);
        (world.shown, world.sight) = (made, Sight::Clear);
        world.exit("app", 1);
        world.now = later(&world, 20);
    }
    world.run();
    assert_eq!((world.shown.sandboxes.len(), world.shown.latest("app").map(|life| life.attempt)), (1, Some(2)));
}
