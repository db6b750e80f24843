//! What sandboxes and containers are.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stdx::Time;

use crate::spec::{ContainerId, ContainerSpec, SandboxId, SandboxSpec};

/// Whether a sandbox can run containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SandboxState {
    Ready,
    NotReady,
}

/// A sandbox as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxStatus {
    pub id: SandboxId,
    pub spec: SandboxSpec,
    pub state: SandboxState,
    pub created_at: Time,
    /// Empty on the host's network, and when its interface is gone: then it has to be made anew.
    pub ips: Vec<IpAddr>,
    /// The process that runs the sandbox; `None` once stopped.
    pub shim_pid: Option<u32>,
    /// Where the network namespace can be opened; `None` on the host's network or once stopped.
    pub netns: Option<PathBuf>,
}

/// Where a container is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    Created,
    Running,
    Exited,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// 128 + signal when killed by one; 128 when it could not be started; 255 when nobody saw it end.
    pub exit_code: i32,
    pub signal: Option<i32>,
    /// `Completed`, `Error`, `OOMKilled`, `StartError` or `Unknown`, in the words of CRI.
    pub reason: String,
    pub message: String,
    pub oom_killed: bool,
    #[serde(with = "stamp")]
    pub finished_at: Time,
}

/// A container as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerStatus {
    pub id: ContainerId,
    pub sandbox: SandboxId,
    pub spec: ContainerSpec,
    pub state: ContainerState,
    pub created_at: Time,
    pub started_at: Option<Time>,
    /// Present exactly when the state is `Exited`.
    pub exit: Option<ExitRecord>,
    /// Of the first process, while it runs.
    pub pid: Option<u32>,
    pub log_path: PathBuf,
    /// The directory of what the container has written to its root.
    pub writable_layer: PathBuf,
}

/// Which containers to list; empty fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerFilter {
    pub sandbox: Option<SandboxId>,
    pub state: Option<ContainerState>,
}

/// Something changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub sandbox: SandboxId,
    pub kind: EventKind,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    ContainerCreated {
        container: ContainerId,
    },
    ContainerStarted {
        container: ContainerId,
    },
    /// The kernel killed a process of the container for want of memory.
    ContainerOom {
        container: ContainerId,
    },
    ContainerExited {
        container: ContainerId,
        exit: ExitRecord,
    },
    ContainerRemoved {
        container: ContainerId,
    },
    SandboxReady,
    /// Its interface is gone, and its address with it.
    SandboxUnplugged,
    SandboxNotReady,
    SandboxRemoved,
    /// The runtime does not answer at once: whoever goes by what it showed finds out for how long.
    Silent,
}

impl EventKind {
    /// Whether it tells of this container.
    pub fn is_about(&self, id: &str) -> bool {
        match self {
            EventKind::ContainerCreated { container }
            | EventKind::ContainerStarted { container }
            | EventKind::ContainerOom { container }
            | EventKind::ContainerExited { container, .. }
            | EventKind::ContainerRemoved { container } => container == id,
            EventKind::SandboxReady
            | EventKind::SandboxUnplugged
            | EventKind::SandboxNotReady
            | EventKind::SandboxRemoved
            | EventKind::Silent => false,
        }
    }
}

/// A [`Time`] as microseconds since the epoch.
pub mod stamp {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use stdx::Time;

    /// Writes it.
    pub fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_micros().serialize(serializer)
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        i64::deserialize(deserializer).map(Time::from_micros)
    }
}
