//! What is said when a pod has to go, in kubelet's words.

use std::collections::BTreeMap;

use brain::Note;
use meta::{ObjectExt, Quantity};
use serde_json::Value;

use super::{EVICTED, GRACE_AT_ONCE, Observations, PodUsage, Policy, Signal, Threshold};
use crate::pod::Verdict;

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// What its status will say.
    pub verdict: Verdict,
    /// Annotations of the event.
    pub annotations: BTreeMap<String, String>,
}

/// What is said of the node when something runs short.
pub fn attempt(threshold: &Threshold) -> Note {
    Note::warning("EvictionThresholdMet", format!("Attempting to reclaim {}", threshold.signal.resource()))
}

impl Eviction {
    /// For what the pod itself has done.
    pub(super) fn for_breach(message: String) -> Eviction {
        let verdict = Verdict { reason: EVICTED.to_owned(), message, is_disruption: false, grace: Some(GRACE_AT_ONCE) };
        Eviction { verdict, annotations: BTreeMap::new() }
    }
}

/// The eviction of `pod` because `threshold` was crossed, as `found`.
pub fn eviction(
    policy: &Policy,
    threshold: &Threshold,
    found: &Observations,
    pod: &Value,
    usage: Option<&PodUsage>,
) -> Eviction {
    let resource = threshold.signal.resource();
    let mut message = format!("The node was low on resource: {resource}. ");
    if let Some(amount) = found.get(&threshold.signal) {
        let available = threshold.signal.quantity(amount.available);
        let limit = threshold.below.shown(amount.capacity);
        message.push_str(&format!("Threshold quantity: {limit}, available: {available}. "));
    }
    let mut annotations = BTreeMap::new();
    if let Some(usage) = usage {
        whole_pod(threshold.signal, pod, usage, &mut message, &mut annotations);
        containers(resource, pod, usage, &mut message, &mut annotations);
        annotations.insert("starved_resource".to_owned(), resource.to_owned());
    }
    let grace = if threshold.grace.is_zero() { GRACE_AT_ONCE } else { policy.soft_grace_max.max(GRACE_AT_ONCE) };
    let verdict = Verdict { reason: EVICTED.to_owned(), message, is_disruption: true, grace: Some(grace) };
    Eviction { verdict, annotations }
}

/// A pod that has asked for memory as a whole.
fn whole_pod(
    signal: Signal,
    pod: &Value,
    usage: &PodUsage,
    message: &mut String,
    annotations: &mut BTreeMap<String, String>,
) {
    let asked = pod.at(&["spec", "resources", "requests", "memory"]).and_then(|value| Quantity::from_value(value).ok());
    let Some(asked) = asked.filter(|_| signal == Signal::MemoryAvailable) else { return };
    let (name, used) = (pod.name(), Quantity::from_bytes(usage.memory));
    message.push_str(&format!("Pod {name} was using {used}, request is {asked}, has larger consumption of memory. "));
    annotations.insert("offending_pod".to_owned(), name.to_owned());
    annotations.insert("offending_pod_usage".to_owned(), used.to_string());
}

/// Containers that take more than they have asked for.
fn containers(
    resource: &str,
    pod: &Value,
    usage: &PodUsage,
    message: &mut String,
    annotations: &mut BTreeMap<String, String>,
) {
    let (mut names, mut amounts) = (Vec::new(), Vec::new());
    for container in &usage.containers {
        let lists = ["containers", "initContainers"].iter().flat_map(|list| pod.items(&["spec", list]));
        let spec = lists.into_iter().find(|spec| spec.text(&["name"]) == container.name);
        let used = match resource {
            "memory" => container.memory,
            "ephemeral-storage" => container.root.plus(container.logs).bytes,
            _ => continue,
        };
        let Some(spec) = spec else { continue };
        let asked = spec.at(&["resources", "requests", resource]).and_then(|value| Quantity::from_value(value).ok());
        let (asked, used) = (asked.unwrap_or(Quantity::ZERO), Quantity::from_bytes(used));
        if used > asked {
            message.push_str(&format!(
                "Container {} was using {used}, request is {asked}, has larger consumption of {resource}. ",
                container.name
            ));
            names.push(container.name.as_str());
            amounts.push(used.to_string());
        }
    }
    annotations.insert("offending_containers".to_owned(), names.join(","));
    annotations.insert("offending_containers_usage".to_owned(), amounts.join(","));
}

#[cfg(test)]
mod tests {
    use super::super::{Amount, ContainerUsage};
    use super::*;
    use serde_json::json;

    #[test]
    fn sentences() {
        let policy = Policy::default();
        let found = Observations::from([
            (Signal::MemoryAvailable, Amount { available: 50 << 20, capacity: 1 << 30 }),
            (Signal::NodeFsAvailable, Amount { available: 7 << 20, capacity: 1000 << 20 }),
        ]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "a", "resources": {"requests": {"memory": "10Mi"}}}, {"name": "b"},
        ]}});
        let usage = PodUsage {
            containers: vec![
                ContainerUsage { name: "a".into(), memory: 20 << 20, ..ContainerUsage::default() },
                ContainerUsage { name: "gone".into(), memory: 20 << 20, ..ContainerUsage::default() },
            ],
            ..PodUsage::default()
        };
        let check = |signal: Signal, expected: &str, offending: &str| {
            let threshold = policy.thresholds.iter().find(|threshold| threshold.signal == signal).expect("a default");
            let said = eviction(&policy, threshold, &found, &pod, Some(&usage));
            assert_eq!(said.verdict.message, expected);
            assert_eq!(said.annotations["offending_containers"], offending);
            assert_eq!((said.verdict.reason.as_str(), said.verdict.is_disruption), ("Evicted", true));
            assert_eq!(said.verdict.grace, Some(GRACE_AT_ONCE));
        };
        check(
            Signal::MemoryAvailable,
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container a was using \
             20Mi, request is 10Mi, has larger consumption of memory. ",
            "a",
        );
        check(
            Signal::NodeFsAvailable,
            "The node was low on resource: ephemeral-storage. Threshold quantity: 104857601, available: 7Mi. ",
            "",
        );
        check(Signal::ImageFsInodesFree, "The node was low on resource: inodes. ", "");
    }

    #[test]
    fn a_pod_that_asked_as_a_whole() {
        let policy = Policy::default();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"resources": {"requests": {"memory": "1Mi"}}}});
        let usage = PodUsage { memory: 3 << 20, ..PodUsage::default() };
        let said = eviction(&policy, &policy.thresholds[0], &Observations::new(), &pod, Some(&usage));
        let expected = "The node was low on resource: memory. Pod p was using 3Mi, request is 1Mi, has larger \
                        consumption of memory. ";
        assert_eq!(said.verdict.message, expected);
        assert_eq!(
            (said.annotations["offending_pod"].as_str(), said.annotations["offending_pod_usage"].as_str()),
            ("p", "3Mi")
        );
    }
}
