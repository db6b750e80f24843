//! The conditions that the node sets.

use meta::ObjectExt;
use meta::condition::{self, Condition};
use serde_json::Value;

use super::super::memory::Verdict;
use super::super::resizing;
use super::super::scene::{Past, Scene};
use super::super::spec::Role;
use super::super::step::Op;
use crate::resize;

/// A condition's status, reason and message.
type Said = (&'static str, &'static str, String);

/// Sets them on `next`, whose other fields say how the pod is.
pub(super) fn set_all(scene: &Scene<'_>, verdict: Option<&Verdict>, next: &mut Value) {
    let ready_to_start = match scene.sandbox() {
        Some(_) => ("True", "", String::new()),
        None => ("False", "", String::new()),
    };
    let containers = containers_ready(scene, next);
    let ready = pod_ready(scene, next, &containers);
    let all = [
        ("PodReadyToStartContainers", ready_to_start),
        ("Initialized", initialized(scene, next)),
        ("Ready", ready),
        ("ContainersReady", containers),
    ];
    for (type_, (status, reason, message)) in all {
        set(scene, next, type_, status, reason, message);
    }
    if let Some(verdict) = verdict.filter(|verdict| verdict.is_disruption) {
        set(scene, next, "DisruptionTarget", "True", "TerminationByKubelet", verdict.message.clone());
    }
    if condition::find(next, "PodScheduled").is_none() {
        set(scene, next, "PodScheduled", "True", "", String::new());
    }
    set_resizes(scene, next);
}

/// What becomes of other resources that were asked for. Not a word about readiness: the pod goes on with what it has.
fn set_resizes(scene: &Scene<'_>, next: &mut Value) {
    let is_over = finished(next).is_some();
    let pending = scene.memory.pending.as_ref().filter(|_| !is_over);
    let pending = pending.map(|(why, generation)| (why.reason.word(), why.message.clone(), *generation));
    set_or_remove(scene, next, resize::PENDING, pending);
    let in_progress = (!is_over && resizing::is_underway(scene)).then(|| {
        let generation = scene.memory.resized.unwrap_or_else(|| scene.pod.object.generation());
        match scene.memory.failures(&Op::Resize) {
            Some(failures) => ("Error", failures.last.message.clone(), generation),
            None => ("", String::new(), generation),
        }
    });
    set_or_remove(scene, next, resize::IN_PROGRESS, in_progress);
}

/// A reason, a message, and the generation that it is about.
type Resize = (&'static str, String, i64);

fn set_or_remove(scene: &Scene<'_>, next: &mut Value, type_: &str, said: Option<Resize>) {
    match said {
        Some((reason, message, generation)) => {
            let said = Condition::new(type_, "True", reason, message);
            let said = if generation > 0 { said.observed(generation) } else { said };
            condition::set(next, said, scene.now);
        }
        None => _ = condition::remove(next, type_),
    }
}

fn set(scene: &Scene<'_>, next: &mut Value, type_: &str, status: &str, reason: &str, message: String) {
    let said = Condition::new(type_, status, reason, message);
    let generation = scene.pod.object.generation();
    let said = if generation > 0 { said.observed(generation) } else { said };
    condition::set(next, said, scene.now);
}

fn finished(next: &Value) -> Option<Said> {
    match next.text(&["status", "phase"]) {
        "Succeeded" => Some(("False", "PodCompleted", String::new())),
        "Failed" => Some(("False", "PodFailed", String::new())),
        _ => None,
    }
}

fn initialized(scene: &Scene<'_>, next: &Value) -> Said {
    let yes = |reason| ("True", reason, String::new());
    if next.text(&["status", "phase"]) == "Succeeded" {
        return yes("PodCompleted");
    }
    let is_begun = scene.pod.mains().any(|main| !matches!(scene.past(&main), Past::Never));
    let statuses = next.items(&["status", "initContainerStatuses"]);
    let missing = |name: &str, sidecar: bool| match statuses.iter().find(|status| status.text(&["name"]) == name) {
        None => true,
        Some(status) if sidecar => !status.flag(&["started"]),
        Some(status) => !status.flag(&["ready"]),
    };
    let incomplete: Vec<&str> = scene
        .pod
        .inits()
        .filter(|init| missing(init.name(), init.role == Role::Sidecar))
        .map(|init| init.name())
        .collect();
    if incomplete.is_empty() || is_begun {
        return yes("");
    }
    ("False", "ContainersNotInitialized", format!("containers with incomplete status: [{}]", incomplete.join(" ")))
}

fn containers_ready(scene: &Scene<'_>, next: &Value) -> Said {
    if let Some(said) = finished(next) {
        return said;
    }
    let all = ["initContainerStatuses", "containerStatuses"].iter().flat_map(|list| next.items(&["status", list]));
    let statuses: Vec<&Value> = all.collect();
    let of = |name: &str| statuses.iter().find(|status| status.text(&["name"]) == name);
    let lasting: Vec<&str> = scene
        .pod
        .inits()
        .filter(|init| init.role == Role::Sidecar)
        .chain(scene.pod.mains())
        .map(|c| c.name())
        .collect();
    let unknown: Vec<&str> = lasting.iter().copied().filter(|name| of(name).is_none()).collect();
    let unready: Vec<&str> =
        lasting.iter().copied().filter(|name| of(name).is_some_and(|status| !status.flag(&["ready"]))).collect();
    let mut said = Vec::new();
    for (names, what) in [(unknown, "unknown"), (unready, "unready")] {
        if !names.is_empty() {
            said.push(format!("containers with {what} status: [{}]", names.join(" ")));
        }
    }
    match said.is_empty() {
        true => ("True", "", String::new()),
        false => ("False", "ContainersNotReady", said.join(", ")),
    }
}

/// Ready when its containers are and every readiness gate holds.
fn pod_ready(scene: &Scene<'_>, next: &Value, containers: &Said) -> Said {
    if containers.0 != "True" {
        return containers.clone();
    }
    let gate = |gate: &Value| {
        let type_ = gate.text(&["conditionType"]);
        match condition::status(next, type_) {
            "True" => None,
            "" => Some(format!("corresponding condition of pod readiness gate \"{type_}\" does not exist.")),
            status => Some(format!("the status of pod readiness gate \"{type_}\" is not \"True\", but {status}")),
        }
    };
    let unmet: Vec<String> = scene.pod.spec().items(&["readinessGates"]).iter().filter_map(gate).collect();
    match unmet.is_empty() {
        true => ("True", "", String::new()),
        false => ("False", "ReadinessGatesNotReady", unmet.join(", ")),
    }
}
