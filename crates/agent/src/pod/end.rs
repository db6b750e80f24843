//! A pod that ends: containers, sandboxes, volumes, and, once deletion has begun, everything else.

use super::Turn;
use super::backoff;
use super::probe::Kind;
use super::scene::{Ending, Scene, Sight};
use super::shown::State;
use super::step::{Op, Step};
use super::{live, status, stop};

/// Decides.
pub(super) fn decide(scene: &Scene<'_>, ending: &Ending, turn: &mut Turn) {
    let is_stopped = stop::stop_all(scene, ending.grace, ending.deadline, turn);
    if !is_stopped {
        readiness(scene, turn);
    } else if is_growing(scene) {
        // That nothing runs is not for sure: it is not said either.
        return;
    }
    let is_clean = is_stopped && clean(scene, ending, turn);
    if scene.pod.is_gone {
        turn.is_over = is_clean;
        return;
    }
    let is_said = status::report(scene, Some(ending), turn);
    if is_clean && is_said && ending.removes {
        turn.attempt(scene, Step::Delete, backoff::LOOK);
    }
}

/// Whether something may still come into being, or has without being seen: nothing is removed before that is over.
fn is_growing(scene: &Scene<'_>) -> bool {
    scene.sight == Sight::Clouded
        || scene
            .memory
            .underway
            .iter()
            .any(|op| matches!(op, Op::Mount | Op::CreateSandbox | Op::CreateContainer(_) | Op::StartContainer(_)))
}

/// Takes down what is left, in order. Whether nothing is that should not be.
fn clean(scene: &Scene<'_>, ending: &Ending, turn: &mut Turn) -> bool {
    let mut is_clean = true;
    for sandbox in scene.shown.sandboxes.iter().filter(|sandbox| sandbox.is_ready) {
        is_clean = false;
        turn.attempt(scene, Step::StopSandbox { id: sandbox.id.clone() }, backoff::LOOK);
    }
    if !is_clean {
        return false;
    }
    if !scene.memory.is_unmounted {
        is_clean = false;
        turn.attempt(scene, Step::Unmount, backoff::VOLUMES);
    }
    if !ending.removes && !ending.purges {
        live::sweep(scene, turn);
        return is_clean;
    }
    for life in &scene.shown.containers {
        is_clean = false;
        turn.attempt(scene, Step::RemoveContainer { id: life.id.clone() }, backoff::LOOK);
    }
    if scene.shown.containers.is_empty() {
        for sandbox in &scene.shown.sandboxes {
            is_clean = false;
            turn.attempt(scene, Step::RemoveSandbox { id: sandbox.id.clone() }, backoff::LOOK);
        }
    }
    is_clean
}

/// While its containers end, the pod goes on saying whether it takes work.
fn readiness(scene: &Scene<'_>, turn: &mut Turn) {
    for life in scene.shown.alive() {
        if let (State::Running { started }, Some(container)) = (&life.state, scene.pod.container(&life.name)) {
            live::probe(scene, &container, life, *started, Kind::Readiness, turn);
        }
    }
}
