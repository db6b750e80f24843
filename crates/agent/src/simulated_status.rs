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

fn conditions(pod: &Value, ready: bool, now: Time) -> Value {
    let mut shown = json!({"status": {"conditions": pod.items(&["status", "conditions"])}});
    let status = |holds: bool| if holds { "True" } else { "False" };
    let reason = if ready { "" } else { "ContainersNotReady" };
    for (type_, holds, reason) in [
        ("PodReadyToStartContainers", true, ""),
        ("Initialized", true, ""),
        ("ContainersReady", ready, reason),
        ("Ready", ready, reason),
    ] {
        let condition = condition::Condition::new(type_, status(holds), reason, "");
        let generation = Some(pod.generation()).filter(|generation| *generation > 0);
        condition::set(&mut shown, condition::Condition { observed_generation: generation, ..condition }, now);
    }
    shown["status"]["conditions"].take()
}

fn statuses(pod: &Value, field: &str, state: &Value, ready: bool) -> Value {
    let one = |container: &Value| {
        let image = container.text(&["image"]);
        let (former, restarts) = former(pod, container.text(&["name"]));
        // A new image is a new container, except that what was never pulled never ran.
        let is_new = !former.is_empty() && former != image && !is_missing(former);
        json!({
            "name": container.text(&["name"]), "image": container.text(&["image"]),
            "imageID": format!("simulated://{}", container.text(&["image"])),
            "containerID": format!("simulated://{}/{}", pod.uid(), container.text(&["name"])),
            "ready": ready, "started": ready, "restartCount": restarts + i64::from(is_new), "state": state,
        })
    };
    pod.items(&["spec", field]).iter().map(one).collect()
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
        "phase": "Pending", "observedGeneration": pod.generation(), "startTime": now.to_rfc3339(), "hostIP": address(pod.text(&["spec", "nodeName"])),
        "conditions": conditions(pod, false, now), "containerStatuses": statuses(pod, "containers", &state, false),
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
        "conditions": conditions(pod, ready, now),
        "containerStatuses": statuses(pod, "containers", &state, ready),
    });
    if !pod.items(&["spec", "initContainers"]).is_empty() {
        status["initContainerStatuses"] = statuses(pod, "initContainers", &over, true);
    }
    status
}

/// All containers have ended.
pub(crate) fn ended(pod: &Value, exit_code: i64, now: Time) -> Value {
    let begun = started(pod).unwrap_or(now).to_rfc3339();
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    let state = json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": begun, "finishedAt": now.to_rfc3339(),
    }});
    json!({
        "phase": if exit_code == 0 { "Succeeded" } else { "Failed" }, "observedGeneration": pod.generation(),
        "conditions": conditions(pod, false, now),
        "containerStatuses": statuses(pod, "containers", &state, false),
    })
}

/// An address in 10.128.0.0/9 that follows from the pod's identity.
fn pod_address(pod: &Value) -> String {
    if pod.flag(&["spec", "hostNetwork"]) {
        return address(pod.text(&["spec", "nodeName"]));
    }
    let hash = pod.uid().bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("10.{}.{}.{}", 128 + ((hash >> 16) & 0x7f), (hash >> 8) & 0xff, 1 + (hash & 0xff) % 254)
}
