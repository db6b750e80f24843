//! What a pod whose resources are being changed takes of its node: what it asks for, what it was granted, and what its
//! containers have may be three different things.

use meta::stored;
use serde::Deserialize;

use super::{Condition, Container, Pod, Quantities, Requests};

/// The condition of a pod that asks for other resources than it was granted.
const PENDING: &str = "PodResizePending";
/// The condition of a pod whose containers do not have yet what it was granted.
const IN_PROGRESS: &str = "PodResizeInProgress";
/// Why it is not granted them: not even an empty node would have them.
const INFEASIBLE: &str = "Infeasible";

/// The parts of a pod's status that only matter then: they are not kept.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allocated_resources: Option<Quantities>,
    resources: Option<Given>,
    init_container_statuses: Box<[Own]>,
    container_statuses: Box<[Own]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Own {
    name: Box<str>,
    allocated_resources: Option<Quantities>,
    resources: Option<Given>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Given {
    requests: Option<Quantities>,
}

/// Whether the spec may say something else than the node holds: it has changed since the node looked, or the node says
/// so. Nearly no pod at nearly no time.
fn may_differ(pod: &Pod) -> bool {
    let is_said = |condition: &Condition| matches!(&*condition.type_, PENDING | IN_PROGRESS);
    pod.is_bound()
        && !pod.status.container_statuses.is_empty()
        && (pod.metadata.generation != pod.status.observed_generation || pod.status.conditions.iter().any(is_said))
}

/// What its node holds for the pod of these bytes, where that is not what its spec asks for: the most of what is asked
/// for, was granted and is had; without what is asked for if that can never be.
pub(super) fn requests(pod: &Pod, bytes: &[u8]) -> Option<Box<Requests>> {
    if !may_differ(pod) {
        return None;
    }
    let told: Told = stored::read(bytes).ok()?;
    let pending = pod.condition(PENDING);
    let is_asked_for = pending.is_none_or(|pending| &*pending.reason != INFEASIBLE);
    let asked = |container: &Container| match is_asked_for {
        true => container.resources.requests.whole(),
        false => Requests::default(),
    };
    let granted = |container: &Container| told.status.granted(container).map(Quantities::whole);
    let had = |container: &Container| told.status.had(container).map(Quantities::whole);
    let mut total = pod.spec.sum(asked);
    total.raise_to(&pod.spec.sum(|container| granted(container).unwrap_or_else(|| asked(container))));
    total.raise_to(
        &pod.spec.sum(|container| had(container).or_else(|| granted(container)).unwrap_or_else(|| asked(container))),
    );
    told.status.replace_by_whole(pod, is_asked_for, &mut total);
    total.add(&pod.spec.overhead.whole());
    (total != pod.spec.requests()).then(|| Box::new(total))
}

impl Status {
    fn of(&self, container: &Container) -> Option<&Own> {
        let mut all = self.container_statuses.iter().chain(&self.init_container_statuses);
        all.find(|own| own.name == container.name)
    }

    fn granted(&self, container: &Container) -> Option<&Quantities> {
        self.of(container)?.allocated_resources.as_ref()
    }

    fn had(&self, container: &Container) -> Option<&Quantities> {
        self.of(container)?.resources.as_ref()?.requests.as_ref()
    }

    /// What the pod asks for as a whole counts instead of its containers; a node counts the overhead in.
    fn replace_by_whole(&self, pod: &Pod, is_asked_for: bool, total: &mut Requests) {
        let Some(asked) = pod.spec.resources.as_ref().map(|whole| &whole.requests) else { return };
        let had = self.resources.as_ref().and_then(|given| given.requests.as_ref());
        let told: Vec<Requests> =
            [self.allocated_resources.as_ref(), had].into_iter().flatten().map(Quantities::whole).collect();
        let overhead = pod.spec.overhead.whole();
        asked.whole().each(|name, amount| {
            if asked.get(name).is_some() {
                let own = (is_asked_for || told.is_empty()).then_some(amount);
                let others = told.iter().map(|told| told.get(name).saturating_sub(overhead.get(name)));
                total.set(name, own.into_iter().chain(others).max().unwrap_or(0));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fact;
    use super::*;
    use meta::ObjectExt;
    use serde_json::{Value, json};

    fn cpu(amount: &str) -> Value {
        json!({"requests": {"cpu": amount}})
    }

    /// A pod that asks for `asked`, was granted `granted` and has `had`.
    fn pod(asked: &str, granted: &str, had: &str, conditions: Value) -> Value {
        json!({"metadata": {"generation": 2},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": cpu(asked)}, {"name": "other"}]},
            "status": {"observedGeneration": 2, "conditions": conditions, "containerStatuses": [
                {"name": "c", "allocatedResources": {"cpu": granted}, "resources": cpu(had)}, {"name": "other"}]}})
    }

    fn check(pod: &Value, milli: i64) {
        let read = Pod::read(pod.to_string().as_bytes());
        assert_eq!(read.requests().cpu_milli, milli, "{pod}");
    }

    #[test]
    fn the_most_counts_of_what_is_asked_for_granted_and_had() {
        let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        let in_progress = json!([{"type": "PodResizeInProgress", "status": "True"}]);
        check(&pod("3", "1", "1", pending("Deferred")), 3_000);
        check(&pod("3", "1", "1", pending("Infeasible")), 1_000);
        check(&pod("3", "1", "2", pending("Infeasible")), 2_000);
        check(&pod("1", "1", "2", in_progress.clone()), 2_000);
        check(&pod("2", "2", "1", in_progress), 2_000);
        // Without a word of the node, the spec has been done.
        check(&pod("1", "2", "2", json!([])), 1_000);
        // Unless the node has not seen it yet.
        let mut unseen = pod("1", "2", "2", json!([]));
        unseen.put(&["status", "observedGeneration"], 1);
        check(&unseen, 2_000);
        // A pod that has never been on a node has nothing.
        let mut new = unseen.clone();
        new["spec"].remove(&["nodeName"]);
        check(&new, 1_000);
    }

    #[test]
    fn sidecars_overhead_and_the_pod_as_a_whole() {
        let pending = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        let mut with = pod("30", "1", "1", pending);
        with.put(&["spec", "overhead"], json!({"cpu": "250m"}));
        with.put(
            &["spec", "initContainers"],
            json!([{"name": "s", "restartPolicy": "Always", "resources": cpu("40")}]),
        );
        let own = json!([{"name": "s", "allocatedResources": {"cpu": "500m"}}]);
        with.put(&["status", "initContainerStatuses"], own);
        check(&with, 1_750);
        with.put(&["spec", "resources"], cpu("8"));
        // A node that says nothing of the pod as a whole.
        check(&with, 8_250);
        with.put(&["status", "allocatedResources"], json!({"cpu": "2250m"}));
        check(&with, 2_250);
    }
}
