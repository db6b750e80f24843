//! Whether a node takes a pod that was bound to it: others may have bound more than fits.

use std::sync::Arc;

use brain::facts::{self, Requests};
use meta::labels::LabelMap;

use crate::pod::Verdict;
use crate::resize::{Pending, Reason};

/// What the decision is about.
pub struct Node<'n> {
    /// Its name.
    pub name: &'n str,
    /// Its labels.
    pub labels: &'n LabelMap,
    /// Its taints and what it has.
    pub facts: &'n facts::Node,
}

/// A pod that has not ended.
pub struct Other {
    /// Its ports.
    pub facts: Arc<facts::Pod>,
    /// What it takes of the node: its spec may ask for more.
    pub taken: Requests,
}

/// Why `pod` cannot be on `node` beside `others`; `None` when it can.
pub fn refusal(node: &Node<'_>, others: &[Other], pod: &facts::Pod) -> Option<Verdict> {
    let short = resources(node, others, pod);
    short
        .and_then(|(name, message)| verdict(format!("OutOf{name}"), message))
        .or_else(|| affinity(node, pod))
        .or_else(|| ports(others, pod))
        .or_else(|| taints(node, pod))
}

fn verdict(reason: impl Into<String>, message: String) -> Option<Verdict> {
    let message = format!("Pod was rejected: {message}");
    Some(Verdict { reason: reason.into(), message, ..Verdict::default() })
}

/// Why `pod`, which is on `node` already, cannot have what it asks for by now; `None` when it can.
pub fn resize_refusal(node: &Node<'_>, others: &[Other], pod: &facts::Pod) -> Option<Pending> {
    let (wanted, whole) = (pod.spec.requests(), node.facts.status.allocatable.whole());
    // Memory first, as upstream.
    let too_much = ["memory", "cpu"].into_iter().find(|name| wanted.get(name) > whole.get(name));
    if let Some(name) = too_much {
        let what = format!("requested: {}, capacity: {}", wanted.get(name), whole.get(name));
        let message = format!("Node didn't have enough capacity: {name}, {what}");
        return Some(Pending { reason: Reason::Infeasible, message });
    }
    resources(node, others, pod).map(|(_, message)| Pending { reason: Reason::Deferred, message })
}

/// The resource that there is too little of, and how much there is.
fn resources(node: &Node<'_>, others: &[Other], pod: &facts::Pod) -> Option<(String, String)> {
    let room = node.facts.status.allocatable.whole();
    let room_for = |name: &str| node.facts.status.allocatable.get(name).map(|_| room.get(name));
    let short = |name: &str, wanted: i64, used: i64, capacity: i64| {
        let what = format!("requested: {wanted}, used: {used}, capacity: {capacity}");
        Some((name.to_owned(), format!("Node didn't have enough resource: {name}, {what}")))
    };
    let count = i64::try_from(others.len()).unwrap_or(i64::MAX);
    if let Some(most) = room_for("pods").filter(|most| count >= *most) {
        return short("pods", 1, count, most);
    }
    let mut used = Requests::default();
    others.iter().for_each(|other| used.add(&other.taken));
    let mut refusal = None;
    pod.spec.requests().each(|name, wanted| {
        let (taken, capacity) = (used.get(name), room_for(name).unwrap_or(0));
        if refusal.is_none() && wanted > 0 && wanted > capacity.saturating_sub(taken) {
            refusal = short(name, wanted, taken, capacity);
        }
    });
    refusal
}

fn affinity(node: &Node<'_>, pod: &facts::Pod) -> Option<Verdict> {
    if pod.spec.selects_node(node.labels, node.name) {
        return None;
    }
    let why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    verdict("NodeAffinity", why.to_owned())
}

fn ports(others: &[Other], pod: &facts::Pod) -> Option<Verdict> {
    let clash = |(ip, protocol, port): (&str, &str, i32), taken: (&str, &str, i32)| {
        let same_place = ip == taken.0 || ip == "0.0.0.0" || taken.0 == "0.0.0.0";
        same_place && (protocol, port) == (taken.1, taken.2)
    };
    let is_taken = |wanted| others.iter().any(|other| other.facts.spec.host_ports().any(|taken| clash(wanted, taken)));
    if !pod.spec.host_ports().any(is_taken) {
        return None;
    }
    let why = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    verdict("NodePorts", why.to_owned())
}

