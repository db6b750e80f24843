//! # Contract
//! Owns the status of pods bound to simulated nodes, and their removal once deletion has begun. What a pod does is
//! chosen by its annotations, all under `simulated.setpoint.dev/`:
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `start-delay` | time from binding to running | `0s` |
//! | `ready-delay` | time from running to ready; `never` | `0s` |
//! | `finish-after` | time from running to the end | never; for pods that may end: as their programs would |
//! | `exit-code` | of every container at the end | as their programs would |
//! | `stop-delay` | time from the request to stop until the pod is gone | `2s`, or the grace period if that is less |
//! | `log` | what the log of its containers shows | what its program is known to write |
//! | `image` | `missing` as if no image could be pulled | by name: a tag `404`, or `missing` or `nonexistent` in it |
//!
//! Durations are Go's (`1m30s`). At rest when the pod is as its rules say.

use std::time::Duration;

use brain::{Action, Brain, Def, Note, Outcome, Patch, Resource, View, Watch};
use meta::{ObjectExt, condition, duration};
use serde_json::{Value, json};
use stdx::Time;
use store::{Event, Key};

use crate::simulated_node::SIMULATED;
use crate::simulated_program::Program;
use crate::simulated_status::{ended, is_missing, running, started, waiting};

const PODS: Resource = Resource::new("", "v1", "pods");
const PREFIX: &str = "simulated.setpoint.dev/";
/// The log of a container that has nothing else to say.
const NO_LOG: &str = "this pod is simulated: it runs no process and writes no log\n";

/// What the log of a container shows: what the pod's annotation says, or what its program is known to write.
pub fn log(pod: &Value, container: &str) -> String {
    if let Some(text) = pod.annotation(&format!("{PREFIX}log")) {
        return format!("{}\n", text.trim_end_matches('\n'));
    }
    let is_meant = |found: &&Value| found.text(&["name"]) == container;
    let lists = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(&["spec", list]));
    let written = lists.into_iter().find(is_meant).map_or("", Program::writes);
    if written.is_empty() { NO_LOG.to_owned() } else { written.to_owned() }
}
/// Pods woken by one change of a node: as many as a node holds by far.
const PODS_OF_NODE_MAX: usize = 10_000;

/// How long a stop takes unless the pod says otherwise. Requests have whole seconds, so it is one to two: what a kubelet
/// takes, and long enough for whoever asked to see the pod end.
const STOP: Duration = Duration::from_secs(2);
/// The exit code of what was asked to stop: 128 and SIGTERM.
const STOPPED: i64 = 143;

/// The brain. A plan plays the pods of every node, of real ones too.
pub struct Played<const EVERY_NODE: bool>;

/// The brain for the pods of simulated nodes.
pub type SimulatedPod = Played<false>;

/// What the pod's rules say.
pub struct Desired {
    pod: Value,
    rules: Rules,
}

/// Durations and outcomes, read from annotations.
#[derive(Debug, PartialEq)]
struct Rules {
    start_delay: Duration,
    ready_delay: Option<Duration>,
    finish_after: Option<Duration>,
    exit_code: i64,
    stop_delay: Duration,
    image_missing: bool,
}

/// How far the pod is.
pub struct Observed {
    stage: Stage,
    /// When it was bound, began to run, or was asked to stop, as its stage needs.
    since: Time,
    /// What its status says, and what it should say at its stage.
    is_ready: bool,
    gates_hold: bool,
    /// When its specification ends it.
    deadline: Option<Time>,
    /// Its specification changed since its status was written.
    is_behind: bool,
    /// It goes before its end, and somebody waits for it: then its status says first how it ended.
    ends_first: bool,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Bound,
    Waiting,
    Running,
    Ended,
    Stopping,
}

/// Every effect.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// The images cannot be pulled.
    Wait(Time),
    /// All containers run.
    Run {
        /// When.
        now: Time,
        /// Whether they are ready at once.
        ready: bool,
    },
    /// The containers' readiness changes.
    SetReady(Time),
    /// What runs is what the changed specification says.
    Follow(Time),
    /// All containers end.
    End(Time),
    /// All containers are stopped.
    Stop(Time),
    /// The pod was active for as long as it may.
    Expire(Time),
    /// The pod is gone.
    Remove,
}

