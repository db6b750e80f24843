//! The status of a simulated pod at each stage of its life.

use meta::{ObjectExt, condition};
use serde_json::{Value, json};
use stdx::Time;

use crate::simulated_node::address;

/// Whether an image's name says that there is no such image.
pub(crate) fn is_missing(image: &str) -> bool {
    const SAID: &[&str] = &["nonexistent", "non-existent", "missing"];
    image.ends_with(":404") || SAID.iter().any(|word| image.contains(word))
}

/// When the pod's containers began to run.
pub(crate) fn started(pod: &Value) -> Option<Time> {
    pod.items(&["status", "containerStatuses"])
        .iter()
        .find_map(|status| Time::parse(status.text(&["state", "running", "startedAt"])))
}

/// Whether a pod's containers are ready, and why not.
#[derive(Clone, Copy, PartialEq)]
enum Readiness {
    Ready,
    NotYet,
    Over { well: bool },
}

impl Readiness {
    fn of(ready: bool) -> Readiness {
        if ready { Readiness::Ready } else { Readiness::NotYet }
    }

    fn reason(self) -> &'static str {
        match self {
            Readiness::Ready => "",
            Readiness::NotYet => "ContainersNotReady",
            Readiness::Over { well: true } => "PodCompleted",
            Readiness::Over { well: false } => "PodFailed",
        }
    }
}

fn conditions(pod: &Value, readiness: Readiness, now: Time) -> Value {
    let mut shown = json!({"status": {"conditions": pod.items(&["status", "conditions"])}});
    let status = |holds: bool| if holds { "True" } else { "False" };
    let (ready, reason) = (readiness == Readiness::Ready, readiness.reason());
    let has_completed = readiness == Readiness::Over { well: true };
    for (type_, holds, reason) in [
        ("PodReadyToStartContainers", !matches!(readiness, Readiness::Over { .. }), ""),
        ("Initialized", true, if has_completed { reason } else { "" }),
        ("ContainersReady", ready, reason),
        ("Ready", ready, reason),
    ] {
        let condition = condition::Condition::new(type_, status(holds), reason, "");
        let generation = Some(pod.generation()).filter(|generation| *generation > 0);
        condition::set(&mut shown, condition::Condition { observed_generation: generation, ..condition }, now);
    }
    shown["status"]["conditions"].take()
}

/// Of the pod's own containers, all in one state.
fn statuses(pod: &Value, state: &Value, ready: bool) -> Value {
    pod.items(&["spec", "containers"]).iter().map(|container| status(pod, container, state, ready)).collect()
}

/// Of its init containers: sidecars go on, the others are over.
fn init_statuses(pod: &Value, running: &Value, over: &Value) -> Value {
    let one = |container: &Value| {
        let is_sidecar = container.text(&["restartPolicy"]) == "Always";
        status(pod, container, if is_sidecar { running } else { over }, true)
    };
    pod.items(&["spec", "initContainers"]).iter().map(one).collect()
}

fn status(pod: &Value, container: &Value, state: &Value, ready: bool) -> Value {
    let (name, image) = (container.text(&["name"]), container.text(&["image"]));
    let (former, restarts) = former(pod, name);
    // A new image is a new container, except that what was never pulled never ran.
    let is_new = !former.is_empty() && former != image && !is_missing(former);
    json!({
        "name": name, "image": image,
        "imageID": format!("simulated://{image}"), "containerID": format!("simulated://{}/{name}", pod.uid()),
        "ready": ready, "started": ready && state.get("running").is_some(),
        "restartCount": restarts + i64::from(is_new), "state": state,
    })
}

/// The image that a container ran so far, and how often it was restarted.
fn former<'p>(pod: &'p Value, name: &str) -> (&'p str, i64) {
    let statuses = pod.items(&["status", "containerStatuses"]).iter();
    let mine = statuses.into_iter().find(|status| status.text(&["name"]) == name);
    mine.map_or(("", 0), |status| (status.text(&["image"]), status.int(&["restartCount"]).unwrap_or(0)))
}

/// No image could be pulled.
pub(crate) fn waiting(pod: &Value, now: Time) -> Value {
    let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}});
    json!({
        "phase": "Pending", "observedGeneration": pod.generation(), "startTime": now.to_rfc3339(),
        "hostIP": address(pod.text(&["spec", "nodeName"])),
        "conditions": conditions(pod, Readiness::NotYet, now),
        "containerStatuses": statuses(pod, &state, false),
    })
}

