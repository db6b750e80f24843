//! All that a turn looks at, and the questions that its parts share.

use std::time::Duration;

use kinds::pod::restart::should_restart;
use meta::ObjectExt;
use serde_json::Value;
use stdx::Time;

use super::memory::{Hook, Memory, Verdict};
use super::probe::{Kind, Prober};
use super::shown::{Container as Life, Sandbox, Shown, State};
use super::spec::{Container, Pod, Role};
use super::step::Op;

/// The code of a container that was killed, or of which nobody knows how it ended.
pub(super) const KILLED: i64 = 137;
/// A forced deletion still leaves a moment: upstream's minimum.
const FORCED_GRACE: Duration = Duration::from_secs(1);
pub(super) const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The node, as its pods' statuses name it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Here {
    /// `status.hostIPs` of its pods.
    pub ips: Vec<String>,
    /// The name of what runs its containers: what stands before their ids.
    pub runtime: String,
    /// Whether what is not needed has to make room: containers that have ended and will not run again.
    pub is_short_of_disk: bool,
}

/// How far what the runtime shows can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// It is what there is.
    #[default]
    Clear,
    /// The runtime has not answered since. Nothing was done for the pod meanwhile: what it does not show is not there,
    /// and what has ended stays so; but what it shows running may have ended.
    Old,
    /// The runtime has not answered since, and something was done for the pod meanwhile, or may have been.
    Clouded,
}

/// What a turn looks at.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The pod.
    pub pod: Pod<'a>,
    /// What the runtime shows of it.
    pub shown: &'a Shown,
    /// How far that can be relied on.
    pub sight: Sight,
    /// What is remembered of it.
    pub memory: &'a Memory,
    /// The node.
    pub here: &'a Here,
    /// The time.
    pub now: Time,
}

/// Where the pod is going.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Course {
    /// Its containers are to run.
    Live,
    /// Its containers are to end.
    End(Ending),
}

/// How a pod ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ending {
    /// From the first signal to the last.
    pub grace: Duration,
    /// When the grace is over at the latest, if somebody else has said so.
    pub deadline: Option<Time>,
    /// What the status says of it.
    pub verdict: Option<Verdict>,
    /// Whether nothing is to be left.
    pub removes: bool,
    /// Whether nothing is to be left of containers and sandboxes, though the API keeps the pod.
    pub purges: bool,
}

/// What has become of a container so far.
#[derive(Clone, Copy, Debug)]
pub(super) enum Past<'a> {
    /// It was never started.
    Never,
    /// It is there and has not ended.
    There(&'a Life),
    /// It has ended; the runtime may have forgotten how.
    Over {
        /// Its exit code.
        code: i64,
        /// Its number.
        attempt: u32,
        /// What the runtime still knows.
        life: Option<&'a Life>,
    },
}

impl<'a> Scene<'a> {
    /// Where the pod is going.
    pub(super) fn course(&self) -> Course {
        let pod = &self.pod;
        let end = |grace, deadline, verdict, removes| {
            Course::End(Ending { grace, deadline, verdict, removes, purges: false })
        };
        if pod.is_gone || pod.deletion_deadline().is_some() {
            let written = pod.object.int(&["metadata", "deletionGracePeriodSeconds"]).map(super::spec::seconds);
            let grace = written.unwrap_or_else(|| pod.grace()).max(FORCED_GRACE);
            // Gone without notice: the last object knows of no deadline.
            let deadline = pod.deletion_deadline().map(|at| at.max(self.now_or_first_stop().after(FORCED_GRACE)));
            return end(grace, deadline, self.verdict(), true);
        }
        if pod.is_finished() {
            let purges = self.here.is_short_of_disk || pod.is_evicted();
            return Course::End(Ending { grace: pod.grace(), purges, ..Ending::default() });
        }
        if let Some(verdict) = self.verdict() {
            return end(verdict.grace.unwrap_or(pod.grace()), None, Some(verdict), false);
        }
        match super::live::is_finished(self) {
            true => end(pod.grace(), None, None, false),
            false => Course::Live,
        }
    }

    /// Why it may not go on: it was condemned, or its time is over.
    fn verdict(&self) -> Option<Verdict> {
        let is_late = self.pod.active_deadline().is_some_and(|at| at <= self.now) && !self.pod.is_finished();
        let late = || Verdict {
            reason: "DeadlineExceeded".to_owned(),
            message: DEADLINE_MESSAGE.to_owned(),
            ..Verdict::default()
        };
        self.memory.verdict.clone().or_else(|| is_late.then(late))
    }

