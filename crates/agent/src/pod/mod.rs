//! # Contract
//! What a node does next for one of its pods. A pure function of the pod's object, what the runtime shows, and what
//! the agent remembers ([`Memory`], which may be lost at any time) to steps, notes, and when to look again.
//! Owns the pod's status but for conditions of other types, its sandboxes and containers, and its removal from the
//! API once everything is gone. At rest when the status says what is and only probes remain.

mod backoff;
mod end;
mod launch;
mod live;
mod memory;
mod notice;
mod probe;
mod resizing;
mod scene;
mod shown;
mod spec;
mod status;
mod step;
mod stop;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use brain::Wake;
use stdx::Time;

pub use memory::{Failures, Memory, Stopping, Verdict};
pub use notice::{Notice, begun_notes};
pub use probe::{KINDS, Kind, Probe, ProbeAnswer};
pub use scene::{Here, Scene, Sight};
pub use shown::{Container as ShownContainer, Exit, Marks, Sandbox, Shown, State};
pub use spec::{Container, Pod, Role};
pub(crate) use status::difference as status_difference;
pub use step::{Answer, Failure, Op, Pulled, Resized, Step, VolumeImage};

/// What a turn decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// What to do; all at the same time.
    pub steps: Vec<Step>,
    /// What there is to say now.
    pub notices: Vec<Notice>,
    /// When to look again even if nothing changes.
    pub wake: Wake,
    /// Nothing of the pod is left, here or in the API: it can be forgotten.
    pub is_over: bool,
    told: Vec<(String, u32)>,
}

/// Decides.
pub fn turn(scene: &Scene<'_>) -> Turn {
    let mut turn = Turn::rest();
    match scene.course() {
        scene::Course::Live => live::decide(scene, &mut turn),
        scene::Course::End(ending) => end::decide(scene, &ending, &mut turn),
    }
    turn
}

impl Turn {
    fn rest() -> Turn {
        Turn { steps: Vec::new(), notices: Vec::new(), wake: Wake::OnChange, is_over: false, told: Vec::new() }
    }

    fn wake_at(&mut self, time: Time) {
        self.wake = self.wake.or_at(time);
    }

    /// Adds a step unless one of its name is under way, or has failed and its back-off is not over, or it needs a
    /// runtime that does not answer: it is decided again when that shows what there is.
    fn attempt(&mut self, scene: &Scene<'_>, step: Step, retry: backoff::Retry) -> bool {
        let op = step.op();
        let must_wait = step.needs_runtime() && scene.sight != Sight::Clear;
        if must_wait || scene.memory.is_underway(&op) {
            return false;
        }
        if let Some(at) = scene.memory.failures(&op).map(|failures| retry.next(failures))
            && at > scene.now
        {
            self.wake_at(at);
            return false;
        }
        self.steps.push(step);
        true
    }

    /// Says something once for a container's life.
    fn tell_once(&mut self, scene: &Scene<'_>, about: (String, u32), notices: impl IntoIterator<Item = Notice>) {
        if !scene.memory.told.contains(&about) {
            self.notices.extend(notices);
            self.told.push(about);
        }
    }
}

impl Memory {
    /// The steps of a turn begin.
    pub fn begin_turn(&mut self, pod: &Pod<'_>, turn: &Turn, now: Time) {
        self.told.extend(turn.told.iter().cloned());
        for step in &turn.steps {
            if let Step::Probe { container, id, kind } = step {
                self.adopt(id, *kind, scene::remembered(pod, container, id, *kind));
            }
            self.begin(step, now);
        }
    }
}
