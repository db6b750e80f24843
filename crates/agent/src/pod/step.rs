//! What there is to do for a pod, and how doing it ended.

use std::time::Duration;

use serde_json::Value;

use super::probe::{Kind, ProbeAnswer};
use super::shown::Marks;
use crate::figures::Figures;

/// An image that is a volume of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeImage {
    /// The volume's name.
    pub volume: String,
    /// The image, as written in the spec.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub policy: String,
}

/// One effect. Effects of one turn are independent of each other and may be performed at the same time.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the pod's directories, cgroup and volumes.
    Mount,
    /// Sees to it that an image is there, by the container's pull policy.
    Pull {
        /// The container that needs it.
        container: String,
        /// As written in the spec.
        image: String,
        /// `Always`, `IfNotPresent` or `Never`.
        policy: String,
        /// Images that it mounts, which it needs as much.
        volumes: Vec<VolumeImage>,
    },
    /// Makes a sandbox.
    CreateSandbox {
        /// Its number.
        attempt: u32,
    },
    /// Makes a container, not started.
    CreateContainer {
        /// The sandbox it goes into.
        sandbox: String,
        /// Its name.
        container: String,
        /// Its number.
        attempt: u32,
        /// The image, by digest.
        image_id: String,
        /// What is written on it.
        marks: Marks,
    },
    /// Starts a container.
    StartContainer {
        /// Its name.
        container: String,
        /// Which life of it.
        id: String,
    },
    /// Performs the postStart hook.
    PostStart {
        /// The container.
        container: String,
        /// Which life of it.
        id: String,
    },
    /// Performs the preStop hook, for as long as its grace lasts.
    PreStop {
        /// The container.
        container: String,
        /// Which life of it.
        id: String,
        /// How long it may take.
        grace: Duration,
    },
    /// Asks the processes to end, and ends them when the grace is over. A second stop replaces the first.
    Stop {
        /// The container.
        container: String,
        /// Which life of it.
        id: String,
        /// From the first signal to the last.
        grace: Duration,
    },
    /// Performs a probe.
    Probe {
        /// The container.
        container: String,
        /// Which life of it.
        id: String,
        /// Which probe.
        kind: Kind,
    },
    /// Gives running containers other resources, and the cgroup of their pod.
    Resize {
        /// The pod's sandbox.
        sandbox: String,
        /// What its cgroup was given.
        from: Figures,
        /// What it is to have.
        to: Figures,
        /// The containers.
        containers: Vec<Resized>,
    },
    /// Removes a container that has ended.
    RemoveContainer {
        /// Which life.
        id: String,
    },
    /// Ends a sandbox: its network and its processes.
    StopSandbox {
        /// Which.
        id: String,
    },
    /// Removes a sandbox that has been stopped.
    RemoveSandbox {
        /// Which.
        id: String,
    },
    /// Removes the pod's mounts, directories and cgroup.
    Unmount,
    /// Writes a strategic merge patch of the status.
    Report {
        /// `{"status": {...}}`.
        patch: Value,
    },
    /// Removes the pod from the API.
    Delete,
}

/// A running container that is given other resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Resized {
    /// Its name.
    pub container: String,
    /// Which life of it.
    pub id: String,
    /// The resources that it has, as JSON text of those in a spec.
    pub from: String,
    /// Those it is to have.
    pub to: String,
}

/// What a step is about: while one is under way, no other of the same name is begun.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the steps")]
pub enum Op {
    Mount,
    Pull(String),
    CreateSandbox,
    CreateContainer(String),
    StartContainer(String),
    PostStart(String),
    PreStop(String),
    Stop(String),
    Probe(String, Kind),
    Resize,
    RemoveContainer(String),
    StopSandbox(String),
    RemoveSandbox(String),
    Unmount,
    Report,
    Delete,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The image is there.
    Pulled(Pulled),
    /// The probe has an answer.
    Probed(ProbeAnswer),
    /// It could not be done.
    Failed(Failure),
}

/// An image that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulled {
    /// By digest.
    pub image_id: String,
    /// How long it took and how large it is; `None` when it was there already.
    pub fetched: Option<(Duration, u64)>,
}

/// Why a step could not be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The reason that the container's status shows, e.g. `CreateContainerConfigError`; may be empty.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Step {
    /// What it is about.
    pub fn op(&self) -> Op {
        match self {
            Step::Mount => Op::Mount,
            Step::Pull { container, .. } => Op::Pull(container.clone()),
            Step::CreateSandbox { .. } => Op::CreateSandbox,
            Step::CreateContainer { container, .. } => Op::CreateContainer(container.clone()),
            Step::StartContainer { id, .. } => Op::StartContainer(id.clone()),
            Step::PostStart { id, .. } => Op::PostStart(id.clone()),
            Step::PreStop { id, .. } => Op::PreStop(id.clone()),
            Step::Stop { id, .. } => Op::Stop(id.clone()),
            Step::Probe { id, kind, .. } => Op::Probe(id.clone(), *kind),
            Step::Resize { .. } => Op::Resize,
            Step::RemoveContainer { id } => Op::RemoveContainer(id.clone()),
            Step::StopSandbox { id } => Op::StopSandbox(id.clone()),
            Step::RemoveSandbox { id } => Op::RemoveSandbox(id.clone()),
            Step::Unmount => Op::Unmount,
            Step::Report { .. } => Op::Report,
            Step::Delete => Op::Delete,
        }
    }

    /// Whether the runtime has to answer for it to be done. A probe may be a command; then its answer is that nothing
    /// is known.
    pub fn needs_runtime(&self) -> bool {
        !matches!(self, Step::Mount | Step::Unmount | Step::Report { .. } | Step::Delete | Step::Probe { .. })
    }

    /// Whether the runtime may show something else afterwards, however it ended.
    pub fn is_seen(&self) -> bool {
        self.needs_runtime() && !matches!(self, Step::Pull { .. })
    }

    /// The container it is about, by name.
    pub fn container(&self) -> Option<&str> {
        match self {
            Step::Pull { container, .. }
            | Step::CreateContainer { container, .. }
            | Step::StartContainer { container, .. }
            | Step::PostStart { container, .. }
            | Step::PreStop { container, .. }
            | Step::Stop { container, .. }
            | Step::Probe { container, .. } => Some(container),
            _ => None,
        }
    }
}

impl Answer {
    /// A failure.
    pub fn failed(reason: impl Into<String>, message: impl Into<String>) -> Answer {
        Answer::Failed(Failure { reason: reason.into(), message: message.into() })
    }
}
