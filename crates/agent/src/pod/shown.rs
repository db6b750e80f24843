//! What the runtime shows of one pod, in the words of the container runtime interface.

use std::time::Duration;

use stdx::Time;

use crate::figures::Figures;

/// Everything that exists in the runtime under the pod's uid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// In any order.
    pub sandboxes: Vec<Sandbox>,
    /// In any order.
    pub containers: Vec<Container>,
}

/// A pod sandbox.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sandbox {
    /// The runtime's name for it.
    pub id: String,
    /// 0 for the pod's first sandbox.
    pub attempt: u32,
    /// Whether containers can live in it.
    pub is_ready: bool,
    /// When it was made.
    pub created: Time,
    /// The pod's addresses in it; empty on the node's own network.
    pub ips: Vec<String>,
    /// What the pod's cgroup was given.
    pub figures: Figures,
}

/// A container.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// The runtime's name for it.
    pub id: String,
    /// The sandbox it is in.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// 0 for the container's first life.
    pub attempt: u32,
    /// How it is.
    pub state: State,
    /// The image that runs, by digest.
    pub image_id: String,
    /// What was written on it when it was made.
    pub marks: Marks,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Made, not started.
    Created,
    /// Started.
    Running {
        /// When.
        started: Time,
    },
    /// Ended, or never able to start.
    Exited(Exit),
    /// The runtime has lost track of it.
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exit {
    /// When it started; `None` when it never did.
    pub started: Option<Time>,
    /// When it ended.
    pub finished: Time,
    /// The code; 128 and the signal's number when a signal ended it.
    pub code: i64,
    /// `OOMKilled`, `StartError`, `ContainerCannotRun`; empty when the code says it all.
    pub reason: String,
    /// The termination message.
    pub message: String,
}

/// What the brain has written on a container, so that nothing of a container's history is kept in memory only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// When it was made.
    pub created: Time,
    /// Name and image, as a fingerprint.
    pub hash: String,
    /// How long its successor has to wait if it ends soon.
    pub backoff: Duration,
    /// The resources that it was made with or resized to: the `resources` of its spec as JSON text.
    pub resources: String,
}

impl Shown {
    /// The newest sandbox.
    pub fn newest_sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.iter().max_by_key(|sandbox| (sandbox.attempt, sandbox.created))
    }

    /// The newest life of a container.
    pub fn latest(&self, name: &str) -> Option<&Container> {
        self.lives(name).max_by_key(|container| container.attempt)
    }

    /// The newest life of a container in one sandbox.
    pub fn latest_in(&self, name: &str, sandbox: &str) -> Option<&Container> {
        self.lives(name).filter(|container| container.sandbox == sandbox).max_by_key(|container| container.attempt)
    }

    /// How the life before the newest ended, if the runtime still knows.
    pub fn previous_exit(&self, name: &str) -> Option<(&Container, &Exit)> {
        let newest = self.latest(name)?.attempt;
        let earlier = self.lives(name).filter(|container| container.attempt < newest);
        let last = earlier.max_by_key(|container| container.attempt)?;
        last.exit().map(|exit| (last, exit))
    }

    /// Containers that may have processes.
    pub fn alive(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.may_run())
    }

    fn lives(&self, name: &str) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(move |container| container.name == name)
    }
}

impl Container {
    /// How it ended.
    pub fn exit(&self) -> Option<&Exit> {
        match &self.state {
            State::Exited(exit) => Some(exit),
            _ => None,
        }
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether it may have processes.
    pub fn may_run(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Unknown)
    }
}