impl<const EVERY_NODE: bool> Brain for Played<EVERY_NODE> {
    const DEF: Def = Def {
        name: "simulated-node",
        root: PODS,
        root_kind: "Pod",
        watches: &[
            Watch { collection: "core/pods", roots: own },
            Watch { collection: "core/nodes", roots: pods_of_node },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = std::convert::Infallible;

    fn observe(view: &View, key: &Key, now: Time) -> Option<(Desired, Observed)> {
        let pod = view.get_key(key)?.tree();
        let node = view.get("core/nodes", "", pod.text(&["spec", "nodeName"]))?;
        if !EVERY_NODE && !node.meta().labels.contains_key(SIMULATED) {
            return None;
        }
        let rules = Rules::of(&pod);
        let observed = Observed::of(&pod, now);
        Some((Desired { pod, rules }, observed))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Self::Why> {
        let rules = &desired.rules;
        let after = |span: Duration, step: Step| match observed.since.after(span) {
            due if due <= now => Outcome::rest().step(step),
            due => Outcome::rest().wake_at(due),
        };
        match observed.stage {
            Stage::Stopping if observed.ends_first => after(rules.stop_delay, Step::Stop(now)),
            Stage::Stopping => after(rules.stop_delay, Step::Remove),
            Stage::Ended => Outcome::rest(),
            Stage::Bound | Stage::Waiting if observed.deadline.is_some_and(|deadline| deadline <= now) => {
                Outcome::rest().step(Step::Expire(now))
            }
            Stage::Bound if rules.image_missing => Outcome::rest().step(Step::Wait(now)),
            Stage::Waiting if observed.is_behind && rules.image_missing => Outcome::rest().step(Step::Wait(now)),
            Stage::Waiting if !observed.is_behind => {
                observed.deadline.into_iter().fold(Outcome::rest(), Outcome::wake_at)
            }
            Stage::Bound | Stage::Waiting => {
                let ready = rules.ready_delay == Some(Duration::ZERO) && observed.gates_hold;
                after(rules.start_delay, Step::Run { now, ready })
            }
            Stage::Running => {
                let finish = rules.finish_after.map(|span| (observed.since.after(span), Step::End(now)));
                let expiry = observed.deadline.map(|deadline| (deadline, Step::Expire(now)));
                let Some((due, end)) = finish.into_iter().chain(expiry).min_by_key(|(due, _)| *due) else {
                    return live(rules, observed, now);
                };
                if due <= now { Outcome::rest().step(end) } else { live(rules, observed, now).wake_at(due) }
            }
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Self::Why>) -> Result<(), String> {
        match (observed.stage, outcome.steps.as_slice()) {
            (_, []) => Ok(()),
            (Stage::Ended, _) => Err("a pod that has ended does something".to_owned()),
            (Stage::Stopping, [Step::Remove | Step::Stop(_)]) => Ok(()),
            (Stage::Stopping, _) => Err("a pod that stops does something else".to_owned()),
            (_, [_]) => Ok(()),
            _ => Err("more than one step at a time".to_owned()),
        }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        let pod = &desired.pod;
        let patch = |status: Value| Action::Patch {
            resource: PODS,
            subresource: "status",
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            patch: Patch::Merge(json!({"status": status})),
        };
        match step {
            Step::Wait(now) => patch(waiting(pod, now)),
            Step::Run { now, ready } => patch(running(pod, now, now, ready)),
            Step::SetReady(now) => patch(running(pod, started(pod).unwrap_or(now), now, true)),
            Step::Follow(now) => {
                patch(running(pod, started(pod).unwrap_or(now), now, condition::is_true(pod, "Ready")))
            }
            Step::End(now) => patch(ended(pod, desired.rules.exit_code, now)),
            Step::Stop(now) => patch(ended(pod, STOPPED, now)),
            Step::Expire(now) => {
                let mut status = ended(pod, STOPPED, now);
                status["reason"] = json!("DeadlineExceeded");
                status["message"] = json!("Pod was active on the node longer than the specified deadline");
                patch(status)
            }
            Step::Remove => Action::Delete {
                resource: PODS,
                namespace: pod.namespace().to_owned(),
                name: pod.name().to_owned(),
                uid: pod.uid().to_owned(),
                revision: None,
                propagation: None,
                grace_seconds: Some(0),
            },
        }
    }

    fn explain(why: Self::Why) -> Note {
        match why {}
    }
}

/// What a pod does whose end has not come.
fn live(rules: &Rules, observed: &Observed, now: Time) -> Outcome<Step, std::convert::Infallible> {
    match rules.ready_delay.map(|delay| observed.since.after(delay)) {
        _ if observed.is_behind => Outcome::rest().step(Step::Follow(now)),
        Some(due) if !observed.is_ready && observed.gates_hold && due <= now => {
            Outcome::rest().step(Step::SetReady(now))
        }
        Some(due) if !observed.is_ready && observed.gates_hold => Outcome::rest().wake_at(due),
        _ => Outcome::rest(),
    }
}

fn own(_: &View, event: &Event) -> Vec<Key> {
    vec![event.key.clone()]
}

/// A node that comes into being or becomes simulated concerns the pods that wait for it.
fn pods_of_node(view: &View, event: &Event) -> Vec<Key> {
    let is_new = event.previous.is_none() && event.change != store::Change::Deleted;
    if !is_new {
        return Vec::new();
    }
    let on_it = |pod: &brain::Object| brain::facts::Pod::of(pod).spec.node_name.as_ref() == event.key.item.as_ref();
    view.list("core/pods", "").into_iter().filter(on_it).take(PODS_OF_NODE_MAX).map(|pod| pod.key).collect()
}

impl Rules {
    fn of(pod: &Value) -> Rules {
        let text = |name: &str| pod.annotation(&format!("{PREFIX}{name}"));
        let span = |name: &str| {
            let nanos = text(name).and_then(|text| duration::parse(text).ok())?;
            u64::try_from(nanos).ok().map(Duration::from_nanos)
        };
        // Only a pod that is not restarted for ever comes to an end by itself.
        let may_end = pod.text(&["spec", "restartPolicy"]) != "Always";
        let program =
            containers(pod).map(Program::of).reduce(Program::and).unwrap_or_else(|| Program::of(&Value::Null));
        Rules {
            start_delay: span("start-delay").unwrap_or_default(),
            ready_delay: if text("ready-delay") == Some("never") {
                None
            } else {
                Some(span("ready-delay").unwrap_or_default())
            },
            finish_after: span("finish-after").or_else(|| may_end.then_some(program.lasts).flatten()),
            exit_code: text("exit-code").and_then(|code| code.parse().ok()).unwrap_or(program.exit_code),
            stop_delay: span("stop-delay").unwrap_or_else(|| STOP.min(grace(pod))),
            image_missing: text("image") == Some("missing") || containers(pod).any(|c| is_missing(c.text(&["image"]))),
        }
    }
}

/// When a pod has been active for as long as it may.
fn active_deadline(pod: &Value) -> Option<Time> {
    let seconds = u64::try_from(pod.int(&["spec", "activeDeadlineSeconds"])?).ok()?;
    Some(Time::parse(pod.text(&["status", "startTime"]))?.after(Duration::from_secs(seconds)))
}

/// How long a pod that was asked to stop may take.
fn grace(pod: &Value) -> Duration {
    let seconds = pod.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.items(&["spec", "containers"]).iter()
}

impl Observed {
    fn of(pod: &Value, now: Time) -> Observed {
        let bound = condition::find(pod, "PodScheduled").and_then(|c| Time::parse(c.text(&["lastTransitionTime"])));
        let phase = pod.text(&["status", "phase"]);
        let (stage, since) = if let Some(deletion) = pod.deletion_timestamp() {
            let grace = pod.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            (Stage::Stopping, Time::from_secs(deletion.as_secs() - grace))
        } else if matches!(phase, "Succeeded" | "Failed") {
            (Stage::Ended, now)
        } else if phase == "Running" {
            (Stage::Running, started(pod).unwrap_or(now))
        } else if pod.items(&["status", "containerStatuses"]).is_empty() {
            (Stage::Bound, bound.unwrap_or(now))
        } else {
            (Stage::Waiting, bound.unwrap_or(now))
        };
        let gates = pod.items(&["spec", "readinessGates"]).iter();
        let gates_hold = gates.map(|gate| gate.text(&["conditionType"])).all(|type_| condition::is_true(pod, type_));
        let has_ended = matches!(phase, "Succeeded" | "Failed");
        let ends_first = stage == Stage::Stopping && !has_ended && pod.finalizers().next().is_some();
        let is_behind = pod.int(&["status", "observedGeneration"]).unwrap_or(0) < pod.generation();
        let deadline = active_deadline(pod);
        Observed {
            stage,
            since,
            deadline,
            is_ready: condition::is_true(pod, "Ready"),
            gates_hold,
            is_behind,
            ends_first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: Value, status: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations},
            "spec": {"nodeName": "simulated-0", "restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]},
            "status": status,
        })
    }

    fn steps(pod: &Value, now: i64) -> Vec<Step> {
        let now = Time::from_secs(now);
        let (rules, observed) = (Rules::of(pod), Observed::of(pod, now));
        SimulatedPod::reconcile(&Desired { pod: pod.clone(), rules }, &observed, now).steps
    }

    #[test]
    fn a_log_shows_what_is_said_or_known() {
        let check = |annotations: Value, image: &str, expected: &str| {
            let containers = json!([{"name": "c", "image": image}]);
            let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
            assert_eq!(log(&pod, "c"), expected);
        };
        check(json!({"simulated.setpoint.dev/log": "one\ntwo\n"}), "x/agnhost:2", "one\ntwo\n");
        check(json!({}), "x/agnhost:2", "Paused\n");
        check(json!({}), "nginx", NO_LOG);
    }

    #[test]
    fn a_bound_pod_runs_at_once_or_by_its_rules() {
        let scheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"},
        ]});
        let now = Time::from_secs(11);
        assert_eq!(steps(&pod(json!({}), scheduled.clone()), 11), [Step::Run { now, ready: true }]);
        let delayed = pod(json!({"simulated.setpoint.dev/start-delay": "5s"}), scheduled.clone());
        assert_eq!(steps(&delayed, 11), []);
        assert_eq!(steps(&delayed, 15), [Step::Run { now: Time::from_secs(15), ready: true }]);
        let missing = pod(json!({"simulated.setpoint.dev/image": "missing"}), scheduled);
        assert_eq!(steps(&missing, 11), [Step::Wait(now)]);
        for (image, expected) in
            [("foo:non-existent", true), ("x/nonexistent", true), ("httpd:404", true), ("i", false)]
        {
            assert_eq!(is_missing(image), expected, "{image}");
        }
    }

