//! The status of one container.

use meta::{ObjectExt, duration};
use serde_json::{Map, Value, json};

use super::super::backoff::{self, PULL_ERROR_SHOWN};
use super::super::launch;
use super::super::scene::{Ending, KILLED, Past, Scene};
use super::super::shown::{Container as Life, Exit, State};
use super::super::spec::{Container, Role};
use super::super::step::Op;
use super::container_id;

/// What the status of `container` should be.
pub(super) fn status(scene: &Scene<'_>, ending: Option<&Ending>, container: &Container<'_>) -> Value {
    let past = scene.past(container);
    let (state, last) = states(scene, ending, container, &past);
    let life = life_of(&past);
    let told = scene.pod.status_of(container.name());
    let attempt = match past {
        Past::Never => 0,
        Past::There(life) => life.attempt,
        Past::Over { attempt, .. } => attempt,
    };
    let is_running = state.get("running").is_some();
    let ready = match container.role {
        Role::Init => state.int(&["terminated", "exitCode"]) == Some(0),
        _ => is_running && life.is_some_and(|life| scene.is_ready(container, life)),
    };
    let kept = |field: &str| told.map_or("", |told| told.text(&[field])).to_owned();
    let mut status = json!({
        "name": container.name(), "image": container.image(),
        "imageID": life.map_or_else(|| kept("imageID"), |life| life.image_id.clone()),
        "ready": ready, "started": is_running && life.is_some_and(|life| scene.has_started(container, life)),
        "restartCount": attempt, "state": state, "lastState": last,
    });
    let id = life.map_or_else(|| kept("containerID"), |life| container_id(scene.here, &life.id));
    if !id.is_empty() {
        status.put(&["containerID"], id);
    }
    resources(container, life, &mut status);
    mounts(container, &mut status);
    status
}

/// The life that the status speaks of. One that was never started is not worth a write.
fn life_of<'a>(past: &Past<'a>) -> Option<&'a Life> {
    match past {
        Past::There(life) if life.state == State::Created => None,
        Past::There(life) => Some(*life),
        Past::Over { life, .. } => *life,
        Past::Never => None,
    }
}

/// Its state, and the state before.
fn states(scene: &Scene<'_>, ending: Option<&Ending>, container: &Container<'_>, past: &Past<'_>) -> (Value, Value) {
    let earlier = || earlier(scene, container);
    match past {
        Past::There(life) => match life.state {
            State::Running { started } if !scene.is_hooked(life) => {
                (json!({"running": {"startedAt": started.to_rfc3339()}}), earlier())
            }
            _ => (waiting(scene, container, Some(life)), earlier()),
        },
        Past::Over { life: Some(life), code, .. } => {
            let over = life.exit().map_or_else(|| json!({}), |exit| terminated(scene, life, exit));
            match ending.is_none() && scene.restarts(container, *code) {
                true => restarting(scene, container, over, earlier()),
                false => (over, earlier()),
            }
        }
        Past::Over { life: None, code, .. } => forgotten(scene, ending, container, *code),
        Past::Never if ending.is_some() && was_initialized(scene) => (lost("terminated"), json!({})),
        Past::Never => (waiting(scene, container, None), json!({})),
    }
}

/// How the life before ended.
fn earlier(scene: &Scene<'_>, container: &Container<'_>) -> Value {
    match scene.shown.previous_exit(container.name()) {
        Some((life, exit)) => terminated(scene, life, exit),
        // The runtime has forgotten; the API has not.
        None => told_earlier(scene, container).cloned().unwrap_or_else(|| json!({})),
    }
}

/// What the API says of the life before. One life later, what was its state is its last state.
fn told_earlier<'a>(scene: &Scene<'a>, container: &Container<'_>) -> Option<&'a Value> {
    let told = scene.pod.status_of(container.name())?;
    let attempt = scene.shown.latest(container.name()).map(|life| i64::from(life.attempt));
    let fields = if told.int(&["restartCount"]) == attempt { &["lastState"][..] } else { &["state", "lastState"] };
    fields.iter().filter_map(|field| told.get(*field)).find(|state| state.get("terminated").is_some())
}

/// A container that has ended and is to be started again.
fn restarting(scene: &Scene<'_>, container: &Container<'_>, over: Value, earlier: Value) -> (Value, Value) {
    if let Some((crash, finished)) = launch::crash_of(scene, container)
        && finished.after(crash.wait) > scene.now
    {
        let wait = duration::format(i64::try_from(crash.wait.as_nanos()).unwrap_or(i64::MAX));
        let pod = scene.pod.full_name();
        let message = format!("back-off {wait} restarting failed container={} pod={pod}", container.name());
        return (json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}), over);
    }
    match trouble(scene, container, None) {
        Some(waiting) => (waiting, over),
        None => (over, earlier),
    }
}