    /// When the stop of its first container was decided.
    fn now_or_first_stop(&self) -> Time {
        self.memory.stops.values().map(|stop| stop.since).min().unwrap_or(self.now)
    }

    /// The newest sandbox, if containers can live in it.
    pub(super) fn sandbox(&self) -> Option<&'a Sandbox> {
        let is_usable =
            |sandbox: &&Sandbox| sandbox.is_ready && (self.pod.is_on_host_network() || !sandbox.ips.is_empty());
        self.shown.newest_sandbox().filter(is_usable)
    }

    /// What has become of a container.
    pub(super) fn past(&self, container: &Container<'_>) -> Past<'a> {
        let name = container.name();
        match self.shown.latest(name) {
            Some(life) => match &life.state {
                State::Exited(exit) => Past::Over { code: exit.code, attempt: life.attempt, life: Some(life) },
                _ => Past::There(life),
            },
            None => self.told_past(name),
        }
    }

    /// What the API remembers of a container that the runtime has forgotten.
    fn told_past(&self, name: &str) -> Past<'a> {
        let Some(status) = self.pod.status_of(name) else { return Past::Never };
        let attempt = u32::try_from(status.int(&["restartCount"]).unwrap_or(0)).unwrap_or(0);
        let ended = |state: &str| status.int(&[state, "terminated", "exitCode"]);
        let ran = || status.at(&["state", "running"]).is_some().then_some(KILLED);
        match ended("state").or_else(ran).or_else(|| ended("lastState")) {
            Some(code) => Past::Over { code, attempt, life: None },
            None => Past::Never,
        }
    }

    /// The number of a container's next life.
    pub(super) fn next_attempt(&self, container: &Container<'_>) -> u32 {
        match self.past(container) {
            Past::Never => 0,
            Past::There(life) => life.attempt.saturating_add(1),
            Past::Over { attempt, .. } => attempt.saturating_add(1),
        }
    }

    /// Whether a container that ended with `code` is to run again.
    pub(super) fn restarts(&self, container: &Container<'_>, code: i64) -> bool {
        match container.role {
            Role::Ephemeral => false,
            Role::Sidecar => true,
            Role::Init => code != 0 && should_restart(container.spec, self.pod.spec(), code),
            Role::Main => should_restart(container.spec, self.pod.spec(), code),
        }
    }

    /// Whether its postStart hook is still to be performed or under way.
    pub(super) fn is_hooked(&self, life: &Life) -> bool {
        self.memory.hooks.get(&life.id) == Some(&Hook::Due) || self.memory.is_underway(&Op::PostStart(life.id.clone()))
    }

    /// What is known of a probe of a life.
    pub(super) fn prober(&self, container: &Container<'_>, life: &Life, kind: Kind) -> Prober {
        self.memory.prober(&life.id, kind, remembered(&self.pod, container.name(), &life.id, kind))
    }

    /// Whether a running container has started: its hook and its startup probe have succeeded.
    pub(super) fn has_started(&self, container: &Container<'_>, life: &Life) -> bool {
        life.is_running()
            && !self.is_hooked(life)
            && (container.probe(Kind::Startup).is_none()
                || self.prober(container, life, Kind::Startup).verdict() == Some(true))
    }

    /// Whether a container takes work.
    pub(super) fn is_ready(&self, container: &Container<'_>, life: &Life) -> bool {
        let says_so = || {
            container.probe(Kind::Readiness).is_none()
                || self.prober(container, life, Kind::Readiness).verdict() == Some(true)
        };
        container.is_lasting() && self.has_started(container, life) && says_so()
    }
}

/// What the API remembers of a probe's verdict on this very life: an agent that was restarted starts from there.
pub(super) fn remembered(pod: &Pod<'_>, container: &str, id: &str, kind: Kind) -> Option<bool> {
    let told = |status: &Value| status.text(&["containerID"]).split_once("://").map(|(_, id)| id.to_owned());
    let status = pod.status_of(container).filter(|status| told(status).as_deref() == Some(id))?;
    match kind {
        Kind::Startup => status.flag(&["started"]).then_some(true),
        Kind::Readiness => status.flag(&["ready"]).then_some(true),
        Kind::Liveness => None,
    }
}
