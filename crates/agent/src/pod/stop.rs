//! Stopping containers: hook, first signal, last signal; in a pod that ends, sidecars after the others, the last
//! one first.

use std::time::Duration;

use stdx::Time;

use super::Turn;
use super::backoff;
use super::notice::{self, Notice};
use super::scene::{Scene, Sight};
use super::shown::Container as Life;
use super::spec::{Container, Role};
use super::step::{Op, Step};

/// However short the grace, the processes have this long to end: upstream's minimum.
const GRACE_MIN: Duration = Duration::from_secs(2);

/// How a container is to be stopped.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manner {
    /// From the decision to the last signal.
    pub grace: Duration,
    /// When the last signal comes at the latest.
    pub deadline: Option<Time>,
    /// Whether those that it has to wait for have ended.
    pub has_turn: bool,
    /// What to say instead of that it is stopped.
    pub say: Option<Notice>,
}

impl Manner {
    /// For the container's own sake.
    pub(super) fn plain(grace: Duration) -> Manner {
        Manner { grace, deadline: None, has_turn: true, say: None }
    }
}

/// The next step of stopping one running container.
pub(super) fn stop(scene: &Scene<'_>, container: &Container<'_>, life: &Life, manner: &Manner, turn: &mut Turn) {
    let stopping = scene.memory.stops.get(&life.id);
    let since = stopping.map_or(scene.now, |stop| stop.since);
    let own = since.after(manner.grace);
    let deadline = manner.deadline.map_or(own, |limit| limit.min(own));
    let (name, id) = (container.name().to_owned(), life.id.clone());
    let is_first = stopping.is_none();
    let before = turn.steps.len();
    let is_late = deadline <= scene.now;
    let has_hook = container.pre_stop().is_some() && !manner.grace.is_zero();
    let is_hook_over = !has_hook || stopping.is_some_and(|stop| stop.is_hook_over);
    if !is_hook_over && !is_late {
        let grace = deadline.since(scene.now);
        turn.attempt(scene, Step::PreStop { container: name, id, grace }, backoff::LOOK);
        turn.wake_at(deadline);
    } else if manner.has_turn || is_late {
        signal(scene, name, id, deadline, turn);
    } else {
        turn.wake_at(deadline);
    }
    if is_first && turn.steps.len() > before {
        turn.notices.push(manner.say.clone().unwrap_or_else(|| notice::killing(container)));
    }
}

/// The signals. When the grace has been shortened, they are sent anew.
fn signal(scene: &Scene<'_>, container: String, id: String, deadline: Time, turn: &mut Turn) {
    let grace = deadline.since(scene.now).max(GRACE_MIN);
    let planned = scene.memory.stops.get(&id).and_then(|stop| stop.deadline);
    let is_hastened = planned.is_some_and(|planned| scene.now.after(grace) < planned);
    let step = Step::Stop { container, id: id.clone(), grace };
    if is_hastened && scene.sight == Sight::Clear && scene.memory.is_underway(&Op::Stop(id)) {
        turn.steps.push(step);
    } else {
        turn.attempt(scene, step, backoff::LOOK);
    }
}

/// The next steps of stopping every container of a pod that ends. Whether none is left.
pub(super) fn stop_all(scene: &Scene<'_>, grace: Duration, deadline: Option<Time>, turn: &mut Turn) -> bool {
    let mut is_done = true;
    for life in scene.shown.alive() {
        is_done = false;
        let Some(container) = scene.pod.container(&life.name) else {
            // A container of another pod object of this uid: nothing is known of it.
            let step = Step::Stop { container: life.name.clone(), id: life.id.clone(), grace: GRACE_MIN };
            turn.attempt(scene, step, backoff::LOOK);
            continue;
        };
        let manner = Manner { grace, deadline, has_turn: has_turn(scene, &container), say: None };
        stop(scene, &container, life, &manner, turn);
    }
    is_done
}

/// A sidecar waits for everything that is not one, and for the sidecars after it.
fn has_turn(scene: &Scene<'_>, container: &Container<'_>) -> bool {
    if container.role != Role::Sidecar {
        return true;
    }
    let is_alive = |name: &str| scene.shown.alive().any(|life| life.name == name);
    let later = scene.pod.inits().skip_while(|init| init.name() != container.name()).skip(1);
    let others = scene.pod.mains().chain(scene.pod.list("ephemeralContainers")).chain(later);
    let ordinary = scene.pod.inits().filter(|init| init.role == Role::Init);
    !others.chain(ordinary).any(|other| is_alive(other.name()))
}
