//! Pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use stdx::Time;
use view::Object;

use super::wire::time;
use super::{Condition, Fact, PodSpec, Requests, held};

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub(super) metadata: PodMeta,
    /// What it asks for.
    pub spec: PodSpec,
    /// How it is.
    pub status: PodStatus,
    /// What its node holds for it, where that is not what the spec asks for.
    #[serde(skip)]
    held: Option<Box<Requests>>,
}

/// What decisions about pods need of `metadata` beside what every object has.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodMeta {
    annotations: BTreeMap<Box<str>, Box<str>>,
    pub generation: i64,
}

/// `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The generation of the spec that the node has seen.
    pub observed_generation: i64,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Box<str>,
    /// Why it is in that phase, e.g. `Evicted`.
    pub reason: Box<str>,
    /// Its address.
    #[serde(rename = "podIP")]
    pub pod_ip: Box<str>,
    /// Its addresses, one per family.
    #[serde(rename = "podIPs")]
    pub pod_ips: Box<[Ip]>,
    /// Its node's address.
    #[serde(rename = "hostIP")]
    pub host_ip: Box<str>,
    /// The node that room is being made on for it.
    pub nominated_node_name: Box<str>,
    /// When the node took it.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Time>,
    /// Its conditions.
    pub conditions: Box<[Condition]>,
    /// How its init containers are.
    pub init_container_statuses: Box<[ContainerStatus]>,
    /// How its containers are.
    pub container_statuses: Box<[ContainerStatus]>,
}

/// One address of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ip {
    /// The address.
    pub ip: Box<str>,
}

/// How one container is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container.
    pub name: Box<str>,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it has started.
    pub started: Option<bool>,
    /// How often it was started again.
    pub restart_count: i32,
    /// Now.
    pub state: ContainerState,
}

/// One of three, or none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not started yet.
    pub waiting: Option<Waiting>,
    /// Started.
    pub running: Option<Running>,
    /// Ended.
    pub terminated: Option<Terminated>,
}

/// Why a container waits.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// E.g. `ImagePullBackOff`.
    pub reason: Box<str>,
}

/// Since when a container runs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Running {
    /// Since when.
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Time>,
}

/// How a container ended.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// Its exit code.
    pub exit_code: i32,
    /// E.g. `OOMKilled`.
    pub reason: Box<str>,
    /// When.
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Time>,
}

impl Fact for Pod {
    fn read(bytes: &[u8]) -> Pod {
        let mut pod: Pod = meta::stored::read(bytes).unwrap_or_default();
        pod.held = held::requests(&pod, bytes);
        pod
    }
}

impl Pod {
    /// The projection of a pod.
    pub fn of(object: &Object) -> Arc<Pod> {
        <Pod as Fact>::of(object)
    }

    /// What it takes of its node: what it asks for, but for a pod that is being given other resources.
    pub fn requests(&self) -> Requests {
        self.held.as_deref().cloned().unwrap_or_else(|| self.spec.requests())
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        Condition::find(&self.status.conditions, type_)
    }

    /// Whether its Ready condition is `True`.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// Since when it has been ready; `None` when it is not.
    pub fn ready_since(&self) -> Option<Time> {
        let ready = self.condition("Ready")?;
        ready.is_true().then_some(ready.last_transition_time.unwrap_or(Time::EPOCH))
    }

    /// From when on it counts as available, if it stays ready; `None` when it is not ready.
    pub fn available_from(&self, min_ready_seconds: i64) -> Option<Time> {
        let span = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
        Some(self.ready_since()?.after(span))
    }

    /// Whether it has been ready for `min_ready_seconds`.
    pub fn is_available(&self, min_ready_seconds: i64, now: Time) -> bool {
        // Without a waiting time, readiness is enough: a clock that jumped back takes no availability away.
        self.available_from(min_ready_seconds).is_some_and(|from| min_ready_seconds <= 0 || from <= now)
    }

    /// Whether it has ended for good.
    pub fn is_finished(&self) -> bool {
        matches!(&*self.status.phase, "Succeeded" | "Failed")
    }

    /// Whether the node has been chosen.
    pub fn is_bound(&self) -> bool {
        !self.spec.node_name.is_empty()
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(|value| &**value)
    }

    /// What deleting it costs (`controller.kubernetes.io/pod-deletion-cost`); 0 when absent or malformed.
    pub fn deletion_cost(&self) -> i32 {
        let written = self.annotation("controller.kubernetes.io/pod-deletion-cost").unwrap_or("0");
        // Upstream refuses a leading plus or zero: one number has one spelling.
        let (sign, digits) = written.split_at(usize::from(written.starts_with('-')));
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
        if plain && (sign.is_empty() || digits != "0") { written.parse().unwrap_or(0) } else { 0 }
    }

    /// How often its most restarted container was started again: ordinary containers, then sidecars.
    pub fn restarts_max(&self) -> (i32, i32) {
        let most = |statuses: &[ContainerStatus], counts: &dyn Fn(&str) -> bool| {
            statuses.iter().filter(|s| counts(&s.name)).map(|s| s.restart_count).max().unwrap_or(0)
        };
        let is_sidecar = |name: &str| self.spec.init_containers.iter().any(|c| c.is_sidecar() && &*c.name == name);
        (most(&self.status.container_statuses, &|_| true), most(&self.status.init_container_statuses, &is_sidecar))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> Pod {
        Pod::read(value.to_string().as_bytes())
    }

    #[test]
    fn availability_needs_time() {
        let since = "2026-11-30T00:00:00Z";
        let ready = pod(json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since}]}}));
        let at = |secs| Time::parse(since).expect("valid").after(Duration::from_secs(secs));
        assert!(ready.is_ready() && ready.is_available(0, at(0)));
        assert!(!ready.is_available(10, at(9)));
        assert!(ready.is_available(10, at(10)));
        assert_eq!(ready.available_from(10), Some(at(10)));
        assert!(!pod(json!({})).is_available(0, at(0)));
    }

    #[test]
    fn the_cost_of_deletion_has_one_spelling() {
        let check = |text: &str, expected: i32| {
            let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": text});
            assert_eq!(pod(json!({"metadata": {"annotations": annotations}})).deletion_cost(), expected, "{text}");
        };
        for (text, cost) in
            [("100", 100), ("-5", -5), ("0", 0), ("+5", 0), ("05", 0), ("-0", 0), ("", 0), ("9999999999", 0)]
        {
            check(text, cost);
        }
    }
}
