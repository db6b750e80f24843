//! The pod's phase, from the statuses of its containers.

use kinds::pod::restart::should_restart;
use meta::ObjectExt;
use serde_json::Value;

use super::super::scene::{Ending, Scene};
use super::super::spec::{Container, Role};

#[derive(Default)]
struct Tally {
    waiting: usize,
    running: usize,
    unknown: usize,
    stopped: usize,
    succeeded: usize,
    pending_inits: usize,
    pending_sidecars: usize,
    failed_inits: usize,
    is_initialized: bool,
}

/// `Pending`, `Running`, `Succeeded` or `Failed`.
pub(super) fn phase(scene: &Scene<'_>, ending: Option<&Ending>, status: &Value) -> &'static str {
    let tally = tally(scene, status);
    let is_over = ending.is_some();
    if tally.failed_inits > 0 {
        return "Failed";
    }
    if tally.pending_inits > 0 || (tally.pending_sidecars > 0 && !tally.is_initialized) || tally.waiting > 0 {
        // A pod that is taken away before it could run has failed.
        return if is_over && scene.shown.alive().next().is_none() { "Failed" } else { "Pending" };
    }
    if tally.unknown > 0 {
        return if is_over { "Failed" } else { "Pending" };
    }
    if tally.running > 0 {
        return "Running";
    }
    let all_succeeded = tally.stopped == tally.succeeded;
    match (is_over, all_succeeded) {
        (true, true) => "Succeeded",
        (true, false) => "Failed",
        // What ended is to be started again.
        (false, _) => "Running",
    }
}

fn tally(scene: &Scene<'_>, status: &Value) -> Tally {
    let mut tally = Tally::default();
    for (init, shown) in scene.pod.inits().zip(status.items(&["initContainerStatuses"])) {
        match init.role {
            Role::Sidecar => count_sidecar(&mut tally, shown),
            _ => count_init(&mut tally, scene, &init, shown),
        }
    }
    let mains = status.items(&["containerStatuses"]);
    tally.unknown += scene.pod.mains().count().saturating_sub(mains.len());
    mains.iter().for_each(|shown| count_main(&mut tally, shown));
    tally
}

fn exit_code(shown: &Value, state: &str) -> Option<i64> {
    shown.int(&[state, "terminated", "exitCode"])
}

fn is(shown: &Value, state: &str) -> bool {
    shown.at(&["state", state]).is_some()
}

fn count_init(tally: &mut Tally, scene: &Scene<'_>, init: &Container<'_>, shown: &Value) {
    let waits = || is(shown, "waiting").then(|| exit_code(shown, "lastState")).flatten();
    match exit_code(shown, "state").or_else(waits) {
        Some(0) => {}
        Some(code) if !should_restart(init.spec, scene.pod.spec(), code) => tally.failed_inits += 1,
        _ => tally.pending_inits += 1,
    }
}

fn count_sidecar(tally: &mut Tally, shown: &Value) {
    if is(shown, "running") {
        tally.pending_sidecars += usize::from(!shown.flag(&["started"]));
        tally.running += 1;
    } else if is(shown, "waiting") && exit_code(shown, "lastState").is_none() {
        tally.pending_sidecars += 1;
        tally.waiting += 1;
    }
}

fn count_main(tally: &mut Tally, shown: &Value) {
    if is(shown, "running") {
        tally.running += 1;
        tally.is_initialized = true;
    } else if let Some(code) = exit_code(shown, "state") {
        tally.stopped += 1;
        tally.succeeded += usize::from(code == 0);
        tally.is_initialized = true;
    } else if is(shown, "waiting") {
        match exit_code(shown, "lastState") {
            Some(_) => {
                tally.stopped += 1;
                tally.is_initialized = true;
            }
            None => tally.waiting += 1,
        }
    } else {
        tally.unknown += 1;
    }
}
