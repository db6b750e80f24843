//! Which pod goes first: who takes more than it asked for, the least important of them, who takes most beyond that.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use meta::{ObjectExt, Quantity};
use serde_json::Value;

use super::{Disks, Signal};

/// What something takes on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Bytes.
    pub bytes: i64,
    /// Files and directories.
    pub inodes: i64,
}

impl Used {
    /// Both together.
    pub fn plus(self, other: Used) -> Used {
        Used { bytes: self.bytes.saturating_add(other.bytes), inodes: self.inodes.saturating_add(other.inodes) }
    }
}

/// What one container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Its name.
    pub name: String,
    /// Memory that cannot be had back, in bytes.
    pub memory: i64,
    /// What it has written to its own root.
    pub root: Used,
    /// Its log files.
    pub logs: Used,
}

/// What one pod uses. What was not looked at is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// Memory that cannot be had back, in bytes.
    pub memory: i64,
    /// Processes and threads.
    pub pids: i64,
    /// By container.
    pub containers: Vec<ContainerUsage>,
    /// Its volumes that live on the node's disk, by name.
    pub volumes: BTreeMap<String, Used>,
}

impl PodUsage {
    /// On disks, in all.
    pub fn disk(&self) -> Used {
        let containers = self.containers.iter().map(|container| container.root.plus(container.logs));
        containers.chain(self.volumes.values().copied()).fold(Used::default(), Used::plus)
    }

    fn of(&self, signal: Signal, disks: Disks) -> i64 {
        let disk = if disks.counts_pods(signal) { self.disk() } else { Used::default() };
        match signal.resource() {
            "memory" => self.memory,
            "pids" => self.pids,
            "inodes" => disk.inodes,
            _ => disk.bytes,
        }
    }
}

/// What the pod has asked for of what `signal` is about.
fn request(pod: &Value, signal: Signal) -> i64 {
    let name = match signal.resource() {
        "memory" => "memory",
        "ephemeral-storage" => "ephemeral-storage",
        // Nobody can ask for these.
        _ => return 0,
    };
    let own = pod.at(&["spec", "resources", "requests", name]).and_then(|value| Quantity::from_value(value).ok());
    let together = || kinds::pod::resources::aggregate(&pod["spec"], "requests").get(name).copied();
    own.or_else(together).map_or(0, |quantity| quantity.units())
}

/// The pods in the order in which they are to go, with their places in `pods`. One whose usage is not known comes
/// first.
pub fn ranked(pods: &[(&Value, Option<&PodUsage>)], signal: Signal, disks: Disks) -> Vec<usize> {
    let key = |at: &usize| {
        let (pod, usage) = pods[*at];
        let priority = pod.int(&["spec", "priority"]).unwrap_or(0);
        let Some(usage) = usage else { return (0, Reverse(false), priority, Reverse(0)) };
        let (used, asked) = (usage.of(signal, disks), request(pod, signal));
        let is_beyond = signal != Signal::PidAvailable && used > asked;
        (1, Reverse(is_beyond), priority, Reverse(used.saturating_sub(asked)))
    };
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(key);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(priority: i64, requests: Value) -> Value {
        json!({"spec": {"priority": priority, "containers": [{"resources": {"requests": requests}}]}})
    }

    fn check(pods: &[(Value, Option<PodUsage>)], signal: Signal, disks: Disks, expected: &[usize]) {
        let pods: Vec<(&Value, Option<&PodUsage>)> = pods.iter().map(|(pod, usage)| (pod, usage.as_ref())).collect();
        assert_eq!(ranked(&pods, signal, disks), expected, "{pods:?}");
    }

    #[test]
    fn memory() {
        let used = |bytes: i64| Some(PodUsage { memory: bytes, ..PodUsage::default() });
        let all = [
            (pod(0, json!({"memory": "100"})), used(100)),
            (pod(0, json!({})), used(20)),
            (pod(0, json!({"memory": "100"})), used(150)),
            (pod(9, json!({})), used(900)),
            (pod(-1, json!({"memory": "1k"})), used(900)),
            (pod(9, json!({})), None),
        ];
        check(&all, Signal::MemoryAvailable, Disks::default(), &[5, 2, 1, 3, 4, 0]);
    }

    #[test]
    fn processes() {
        let used = |pids: i64| Some(PodUsage { pids, ..PodUsage::default() });
        let all = [(pod(5, json!({})), used(100)), (pod(0, json!({})), used(1)), (pod(0, json!({})), used(2))];
        check(&all, Signal::PidAvailable, Disks::default(), &[2, 1, 0]);
    }

    #[test]
    fn disks() {
        let used = |bytes: i64, inodes: i64| {
            let volumes = BTreeMap::from([("v".to_owned(), Used { bytes, inodes })]);
            let root = Used { bytes: 1, inodes: 1 };
            let containers = vec![ContainerUsage { root, ..ContainerUsage::default() }];
            Some(PodUsage { volumes, containers, ..PodUsage::default() })
        };
        let all = [
            (pod(0, json!({"ephemeral-storage": "1k"})), used(900, 900)),
            (pod(0, json!({})), used(100, 1)),
            (pod(0, json!({})), used(200, 0)),
        ];
        check(&all, Signal::NodeFsAvailable, Disks::default(), &[2, 1, 0]);
        check(&all, Signal::ImageFsAvailable, Disks::default(), &[2, 1, 0]);
        check(&all, Signal::NodeFsInodesFree, Disks::default(), &[0, 1, 2]);
        check(&all, Signal::ImageFsAvailable, Disks { images_apart: true }, &[1, 2, 0]);
    }

    #[test]
    fn resources_of_the_pod_count_before_those_of_containers() {
        let mut whole = pod(0, json!({"memory": "1"}));
        whole.put(&["spec", "resources", "requests", "memory"], "50");
        assert_eq!(request(&whole, Signal::MemoryAvailable), 50);
    }
}
