//! Running containers that do not have yet what their pod was granted. The spec that a turn looks at is the granted one.

use meta::ObjectExt;
use serde_json::Value;

use super::scene::Scene;
use super::shown::{Container as Life, Sandbox};
use super::spec::{Container, Role};
use super::step::{Resized, Step};
use super::{Turn, backoff};
use crate::figures::Figures;
use crate::resize;

/// What is told of once has a name; no container has this one.
const ABOUT: &str = "/resize";

/// Gives the pod what it was granted, all of it at once; then says so.
pub(super) fn resize(scene: &Scene<'_>, sandbox: &Sandbox, turn: &mut Turn) {
    if is_underway(scene) {
        // A cgroup that is made smaller must not be too small for a container that is still to be stopped.
        if !differing(scene).any(|(container, life)| must_restart(&container, life)) {
            turn.attempt(scene, step(scene, sandbox), backoff::LOOK);
        }
        return;
    }
    let is_shown = meta::condition::find(scene.pod.object, resize::IN_PROGRESS).is_some();
    if is_shown || scene.memory.resized.is_some() {
        let generation = scene.memory.resized.unwrap_or_else(|| scene.pod.object.generation());
        let about = (ABOUT.to_owned(), u32::try_from(generation).unwrap_or(0));
        turn.tell_once(scene, about, [resize::notice(scene.pod.object, &resize::News::Completed)]);
    }
}

/// Whether something that runs does not have yet what it was granted.
pub(super) fn is_underway(scene: &Scene<'_>) -> bool {
    let is_other = |sandbox: &Sandbox| sandbox.figures != Figures::of_pod(scene.pod.spec());
    scene.sandbox().is_some_and(is_other) || differing(scene).next().is_some()
}

fn step(scene: &Scene<'_>, sandbox: &Sandbox) -> Step {
    let resized = |(container, life): (Container<'_>, &Life)| Resized {
        container: container.name().to_owned(),
        id: life.id.clone(),
        from: life.marks.resources.clone(),
        to: container.resources_text(),
    };
    Step::Resize {
        sandbox: sandbox.id.clone(),
        from: sandbox.figures,
        to: Figures::of_pod(scene.pod.spec()),
        containers: differing(scene).map(resized).collect(),
    }
}

/// Running containers that have other resources than they were granted.
fn differing<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (Container<'a>, &'a Life)> + use<'a> {
    let shown = scene.shown;
    let running = scene.pod.containers().filter_map(move |container| {
        let life = shown.latest(container.name()).filter(|life| life.is_running())?;
        Some((container, life))
    });
    running.filter(|(container, life)| {
        container.role != Role::Ephemeral && container.resources_text() != life.marks.resources
    })
}

/// Whether one of the resources that differ asks for a restart.
pub(super) fn must_restart(container: &Container<'_>, life: &Life) -> bool {
    if container.resources_text() == life.marks.resources || !container.is_lasting() {
        return false;
    }
    let before: Value = serde_json::from_str(&life.marks.resources).unwrap_or_default();
    let differs = |name: &str| {
        ["requests", "limits"]
            .iter()
            .any(|list| before.at(&[list, name]) != container.spec.at(&["resources", list, name]))
    };
    let mut policies = container.spec.items(&["resizePolicy"]).iter();
    policies.any(|p| p.text(&["restartPolicy"]) == "RestartContainer" && differs(p.text(&["resourceName"])))
}
