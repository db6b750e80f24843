//! Pods, as their controllers see and make them.

use std::collections::BTreeSet;

use brain::facts::{Pod, Seen};
use brain::{Refusal, Resource, Siblings, View, child_base, child_name};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use crate::claim::Owner;

/// Where pods are served.
pub(crate) const PODS: Resource = Resource::new("", "v1", "pods");
/// Where pods are stored.
pub(crate) const COLLECTION: &str = "core/pods";
/// Creations and deletions in one turn, as upstream's burst: a turn stays short, and what a wrong decision can do
/// before the next look is bounded.
pub(crate) const BURST_MAX: usize = 500;

/// Whether the pod counts as a replica: neither ended nor being deleted.
pub(crate) fn is_active(pod: &Seen<Pod>) -> bool {
    !pod.facts.is_finished() && !pod.is_deleting()
}

/// Whether the pod is being deleted and still runs.
pub(crate) fn is_terminating(pod: &Seen<Pod>) -> bool {
    !pod.facts.is_finished() && pod.is_deleting()
}

/// Readiness of some pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Readiness {
    /// Ready.
    pub ready: i64,
    /// Ready for long enough.
    pub available: i64,
    /// When the next ready one becomes available.
    pub next: Option<Time>,
}

impl Readiness {
    /// Counts.
    pub fn of<'p>(pods: impl Iterator<Item = &'p Seen<Pod>>, min_ready_seconds: i64, now: Time) -> Readiness {
        let mut readiness = Readiness::default();
        pods.for_each(|pod| readiness.count(&pod.facts, min_ready_seconds, now));
        readiness
    }

    /// Counts one.
    pub fn count(&mut self, pod: &Pod, min_ready_seconds: i64, now: Time) {
        let Some(from) = pod.available_from(min_ready_seconds) else { return };
        self.ready += 1;
        if pod.is_available(min_ready_seconds, now) {
            self.available += 1;
        } else {
            self.next = Some(self.next.map_or(from, |next| next.min(from)));
        }
    }
}

/// A pod made from a template.
pub(crate) fn from_template(template: &Value, name: &str, owner: &Owner) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": owner.target.namespace, "ownerReferences": [owner.reference()],
    });
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.at(&["metadata", field]) {
            metadata[field] = value.clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.at(&["spec"])})
}

/// The names in the owner's namespace that its pods' generated names might meet.
pub(crate) fn taken_names(view: &View, owner: &Owner) -> BTreeSet<String> {
    let base = format!("{}-", owner.target.name);
    let prefix = format!("{}/{}", owner.target.namespace, child_base(&base));
    let namespace = owner.target.namespace.len() + 1;
    view.snapshot()
        .range(COLLECTION, &prefix, "")
        .filter_map(|(item, _)| item.get(namespace..))
        .map(str::to_owned)
        .collect()
}

/// Names for `count` new pods. They follow from the owner's identity and the children before each, so that the same
/// decision made twice collides instead of doubling.
pub(crate) fn new_names(
    owner: &str,
    identity: &[&str],
    mut siblings: Siblings,
    taken: &BTreeSet<String>,
    count: usize,
) -> Vec<String> {
    let base = format!("{owner}-");
    let mut names: Vec<String> = Vec::with_capacity(count);
    for _ in 0..count {
        let before = siblings.fingerprint();
        let name =
            |attempt: usize| child_name(&base, identity.iter().copied().chain([&*before, &*attempt.to_string()]));
        // One name in a hundred thousand is met: as many attempts as there are names are plenty, and end.
        let is_free = |name: &String| !taken.contains(name) && !names.contains(name);
        let Some(name) = (0..=taken.len() + names.len()).map(name).find(is_free) else { break };
        siblings.add(&name);
        names.push(name);
    }
    names
}

/// Moves the status behind what is made. Names of children follow from their owner's revision, which a status changes: a
/// create that was carried out though nobody heard so must be met by the same name when it is made again. Where something
/// was refused and may be again, the status comes first: it says so.
pub(crate) fn status_after_creations<S>(
    steps: &mut Vec<S>,
    refusal: Option<&Refusal>,
    is_creation: fn(&S) -> bool,
    is_status: fn(&S) -> bool,
) {
    if refusal.is_none() && steps.iter().any(is_creation) {
        let (status, rest): (Vec<S>, Vec<S>) = std::mem::take(steps).into_iter().partition(is_status);
        *steps = rest.into_iter().chain(status).collect();
    }
}
