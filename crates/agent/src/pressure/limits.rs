//! Pods that have written more than they may: volumes with a size, containers and pods with a limit.

use meta::{ObjectExt, Quantity};
use serde_json::Value;

use super::{Eviction, PodUsage};

/// The resource.
const STORAGE: &str = "ephemeral-storage";

/// Whether something of the pod is limited, so that it has to be looked at.
pub fn has_limits(pod: &Value) -> bool {
    pod.items(&["spec", "volumes"]).iter().any(|volume| size_limit(volume).is_some()) || pod_limit(pod).is_some()
}

/// Whether the node itself has to see to the size: a file system in memory has its own.
pub fn is_on_disk(volume: &Value) -> bool {
    let own = volume.get("emptyDir").filter(|source| source.is_object());
    own.is_some_and(|source| source.text(&["medium"]) != "Memory")
}

/// Why the pod has to go; the first reason counts.
pub fn violation(pod: &Value, usage: &PodUsage) -> Option<Eviction> {
    volume(pod, usage).or_else(|| whole(pod, usage)).or_else(|| container(pod, usage)).map(Eviction::for_breach)
}

fn amount(value: &Value) -> Option<Quantity> {
    Quantity::from_value(value).ok().filter(|limit| !limit.is_zero() && !limit.is_negative())
}

fn size_limit(volume: &Value) -> Option<Quantity> {
    amount(volume.at(&["emptyDir", "sizeLimit"])?)
}

/// Only where every container has one is the pod limited.
fn pod_limit(pod: &Value) -> Option<Quantity> {
    kinds::pod::resources::aggregate(&pod["spec"], "limits").get(STORAGE).copied()
}

fn volume(pod: &Value, usage: &PodUsage) -> Option<String> {
    pod.items(&["spec", "volumes"]).iter().find_map(|volume| {
        let (name, limit) = (volume.text(&["name"]), size_limit(volume)?);
        let used = usage.volumes.get(name)?;
        let is_beyond = Quantity::from_bytes(used.bytes) > limit;
        is_beyond.then(|| format!("Usage of EmptyDir volume {name:?} exceeds the limit \"{limit}\". "))
    })
}

fn whole(pod: &Value, usage: &PodUsage) -> Option<String> {
    let limit = pod_limit(pod)?;
    let is_beyond = Quantity::from_bytes(usage.disk().bytes) > limit;
    is_beyond.then(|| format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "))
}

fn container(pod: &Value, usage: &PodUsage) -> Option<String> {
    usage.containers.iter().find_map(|container| {
        let mut specs = pod.items(&["spec", "containers"]).iter();
        let spec = specs.find(|spec| spec.text(&["name"]) == container.name)?;
        let limit = amount(spec.at(&["resources", "limits", STORAGE])?)?;
        let is_beyond = Quantity::from_bytes(container.root.plus(container.logs).bytes) > limit;
        is_beyond
            .then(|| format!("Container {} exceeded its local ephemeral storage limit \"{limit}\". ", container.name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{ContainerUsage, Used};
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn who_has_written_too_much() {
        let pod = |size: &str, limits: &[Value]| {
            let containers: Vec<Value> = limits
                .iter()
                .enumerate()
                .map(|(at, limits)| json!({"name": format!("c{at}"), "resources": {"limits": limits}}))
                .collect();
            let volumes = json!([{"name": "v", "emptyDir": if size.is_empty() { json!({}) } else { json!({"sizeLimit": size}) }}]);
            json!({"spec": {"volumes": volumes, "containers": containers}})
        };
        let check = |pod: Value, volume: i64, roots: &[i64], expected: &str| {
            let used = |bytes: i64| Used { bytes, inodes: 1 };
            let containers = roots.iter().enumerate().map(|(at, bytes)| ContainerUsage {
                name: format!("c{at}"),
                root: used(*bytes),
                logs: used(0),
                memory: 0,
            });
            let volumes = BTreeMap::from([("v".to_owned(), used(volume))]);
            let usage = PodUsage { containers: containers.collect(), volumes, ..PodUsage::default() };
            let found = violation(&pod, &usage).map(|eviction| eviction.verdict.message).unwrap_or_default();
            assert_eq!(found, expected, "{pod}");
            assert!(found.is_empty() || has_limits(&pod));
        };
        let storage = |amount: &str| json!({"ephemeral-storage": amount});
        check(pod("", &[json!({})]), 1 << 40, &[1 << 40], "");
        check(pod("1Mi", &[json!({})]), 1 << 20, &[0], "");
        check(
            pod("1Mi", &[json!({})]),
            (1 << 20) + 1,
            &[0],
            "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ",
        );
        check(pod("0", &[json!({})]), 5, &[0], "");
        check(
            pod("", &[storage("10"), storage("5")]),
            10,
            &[3, 3],
            "Pod ephemeral local storage usage exceeds the total limit of containers 15. ",
        );
        check(
            pod("", &[storage("10"), storage("5")]),
            0,
            &[3, 6],
            "Container c1 exceeded its local ephemeral storage limit \"5\". ",
        );
        check(pod("", &[storage("10"), storage("5")]), 0, &[10, 5], "");
        assert!(!has_limits(&pod("", &[json!({"memory": "1"})])));
    }

    #[test]
    fn memory_has_its_own_limit() {
        let check = |source: Value, expected: bool| assert_eq!(is_on_disk(&source), expected, "{source}");
        check(json!({"emptyDir": {}}), true);
        check(json!({"emptyDir": {"medium": "Memory"}}), false);
        check(json!({"hostPath": {"path": "/"}}), false);
    }
}