    #[test]
    fn what_is_performed_is_not_asked_again() {
        let mut running_pod = pod(json!({}), json!({}));
        running_pod["status"] = running(&running_pod, Time::from_secs(10), Time::from_secs(10), true);
        assert_eq!(steps(&running_pod, 100), []);
        running_pod["status"] = ended(&running_pod, 1, Time::from_secs(20));
        assert_eq!(steps(&running_pod, 100), []);
        assert_eq!(running_pod["status"]["phase"], "Failed");
    }

    #[test]
    fn a_pod_that_may_end_ends_by_its_rule_or_as_its_programs_would() {
        let check = |annotations: Value, container: Value, expected: Option<u64>, exit_code: i64| {
            let mut pod = pod(annotations, json!({}));
            pod["spec"]["containers"] = json!([{"name": "a", "image": "i"}, container]);
            assert_eq!(Rules::of(&pod).finish_after, None, "a pod that is restarted for ever never ends");
            pod["spec"]["restartPolicy"] = json!("OnFailure");
            let rules = Rules::of(&pod);
            assert_eq!((rules.finish_after, rules.exit_code), (expected.map(Duration::from_secs), exit_code));
        };
        check(json!({}), json!({"image": "i"}), Some(1), 0);
        check(json!({}), json!({"image": "i", "command": ["sleep", "300"]}), Some(300), 0);
        check(json!({}), json!({"image": "i", "command": ["sh", "-c", "exit 3"]}), Some(1), 3);
        check(json!({}), json!({"image": "registry.k8s.io/pause:3.10"}), None, 0);
    }