/// All containers run, since `started`.
pub(crate) fn running(pod: &Value, started: Time, now: Time, ready: bool) -> Value {
    let state = json!({"running": {"startedAt": started.to_rfc3339()}});
    let over = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": started.to_rfc3339(), "finishedAt": started.to_rfc3339(),
    }});
    let (host, ip) = (address(pod.text(&["spec", "nodeName"])), pod_address(pod));
    let mut status = json!({
        "phase": "Running", "observedGeneration": pod.generation(), "startTime": started.to_rfc3339(),
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": conditions(pod, Readiness::of(ready), now),
        "containerStatuses": statuses(pod, &state, ready),
    });
    if !pod.items(&["spec", "initContainers"]).is_empty() {
        status["initContainerStatuses"] = init_statuses(pod, &state, &over);
    }
    status
}

/// All containers have ended.
pub(crate) fn ended(pod: &Value, exit_code: i64, now: Time) -> Value {
    let begun = started(pod).unwrap_or(now).to_rfc3339();
    let well = exit_code == 0;
    let state = json!({"terminated": {
        "exitCode": exit_code, "reason": if well { "Completed" } else { "Error" },
        "startedAt": begun, "finishedAt": now.to_rfc3339(),
    }});
    let mut status = json!({
        "phase": if well { "Succeeded" } else { "Failed" }, "observedGeneration": pod.generation(),
        "conditions": conditions(pod, Readiness::Over { well }, now),
        "containerStatuses": statuses(pod, &state, false),
    });
    if pod.items(&["spec", "initContainers"]).iter().any(|c| c.text(&["restartPolicy"]) == "Always") {
        // Sidecars are told to stop once the last container has ended, and stop as told.
        let stopped = json!({"terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": begun, "finishedAt": now.to_rfc3339(),
        }});
        status["initContainerStatuses"] = init_statuses(pod, &stopped, &stopped);
    }
    status
}

/// An address in 10.128.0.0/9 that follows from the pod's identity.
fn pod_address(pod: &Value) -> String {
    if pod.flag(&["spec", "hostNetwork"]) {
        return address(pod.text(&["spec", "nodeName"]));
    }
    let hash = pod.uid().bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("10.{}.{}.{}", 128 + ((hash >> 16) & 0x7f), (hash >> 8) & 0xff, 1 + (hash & 0xff) % 254)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"metadata": {"uid": "u", "generation": 3}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{"name": "first", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}],
        }})
    }

    fn states(status: &Value) -> Vec<(&str, &str, bool)> {
        let all = status.items(&["initContainerStatuses"]).iter().chain(status.items(&["containerStatuses"]));
        let state = |s: &Value| if s["state"].get("running").is_some() { "running" } else { "terminated" };
        all.map(|s| (s.text(&["name"]), state(s), s.flag(&["started"]))).collect()
    }

    #[test]
    fn sidecars_run_beside_the_containers() {
        let mut pod = pod();
        let now = Time::from_secs(5);
        pod["status"] = running(&pod, now, now, true);
        let beside = [("first", "terminated", false), ("side", "running", true), ("c", "running", true)];
        assert_eq!(states(&pod["status"]), beside);
        let over = ended(&pod, 0, now);
        assert!(states(&over).iter().all(|(_, state, started)| *state == "terminated" && !started));
    }

    #[test]
    fn conditions_say_why_a_pod_is_not_ready() {
        let check = |status: Value, expected: [(&str, &str); 4]| {
            let pod = json!({"status": status});
            let types = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
            let got = types.map(|type_| {
                let condition = condition::find(&pod, type_).unwrap();
                assert_eq!(condition["observedGeneration"], 3);
                (condition.text(&["status"]), condition.text(&["reason"]))
            });
            assert_eq!(got, expected);
        };
        let (pod, now) = (pod(), Time::from_secs(5));
        let not = |reason: &'static str| ("False", reason);
        check(running(&pod, now, now, true), [("True", ""); 4]);
        let unready = not("ContainersNotReady");
        check(running(&pod, now, now, false), [("True", ""), ("True", ""), unready, unready]);
        let completed = not("PodCompleted");
        check(ended(&pod, 0, now), [not(""), ("True", "PodCompleted"), completed, completed]);
        check(ended(&pod, 1, now), [not(""), ("True", ""), not("PodFailed"), not("PodFailed")]);
    }
}
