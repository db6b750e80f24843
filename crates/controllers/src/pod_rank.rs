//! Which pods go first when there are too many.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use brain::facts::{Pod, Seen};
use meta::Time;

/// How many active pods of the same workload each node has.
pub(crate) type Doubled = BTreeMap<Box<str>, usize>;

/// Orders the pods so that the first are the cheapest to lose: not bound, then pending, not ready, with a low
/// deletion cost, doubled up on a node, ready for a short time only, often restarted, young. Times are compared by
/// order of magnitude, so that among pods of about the same age the choice is even.
pub(crate) fn rank(pods: &mut [&Seen<Pod>], doubled: &Doubled, now: Time) {
    pods.sort_by(|a, b| compare(a, b, doubled, now).then_with(|| a.uid().cmp(b.uid())));
}

fn compare(a: &Seen<Pod>, b: &Seen<Pod>, doubled: &Doubled, now: Time) -> Ordering {
    let early = |pod: &Pod| (pod.is_bound(), phase(pod), pod.is_ready(), pod.deletion_cost());
    let crowd = |pod: &Pod| doubled.get(&pod.spec.node_name).copied().unwrap_or(0);
    let restarts = |pod: &Pod| pod.restarts_max();
    early(&a.facts)
        .cmp(&early(&b.facts))
        .then_with(|| crowd(&b.facts).cmp(&crowd(&a.facts)))
        .then_with(|| recency(a.facts.ready_since(), b.facts.ready_since(), now))
        .then_with(|| restarts(&b.facts).cmp(&restarts(&a.facts)))
        .then_with(|| recency(Some(a.meta().creation_timestamp), Some(b.meta().creation_timestamp), now))
}

fn phase(pod: &Pod) -> u8 {
    match &*pod.status.phase {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

/// The later goes first, unless both ages have the same binary order of magnitude.
fn recency(a: Option<Time>, b: Option<Time>, now: Time) -> Ordering {
    let magnitude = |time: Time| now.since(time).as_nanos().checked_ilog2();
    match (a, b) {
        (Some(a), Some(b)) => magnitude(a).cmp(&magnitude(b)),
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::seen;
    use serde_json::{Value, json};

    #[test]
    fn the_cheapest_to_lose_come_first() {
        let now = Time::parse("2026-11-30T12:00:00Z").expect("valid");
        let pod = |name: &str, extra: Value| {
            let mut pod = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-11-30T10:00:00Z"},
                "spec": {"nodeName": "n1"},
                "status": {"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"}]},
            });
            for (pointer, value) in extra.as_object().into_iter().flatten() {
                let path: Vec<&str> = pointer.split('.').collect();
                meta::ObjectExt::put(&mut pod, &path, value.clone());
            }
            seen::<Pod>(pod)
        };
        let ready = |at: &str| json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        let cost = |cost: &str| json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        let pods = [
            pod("h-costly", json!({"metadata.annotations": cost("5"), "spec.nodeName": "n2"})),
            pod("g-plain-n2", json!({"spec.nodeName": "n2"})),
            pod("f-restarted", json!({"spec.nodeName": "n2", "status.containerStatuses": [{"restartCount": 3}]})),
            pod("e-just-ready", json!({"spec.nodeName": "n2", "status.conditions": ready("2026-11-30T11:59:00Z")})),
            pod("d-doubled", json!({})),
            pod("c-cheap", json!({"metadata.annotations": cost("-5")})),
            pod("b-not-ready", json!({"status.conditions": []})),
            pod("a-pending", json!({"status.phase": "Pending"})),
            pod("0-unbound", json!({"spec.nodeName": ""})),
        ];
        let doubled = Doubled::from([("n1".into(), 2), ("n2".into(), 1)]);
        let mut order: Vec<&Seen<Pod>> = pods.iter().collect();
        rank(&mut order, &doubled, now);
        let names: Vec<&str> = order.iter().map(|pod| pod.name()).collect();
        let mut expected: Vec<&str> = pods.iter().map(|pod| pod.name()).collect();
        expected.reverse();
        assert_eq!(names, expected);
    }

    #[test]
    fn pods_of_about_the_same_age_are_chosen_evenly() {
        let now = Time::from_secs(100_000);
        let at = |secs| Some(Time::from_secs(secs));
        assert_eq!(recency(at(99_990), at(99_989), now), Ordering::Equal);
        assert_eq!(recency(at(99_990), at(90_000), now), Ordering::Less);
        assert_eq!(recency(None, at(90_000), now), Ordering::Equal);
    }
}
