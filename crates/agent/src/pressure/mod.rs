//! # Contract
//! What a node does when it runs short: which conditions it shows ([`Gauge`]), which pods it does not take
//! ([`refusal`]), which pod has to go ([`ranked`], [`limits::violation`]) and what is said of it. Pure: what is there
//! is an argument. Signals, thresholds, order and sentences are kubelet's.

mod admission;
mod gauge;
pub mod limits;
mod message;
mod rank;
mod threshold;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use meta::{ObjectExt, Quantity};
use serde_json::Value;

pub use admission::refusal;
pub use gauge::{Gauge, Judgement};
pub use message::{Eviction, attempt, eviction};
pub use rank::{ContainerUsage, PodUsage, Used, ranked};
pub use threshold::{Policy, Threshold, Written};

/// `status.reason` of a pod that was evicted or not taken for want of something.
pub const EVICTED: &str = "Evicted";
/// From the first signal to the last when a pod has to go at once (upstream's number).
pub const GRACE_AT_ONCE: Duration = Duration::from_secs(1);
/// From this priority on, a pod is vital for its node or its cluster (`system-cluster-critical`).
const CRITICAL: i64 = 2_000_000_000;

/// Something that can run short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Memory that is not in use, or can be had without asking anybody.
    MemoryAvailable,
    /// Room on the file system of volumes, logs and writable layers.
    NodeFsAvailable,
    /// Its free inodes.
    NodeFsInodesFree,
    /// Room on the file system of images.
    ImageFsAvailable,
    /// Its free inodes.
    ImageFsInodesFree,
    /// Process numbers that are not taken.
    PidAvailable,
}

/// Every signal, memory first: it cannot wait.
pub const SIGNALS: [Signal; 6] = [
    Signal::MemoryAvailable,
    Signal::NodeFsAvailable,
    Signal::NodeFsInodesFree,
    Signal::ImageFsAvailable,
    Signal::ImageFsInodesFree,
    Signal::PidAvailable,
];

impl Signal {
    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            Signal::MemoryAvailable => "memory.available",
            Signal::NodeFsAvailable => "nodefs.available",
            Signal::NodeFsInodesFree => "nodefs.inodesFree",
            Signal::ImageFsAvailable => "imagefs.available",
            Signal::ImageFsInodesFree => "imagefs.inodesFree",
            Signal::PidAvailable => "pid.available",
        }
    }

    /// The signal of this name.
    pub fn parse(name: &str) -> Option<Signal> {
        SIGNALS.into_iter().find(|signal| signal.name() == name)
    }

    /// What is starved, as messages say it.
    pub fn resource(self) -> &'static str {
        match self {
            Signal::MemoryAvailable => "memory",
            Signal::NodeFsAvailable | Signal::ImageFsAvailable => "ephemeral-storage",
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree => "inodes",
            Signal::PidAvailable => "pids",
        }
    }

    /// The condition that the node shows.
    pub fn condition(self) -> Pressure {
        match self {
            Signal::MemoryAvailable => Pressure::Memory,
            Signal::PidAvailable => Pressure::Pid,
            _ => Pressure::Disk,
        }
    }

    /// Whether it counts bytes.
    fn is_bytes(self) -> bool {
        matches!(self.resource(), "memory" | "ephemeral-storage")
    }

    /// An amount as messages show it.
    fn quantity(self, amount: i64) -> Quantity {
        if self.is_bytes() { Quantity::from_bytes(amount) } else { Quantity::from_units(amount) }
    }
}

/// A condition of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// `MemoryPressure`.
    Memory,
    /// `DiskPressure`.
    Disk,
    /// `PIDPressure`.
    Pid,
}

impl Pressure {
    /// Every one, as the Node lists them.
    pub const ALL: [Pressure; 3] = [Pressure::Memory, Pressure::Disk, Pressure::Pid];

    /// Its type.
    pub fn type_(self) -> &'static str {
        match self {
            Pressure::Memory => "MemoryPressure",
            Pressure::Disk => "DiskPressure",
            Pressure::Pid => "PIDPressure",
        }
    }

    /// Its reason and message.
    pub fn words(self, is_on: bool) -> (&'static str, &'static str) {
        match (self, is_on) {
            (Pressure::Memory, true) => ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            (Pressure::Memory, false) => ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            (Pressure::Disk, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            (Pressure::Disk, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            (Pressure::Pid, true) => ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            (Pressure::Pid, false) => ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        }
    }
}

/// What a node is under.
pub type Pressures = BTreeSet<Pressure>;

/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// What is left.
    pub available: i64,
    /// What there is in all.
    pub capacity: i64,
}

/// What was found; a signal that could not be read is absent and means nothing.
pub type Observations = BTreeMap<Signal, Amount>;

/// Where things are on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Whether images have a file system of their own. Writable layers are always beside the volumes.
    pub images_apart: bool,
}

impl Disks {
    /// Whether removing containers that have ended helps against `signal`.
    pub fn containers_help(self, signal: Signal) -> bool {
        match signal {
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => true,
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => !self.images_apart,
            Signal::MemoryAvailable | Signal::PidAvailable => false,
        }
    }

    /// Whether removing images helps against `signal`.
    pub fn images_help(self, signal: Signal) -> bool {
        match signal {
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => true,
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => !self.images_apart,
            Signal::MemoryAvailable | Signal::PidAvailable => false,
        }
    }

    /// Whether what pods have written lies where `signal` looks.
    fn counts_pods(self, signal: Signal) -> bool {
        self.containers_help(signal)
    }
}

/// Whether a pod is kept whatever happens: it is static, or its priority says so.
pub fn is_critical(pod: &Value) -> bool {
    let source = pod.annotation("kubernetes.io/config.source");
    let is_static =
        source.is_some_and(|source| source != "api") || pod.annotation("kubernetes.io/config.mirror").is_some();
    is_static || pod.int(&["spec", "priority"]).unwrap_or(0) >= CRITICAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn signals_have_names() {
        for signal in SIGNALS {
            assert_eq!(Signal::parse(signal.name()), Some(signal));
        }
        assert_eq!(Signal::parse("memory"), None);
    }

    #[test]
    fn who_is_kept() {
        let check = |pod: Value, expected: bool| assert_eq!(is_critical(&pod), expected, "{pod}");
        check(json!({}), false);
        check(json!({"spec": {"priority": 1_999_999_999}}), false);
        check(json!({"spec": {"priority": 2_000_000_000}}), true);
        check(json!({"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}), true);
        check(json!({"metadata": {"annotations": {"kubernetes.io/config.source": "api"}}}), false);
        check(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}), true);
    }

    #[test]
    fn what_helps_depends_on_the_disks() {
        let check = |images_apart: bool, signal: Signal, containers: bool, images: bool| {
            let disks = Disks { images_apart };
            assert_eq!((disks.containers_help(signal), disks.images_help(signal)), (containers, images), "{signal:?}");
        };
        check(false, Signal::NodeFsAvailable, true, true);
        check(false, Signal::ImageFsInodesFree, true, true);
        check(true, Signal::NodeFsAvailable, true, false);
        check(true, Signal::ImageFsAvailable, false, true);
        check(true, Signal::MemoryAvailable, false, false);
        check(false, Signal::PidAvailable, false, false);
    }
}