/// Only NoExecute: what keeps pods from being bound says nothing about one that is.
fn taints(node: &Node<'_>, pod: &facts::Pod) -> Option<Verdict> {
    let untolerated = facts::first_untolerated(&node.facts.spec.taints, &pod.spec.tolerations, &["NoExecute"])?;
    let why = format!(
        "Predicate TaintToleration failed: node(s) had untolerated taint {{{}: {}}}",
        untolerated.key, untolerated.value
    );
    verdict("TaintToleration", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brain::facts::Fact;
    use serde_json::{Value, json};

    fn check(others: &[Value], pod: Value, reason: &str) {
        let decide = |node: &Node<'_>, others: &[Other], pod: &facts::Pod| {
            refusal(node, others, pod).map(|verdict| verdict.reason)
        };
        assert_eq!(decided(others, &pod, decide).unwrap_or_default(), reason, "{pod}");
    }

    fn decided<T>(others: &[Value], pod: &Value, decide: impl Fn(&Node<'_>, &[Other], &facts::Pod) -> T) -> T {
        let node = json!({
            "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}, {"key": "full", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}},
        });
        let read = |pod: &Value| {
            let mut pod = json!({ "spec": pod });
            let tolerations = pod["spec"].get("tolerations").cloned().unwrap_or(json!([{"operator": "Exists"}]));
            pod["spec"]["tolerations"] = tolerations;
            facts::Pod::read(pod.to_string().as_bytes())
        };
        let facts = facts::Node::read(node.to_string().as_bytes());
        let labels = LabelMap::from_iter([("zone", "a".into())]);
        let other = |pod: facts::Pod| Other { taken: pod.spec.requests(), facts: Arc::new(pod) };
        let others: Vec<Other> = others.iter().map(|pod| other(read(pod))).collect();
        decide(&Node { name: "n", labels: &labels, facts: &facts }, &others, &read(pod))
    }

    #[test]
    fn a_resize_waits_for_room_or_for_ever() {
        let pod = |cpu: &str, memory: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}]});
        let check = |others: &[Value], wanted: Value, expected: Option<(Reason, &str)>| {
            let pending = decided(others, &wanted, resize_refusal);
            assert_eq!(pending.as_ref().map(|p| (p.reason, p.message.as_str())), expected, "{wanted}");
        };
        check(&[pod("1", "0")], pod("1", "1Gi"), None);
        let short = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000";
        check(&[pod("1", "0")], pod("1500m", "0"), Some((Reason::Deferred, short)));
        let never = "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000";
        check(&[], pod("3", "0"), Some((Reason::Infeasible, never)));
        let never = "Node didn't have enough capacity: memory, requested: 2147483648, capacity: 1073741824";
        check(&[], pod("3", "2Gi"), Some((Reason::Infeasible, never)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let cpu = |amount: &str| json!({"containers": [{"resources": {"requests": {"cpu": amount}}}]});
        let port = |port: i32| json!({"containers": [{"ports": [{"hostPort": port}]}]});
        check(&[], cpu("2"), "");
        check(&[cpu("1")], cpu("1500m"), "OutOfcpu");
        check(&[], json!({"containers": [{"resources": {"requests": {"memory": "2Gi"}}}]}), "OutOfmemory");
        check(&[], json!({"containers": [{"resources": {"requests": {"a.com/gpu": "1"}}}]}), "OutOfa.com/gpu");
        check(&[json!({}), json!({}), json!({})], json!({}), "OutOfpods");
        check(&[], json!({"nodeSelector": {"zone": "a"}}), "");
        check(&[], json!({"nodeSelector": {"zone": "b"}}), "NodeAffinity");
        check(&[port(80)], port(80), "NodePorts");
        check(&[port(80)], port(81), "");
        check(&[], json!({"tolerations": []}), "TaintToleration");
        check(&[], json!({"tolerations": [{"key": "gone", "operator": "Exists"}]}), "");
    }
}