fn terminated(scene: &Scene<'_>, life: &Life, exit: &Exit) -> Value {
    let reason = match (exit.reason.as_str(), exit.code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (reason, _) => reason,
    };
    let mut over = Map::new();
    over.insert("exitCode".to_owned(), exit.code.into());
    over.insert("reason".to_owned(), reason.into());
    if !exit.message.is_empty() {
        over.insert("message".to_owned(), exit.message.as_str().into());
    }
    if let Some(started) = exit.started {
        over.insert("startedAt".to_owned(), started.to_rfc3339().into());
    }
    over.insert("finishedAt".to_owned(), exit.finished.to_rfc3339().into());
    over.insert("containerID".to_owned(), container_id(scene.here, &life.id).into());
    json!({ "terminated": over })
}

/// A container that the API knows of and the runtime does not.
fn forgotten(scene: &Scene<'_>, ending: Option<&Ending>, container: &Container<'_>, code: i64) -> (Value, Value) {
    let told = scene.pod.status_of(container.name());
    let over = told.and_then(|told| told.get("state")).filter(|state| state.get("terminated").is_some());
    let over = over.cloned().unwrap_or_else(|| lost("deleted"));
    match ending.is_none() && scene.restarts(container, code) {
        true => (waiting(scene, container, None), over),
        false => (over, told.and_then(|told| told.get("lastState")).cloned().unwrap_or_else(|| json!({}))),
    }
}

fn lost(when: &str) -> Value {
    let message = match when {
        "deleted" => {
            "The container could not be located when the pod was deleted.  The container used to be Running".to_owned()
        }
        when => format!("The container could not be located when the pod was {when}"),
    };
    json!({"terminated": {"exitCode": KILLED, "reason": "ContainerStatusUnknown", "message": message}})
}

fn was_initialized(scene: &Scene<'_>) -> bool {
    scene.pod.mains().any(|main| !matches!(scene.past(&main), Past::Never))
}

fn waiting(scene: &Scene<'_>, container: &Container<'_>, life: Option<&Life>) -> Value {
    let has_inits = scene.pod.inits().next().is_some();
    let usual = if has_inits { "PodInitializing" } else { "ContainerCreating" };
    trouble(scene, container, life).unwrap_or_else(|| json!({"waiting": {"reason": usual}}))
}

/// Why it cannot be started.
fn trouble(scene: &Scene<'_>, container: &Container<'_>, life: Option<&Life>) -> Option<Value> {
    let shown = |reason: &str, message: &str| match message {
        "" => json!({"waiting": {"reason": reason}}),
        message => json!({"waiting": {"reason": reason, "message": message}}),
    };
    let name = container.name().to_owned();
    let start = life.and_then(|life| scene.memory.failures(&Op::StartContainer(life.id.clone())));
    let or = |reason: &str, usual: &'static str| if reason.is_empty() { usual.to_owned() } else { reason.to_owned() };
    if let Some(failures) = start {
        return Some(shown(&or(&failures.last.reason, "RunContainerError"), &failures.last.message));
    }
    if let Some(failures) = scene.memory.failures(&Op::CreateContainer(name.clone())) {
        return Some(shown(&or(&failures.last.reason, "CreateContainerError"), &failures.last.message));
    }
    let failures = scene.memory.failures(&Op::Pull(name))?;
    let (reason, message) = (or(&failures.last.reason, "ErrImagePull"), &failures.last.message);
    let is_final = matches!(reason.as_str(), "ErrImageNeverPull" | "InvalidImageName");
    if is_final || failures.at.after(PULL_ERROR_SHOWN) > scene.now || backoff::PULL.next(failures) <= scene.now {
        return Some(shown(&reason, message));
    }
    let why = format!("Back-off pulling image \"{}\": {reason}: {message}", container.image());
    Some(shown("ImagePullBackOff", &why))
}

/// What it was granted, and what it has been given.
fn resources(container: &Container<'_>, life: Option<&Life>, status: &mut Value) {
    if container.role == Role::Ephemeral {
        return;
    }
    let Some(life) = life else { return };
    let given: Value = serde_json::from_str(&life.marks.resources).unwrap_or_default();
    if let Some(requests) = container.spec.at(&["resources", "requests"]).filter(|requests| requests.is_object()) {
        status.put(&["allocatedResources"], requests.clone());
    }
    if given.is_object() {
        status.put(&["resources"], given);
    }
}

fn mounts(container: &Container<'_>, status: &mut Value) {
    let one = |mount: &Value| {
        let mut shown = json!({"name": mount.text(&["name"]), "mountPath": mount.text(&["mountPath"])});
        if mount.flag(&["readOnly"]) {
            shown.put(&["readOnly"], true);
            shown.put(&["recursiveReadOnly"], "Disabled");
        }
        shown
    };
    let all: Vec<Value> = container.spec.items(&["volumeMounts"]).iter().map(one).collect();
    if !all.is_empty() {
        status.put(&["volumeMounts"], all);
    }
}