    #[test]
    fn a_running_pod_follows_its_specification() {
        let mut pod = pod(json!({}), json!({}));
        pod["metadata"]["generation"] = json!(1);
        pod["status"] = running(&pod, Time::from_secs(10), Time::from_secs(10), true);
        assert_eq!(steps(&pod, 100), []);
        pod["metadata"]["generation"] = json!(2);
        pod["spec"]["containers"][0]["image"] = json!("j");
        assert_eq!(steps(&pod, 100), [Step::Follow(Time::from_secs(100))]);
        pod["status"] = running(&pod, Time::from_secs(10), Time::from_secs(100), true);
        assert_eq!(steps(&pod, 100), []);
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!((&status["image"], &status["restartCount"]), (&json!("j"), &json!(1)));
        assert_eq!(condition::find(&pod, "Ready").unwrap()["observedGeneration"], json!(2));
    }

    #[test]
    fn a_pod_is_active_no_longer_than_it_may() {
        let mut pod = pod(json!({}), json!({}));
        pod["status"] = running(&pod, Time::from_secs(10), Time::from_secs(10), true);
        pod["spec"]["activeDeadlineSeconds"] = json!(5);
        assert_eq!(steps(&pod, 14), []);
        assert_eq!(steps(&pod, 15), [Step::Expire(Time::from_secs(15))]);
        pod["spec"]["restartPolicy"] = json!("Never");
        assert_eq!(steps(&pod, 12), [Step::End(Time::from_secs(12))]);
        pod["status"] = waiting(&pod, Time::from_secs(10));
        assert_eq!((steps(&pod, 14), steps(&pod, 15)), (vec![], vec![Step::Expire(Time::from_secs(15))]));
    }

