//! Resources.

use std::borrow::Cow;

use crate::ask::Ask;
use crate::node_info::NodeInfo;
use crate::reason::Reason;

/// Adds what the node has too little of.
pub(super) fn filter(ask: &Ask, node: &NodeInfo, reasons: &mut Vec<Reason>) {
    if node.pods.len() as i64 + 1 > node.pods_max {
        reasons.push(Reason::TooManyPods);
    }
    each_lack(ask, node, |resource, never| reasons.push(Reason::Insufficient { resource, never }));
}

/// Whether the node has room for the pod.
pub fn fits_alone(ask: &Ask, node: &NodeInfo) -> bool {
    let mut fits = (node.pods.len() as i64) < node.pods_max;
    each_lack(ask, node, |_, _| fits = false);
    fits
}

fn each_lack(ask: &Ask, node: &NodeInfo, mut lacks: impl FnMut(Cow<'static, str>, bool)) {
    let (want, all, used) = (&ask.wants.requests, &node.allocatable, &node.used);
    let mut look = |name: Cow<'static, str>, want: i64, all: i64, used: i64| {
        if want > 0 && want > all.saturating_sub(used) {
            lacks(name, want > all);
        }
    };
    look(Cow::Borrowed("cpu"), want.cpu_milli, all.cpu_milli, used.cpu_milli);
    look(Cow::Borrowed("memory"), want.memory, all.memory, used.memory);
    look(Cow::Borrowed("ephemeral-storage"), want.ephemeral_storage, all.ephemeral_storage, used.ephemeral_storage);
    for (name, amount) in &want.others {
        // The name is copied only when there is something to say.
        if *amount > all.get(name).saturating_sub(used.get(name)) {
            look(Cow::Owned(name.to_string()), *amount, all.get(name), used.get(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, node, object};
    use serde_json::{Value, json};

    fn check(requests: Value, expected: &[(&str, bool)]) {
        let mut info = NodeInfo::new(object("core/nodes", &node("n1", "a")), 1);
        info.add(&ask("there", crate::testing::cpu(3000)));
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
        let mut reasons = Vec::new();
        filter(&ask("p", spec), &info, &mut reasons);
        let told: Vec<_> = reasons.iter().map(|reason| (reason.to_string(), reason.is_resolvable())).collect();
        let expected: Vec<_> = expected.iter().map(|(text, resolvable)| ((*text).to_owned(), *resolvable)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn every_lack_is_told() {
        check(json!({}), &[]);
        check(json!({"cpu": "1"}), &[]);
        check(json!({"cpu": "1001m"}), &[("Insufficient cpu", true)]);
        check(json!({"cpu": "5"}), &[("Insufficient cpu", false)]);
        check(json!({"cpu": "2", "memory": "9Gi"}), &[("Insufficient cpu", true), ("Insufficient memory", false)]);
        check(json!({"example.com/gpu": "1"}), &[("Insufficient example.com/gpu", false)]);
        check(json!({"example.com/gpu": "0"}), &[]);
    }

    #[test]
    fn a_pod_that_is_resized_takes_the_most_of_what_it_may_have() {
        let check = |asked: i64, granted: &str, reason: &str, is_room_for_one: bool| {
            let mut there = crate::testing::pod("there", crate::testing::cpu(asked));
            there["spec"]["nodeName"] = json!("n1");
            there["status"] = json!({"phase": "Running",
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": granted}}]});
            let mut info = NodeInfo::new(object("core/nodes", &node("n1", "a")), 1);
            info.add(&crate::Ask::of(object("core/pods", &there)));
            let fits = fits_alone(&ask("p", crate::testing::cpu(1000)), &info);
            assert_eq!(fits, is_room_for_one, "{asked} {granted} {reason}");
        };
        check(4000, "3", "Deferred", false);
        check(4000, "3", "Infeasible", true);
        check(40_000, "3", "Infeasible", true);
        check(1000, "4", "Deferred", false);
    }

    #[test]
    fn pods_are_counted() {
        let mut info = NodeInfo::new(object("core/nodes", &node("n1", "a")), 1);
        (0..10).for_each(|i| info.add(&ask(&format!("p{i}"), json!({}))));
        let mut reasons = Vec::new();
        filter(&ask("p", json!({})), &info, &mut reasons);
        assert_eq!(reasons, [Reason::TooManyPods]);
        info.remove(&ask("p3", json!({})));
        assert!(fits_alone(&ask("p", json!({})), &info));
    }
}
