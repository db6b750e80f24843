//! A container that is to be started: when its wait is over, its image, then the container.

use super::Turn;
use super::backoff;
use super::notice;
use super::scene::{Past, Scene};
use super::shown::{Marks, Sandbox};
use super::spec::Container;
use super::step::{Op, Step};

/// Starts what can be started now; without a sandbox yet, only the image is seen to.
pub(super) fn launch(scene: &Scene<'_>, container: &Container<'_>, sandbox: Option<&Sandbox>, turn: &mut Turn) {
    let crash = crash_of(scene, container);
    if let Some((crash, finished)) = &crash {
        let until = finished.after(crash.wait);
        if until > scene.now {
            let about = (container.name().to_owned(), scene.next_attempt(container));
            turn.tell_once(scene, about, [notice::back_off(&scene.pod, container)]);
            return turn.wake_at(until);
        }
    }
    let Some(pulled) = scene.memory.images.get(container.name()) else { return pull(scene, container, turn) };
    let Some(sandbox) = sandbox.filter(|_| scene.memory.is_mounted) else { return };
    let marks = Marks {
        created: scene.now,
        hash: container.hash(),
        backoff: crash.map(|(crash, _)| crash.next).unwrap_or_default(),
        resources: container.resources_text(),
    };
    let step = Step::CreateContainer {
        sandbox: sandbox.id.clone(),
        container: container.name().to_owned(),
        attempt: scene.next_attempt(container),
        image_id: pulled.image_id.clone(),
        marks,
    };
    turn.attempt(scene, step, backoff::LOOK);
}

/// What its last life's end asks for, and when that was.
pub(super) fn crash_of(scene: &Scene<'_>, container: &Container<'_>) -> Option<(backoff::Crash, stdx::Time)> {
    let Past::Over { life: Some(life), .. } = scene.past(container) else { return None };
    let exit = life.exit()?;
    Some((backoff::crash(life, exit), exit.finished))
}

fn pull(scene: &Scene<'_>, container: &Container<'_>, turn: &mut Turn) {
    let op = Op::Pull(container.name().to_owned());
    if let Some(failures) = scene.memory.failures(&op)
        && backoff::PULL.next(failures) > scene.now
    {
        let shown_until = failures.at.after(backoff::PULL_ERROR_SHOWN);
        match shown_until > scene.now {
            true => turn.wake_at(shown_until),
            false => {
                let about = (format!("{}/image", container.name()), failures.count);
                turn.tell_once(scene, about, notice::image_back_off(container));
            }
        }
    }
    let step = Step::Pull {
        container: container.name().to_owned(),
        image: container.image().to_owned(),
        policy: container.pull_policy().to_owned(),
        volumes: scene.pod.image_volumes(container).collect(),
    };
    turn.attempt(scene, step, backoff::PULL);
}
