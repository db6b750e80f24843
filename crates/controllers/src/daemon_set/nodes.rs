//! Which nodes a daemon is meant for.

use brain::Meta;
use brain::facts::{Node, PodSpec, Toleration, first_untolerated};

/// What every daemon tolerates: it belongs to the node, whatever state that is in.
const ALWAYS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What a daemon on the node's own network tolerates besides.
const ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What a node means for a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// A pod should be there.
    pub runs: bool,
    /// A pod that is there may stay.
    pub stays: bool,
}

/// The tolerations that every pod of a daemon gets.
pub(super) fn tolerations(host_network: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    ALWAYS.into_iter().chain(host_network.then_some(ON_HOST_NETWORK))
}

/// Whether a pod with this spec is meant for the node.
pub(super) fn verdict(spec: &PodSpec, meta: &Meta, node: &Node) -> Verdict {
    let named = spec.node_name.is_empty() || spec.node_name == meta.name;
    if !named || !spec.selects_node(&meta.labels, &meta.name) {
        return Verdict::default();
    }
    let own = spec.tolerations.iter().cloned();
    let tolerated: Vec<Toleration> =
        own.chain(tolerations(spec.host_network).map(|(key, effect)| Toleration::exists(key, effect))).collect();
    let untolerated = |effects: &[&str]| first_untolerated(&node.spec.taints, &tolerated, effects).is_some();
    Verdict { runs: !untolerated(&["NoSchedule", "NoExecute"]), stays: !untolerated(&["NoExecute"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seen;
    use serde_json::{Value, json};

    #[test]
    fn taints_selectors_and_names_decide() {
        let check = |spec: Value, node: Value, runs: bool, stays: bool| {
            let read: PodSpec = serde_json::from_value(spec.clone()).expect("reads");
            let mut object = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd"}}});
            object["spec"] = node.clone();
            let node_seen = seen::<Node>(object);
            let expected = Verdict { runs, stays };
            assert_eq!(verdict(&read, node_seen.meta(), &node_seen.facts), expected, "{spec} {node}");
        };
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "effect": effect}]});
        check(json!({}), json!({}), true, true);
        check(json!({"nodeName": "n2"}), json!({}), false, false);
        check(json!({"nodeSelector": {"disk": "ssd"}}), json!({}), true, true);
        check(json!({"nodeSelector": {"disk": "hdd"}}), json!({}), false, false);
        check(json!({}), taint("gpu", "NoSchedule"), false, true);
        check(json!({}), taint("gpu", "NoExecute"), false, false);
        check(json!({}), taint("gpu", "PreferNoSchedule"), true, true);
        check(json!({"tolerations": [{"operator": "Exists"}]}), taint("gpu", "NoExecute"), true, true);
        check(json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), true, true);
        check(json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), true, true);
        check(json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), false, true);
        check(json!({"hostNetwork": true}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), true, true);
    }
}