    #[test]
    fn a_pod_without_image_starts_when_it_gets_one() {
        let mut pod = pod(json!({}), json!({}));
        pod["metadata"]["generation"] = json!(1);
        pod["spec"]["containers"][0]["image"] = json!("x:404");
        pod["status"] = waiting(&pod, Time::from_secs(10));
        assert_eq!(steps(&pod, 11), []);
        pod["metadata"]["generation"] = json!(2);
        assert_eq!(steps(&pod, 11), [Step::Wait(Time::from_secs(11))]);
        pod["spec"]["containers"][0]["image"] = json!("x:1");
        assert_eq!(steps(&pod, 11), [Step::Run { now: Time::from_secs(11), ready: true }]);
    }

    #[test]
    fn a_stop_takes_a_moment_and_no_longer_than_its_grace() {
        let check = |grace: Value, expected: u64| {
            let mut stopping = pod(json!({}), json!({"phase": "Running"}));
            stopping["metadata"]["deletionGracePeriodSeconds"] = grace;
            assert_eq!(Rules::of(&stopping).stop_delay, Duration::from_secs(expected));
        };
        check(json!(30), 2);
        check(json!(1), 1);
        check(json!(0), 0);
        check(json!(null), 0);
    }

    #[test]
    fn a_pod_that_is_to_stop_goes() {
        let mut stopping = pod(json!({"simulated.setpoint.dev/stop-delay": "3s"}), json!({"phase": "Running"}));
        stopping["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:40Z");
        stopping["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(steps(&stopping, 12), []);
        assert_eq!(steps(&stopping, 13), [Step::Remove]);
        stopping["metadata"]["finalizers"] = json!(["somebody/waits"]);
        let now = Time::from_secs(13);
        assert_eq!(steps(&stopping, 13), [Step::Stop(now)]);
        stopping["status"] = ended(&stopping, STOPPED, now);
        assert_eq!((steps(&stopping, 13), &stopping["status"]["phase"]), (vec![Step::Remove], &json!("Failed")));
    }
}
