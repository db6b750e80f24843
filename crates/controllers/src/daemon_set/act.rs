//! The decision: the revision of the template, the status, pods where they are missing or not meant to be, and then
//! the update.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brain::facts::{Pod, Seen};
use brain::{Outcome, child_name};
use meta::{ObjectExt, Time};
use serde_json::{Map, Value, json};

use super::facts::{Desired, Observed, Strategy};
use super::nodes::tolerations;
use super::rolling::{self, Limits};
use super::{Step, Why, node_of};
use crate::pods::{self, BURST_MAX, PODS, Readiness};
use crate::revisions::{self, Current, POD_LABEL};
use crate::status::{difference, unless_zero};
use crate::target::Target;

/// A failed pod is replaced no sooner than this after it was made. Upstream doubles a delay in memory; a constant
/// pace needs no memory, survives restarts, and is slow enough for a node that refuses every pod.
const FAILED_POD_PACE: Duration = Duration::from_secs(10);
const GENERATION_LABEL: &str = "pod-template-generation";

/// One turn in the making.
pub(super) struct Turn<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub now: Time,
    /// Hashes that mean the current template; the first is what new pods get.
    pub hashes: Vec<String>,
    pub by_node: BTreeMap<&'a str, Vec<&'a Seen<Pod>>>,
    pub limits: Limits,
    /// Nodes that shall get a pod.
    pub create: BTreeSet<&'a str>,
    /// Uids of pods that shall go.
    pub delete: BTreeMap<&'a str, &'a Seen<Pod>>,
}

/// Decides.
pub(super) fn decide(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
    if let Some(fault) = bad_selector(desired) {
        let patch = difference(&observed.status, [("observedGeneration", desired.generation.into())]);
        // Said once a generation.
        return patch.map_or_else(Outcome::rest, |patch| Outcome::rest().note(fault).step(Step::Status(patch)));
    }
    let data = revisions::data(&desired.template);
    let mut outcome = Outcome::rest();
    let collisions = observed.status.int(&["collisionCount"]).unwrap_or(0);
    let hash = match observed.history.current(&desired.owner, &data, &desired.annotations, collisions) {
        Current::Over => return outcome,
        Current::NameTaken(name) => {
            let patch = json!({"status": {"collisionCount": collisions + 1}});
            return outcome.note(Why::RevisionNameTaken(name)).step(Step::Status(patch));
        }
        Current::Stands { hash, step, .. } => {
            outcome.steps.extend(step.map(Step::Revision));
            hash
        }
    };
    let twins = observed.history.revisions.iter().filter(|r| r.data == data && r.hash != hash).map(|r| r.hash.clone());
    let hashes: Vec<String> = std::iter::once(hash.clone()).chain(twins).collect();
    let limits = Limits::of(desired, observed);
    let (create, delete) = (BTreeSet::new(), BTreeMap::new());
    let mut turn = Turn { desired, observed, now, hashes, by_node: observed.by_node(), limits, create, delete };
    outcome = turn.status(outcome);
    outcome.notes.extend(refused(observed));
    if !desired.owner.deleting {
        outcome = turn.place(outcome);
        if matches!(desired.strategy, Strategy::Rolling { .. }) {
            rolling::roll(&mut turn);
        }
        turn.emit(&mut outcome);
        outcome.steps.extend(turn.forgotten());
    }
    pods::status_after_creations(
        &mut outcome.steps,
        observed.refusal.as_ref(),
        |step| matches!(step, Step::Create { .. }),
        |step| matches!(step, Step::Status(_)),
    );
    outcome
}

fn bad_selector(desired: &Desired) -> Option<Why> {
    let none = Map::new();
    if desired.selector.is_everything() {
        return Some(Why::SelectsAll);
    }
    let labels = desired.template.map(&["metadata", "labels"]).unwrap_or(&none);
    (!desired.selector.matches(labels)).then_some(Why::SelectorMismatch)
}

fn refused(observed: &Observed) -> Option<Why> {
    let refusal = observed.refusal.as_ref()?;
    if refusal.is("create", &PODS) {
        Some(Why::Refused("FailedCreate", format!("Error creating: {}", refusal.message)))
    } else if refusal.is("delete", &PODS) {
        Some(Why::Refused("FailedDelete", format!("Error deleting: {}", refusal.message)))
    } else {
        None
    }
}

impl<'a> Turn<'a> {
    /// Whether the pod has the current template.
    pub fn is_updated(&self, pod: &Seen<Pod>) -> bool {
        pod.label(POD_LABEL).is_some_and(|label| self.hashes.iter().any(|hash| hash == label))
    }

    /// Whether the pod has been ready for long enough.
    pub fn is_available(&self, pod: &Seen<Pod>) -> bool {
        pod.facts.is_available(self.desired.min_ready_seconds, self.now)
    }

    /// The pods on a node.
    pub fn on(&self, node: &str) -> &[&'a Seen<Pod>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    pub fn delete(&mut self, pod: &'a Seen<Pod>) {
        if !pod.is_deleting() {
            self.delete.insert(pod.uid(), pod);
        }
    }

    /// Nodes without their pod, pods without their node, and pods too many on a node.
    fn place(&mut self, mut outcome: Outcome<Step, Why>) -> Outcome<Step, Why> {
        let observed = self.observed;
        for node in &observed.nodes {
            let pods: Vec<&'a Seen<Pod>> = self.on(&node.name).to_vec();
            match (node.verdict.runs, node.verdict.stays) {
                (true, _) if pods.is_empty() => {
                    self.create.insert(&node.name);
                }
                (_, true) => outcome = self.tidy(&node.name, node.verdict.runs, &pods, outcome),
                (_, false) => pods.into_iter().for_each(|pod| self.delete(pod)),
            }
        }
        // One that waits for a node that is gone is never bound, so nobody else takes it away.
        let gone = |pod: &&Seen<Pod>| {
            let node = node_of(&pod.facts);
            !pod.facts.is_bound() && node.is_some_and(|node| !observed.nodes.iter().any(|seen| seen.name == node))
        };
        observed.pods.iter().filter(gone).for_each(|pod| self.delete(pod));
        outcome
    }

    /// One node where pods may stay.
    fn tidy(
        &mut self,
        node: &'a str,
        runs: bool,
        pods: &[&'a Seen<Pod>],
        mut outcome: Outcome<Step, Why>,
    ) -> Outcome<Step, Why> {
        let mut running: Vec<&'a Seen<Pod>> = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
            let name = || format!("{}/{}", pod.meta().namespace, pod.name());
            match &*pod.facts.status.phase {
                "Failed" => {
                    let from = pod.meta().creation_timestamp.after(FAILED_POD_PACE);
                    if from > self.now {
                        outcome = outcome.wake_at(from);
                    } else {
                        outcome.notes.push(Why::Failed(name(), node.to_owned()));
                        self.delete(pod);
                    }
                }
                "Succeeded" => {
                    outcome.notes.push(Why::Succeeded(name(), node.to_owned()));
                    self.delete(pod);
                }
                _ => running.push(pod),
            }
        }
        running.sort_by_key(|pod| oldest_first(pod));
        if self.limits.max_surge == 0 {
            running.into_iter().skip(1).for_each(|pod| self.delete(pod));
        } else if running.is_empty() {
            // With a surge, a pod on its way out is not waited for.
            if runs {
                self.create.insert(node);
            }
        } else {
            self.prune_surge(running);
        }
        outcome
    }

    /// With a surge there may be two: the oldest of each template, as long as the old one is ready and the new one
    /// not yet available.
    fn prune_surge(&mut self, running: Vec<&'a Seen<Pod>>) {
        let (new, old): (Vec<_>, Vec<_>) = running.into_iter().partition(|pod| self.is_updated(pod));
        new.iter().skip(1).chain(old.iter().skip(1)).for_each(|pod| self.delete(pod));
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.facts.is_ready() || self.is_available(new))
        {
            self.delete(old);
        }
    }

    /// Deletions first: a surge that is over makes room for the next one.
    fn emit(&self, outcome: &mut Outcome<Step, Why>) {
        let deletions = self.delete.values().take(BURST_MAX);
        outcome.steps.extend(deletions.map(|pod| Step::Delete(Target::of(&pod.object))));
        let hash = self.hashes.first().cloned().unwrap_or_default();
        for node in self.create.iter().take(BURST_MAX) {
            let name = self.new_name(node, &hash);
            outcome.steps.push(Step::Create { node: (*node).to_owned(), name, hash: hash.clone() });
        }
    }

    fn new_name(&self, node: &str, hash: &str) -> String {
        let owner = &self.desired.owner.target;
        let base = format!("{}-", owner.name);
        let present: Vec<&str> = self.on(node).iter().map(|pod| pod.uid()).collect();
        let revision = owner.revision.to_string();
        // The thousandth name is free, or the namespace is full of this set's pods.
        let name = |counter: u32| {
            let counter = counter.to_string();
            let identity = [&*owner.uid, &revision, node, hash].into_iter().chain(present.iter().copied());
            child_name(&base, identity.chain([&*counter]))
        };
        (0..1_000).map(name).find(|name| !self.observed.taken.contains(name)).unwrap_or_else(|| name(1_000))
    }

    fn status(&self, outcome: Outcome<Step, Why>) -> Outcome<Step, Why> {
        let (mut desired, mut current, mut misplaced, mut updated) = (0, 0, 0, 0);
        let mut readiness = Readiness::default();
        for node in &self.observed.nodes {
            let oldest = self.on(&node.name).iter().min_by_key(|pod| oldest_first(pod));
            desired += i64::from(node.verdict.runs);
            misplaced += i64::from(!node.verdict.runs && oldest.is_some());
            if let Some(pod) = oldest.filter(|_| node.verdict.runs) {
                current += 1;
                updated += i64::from(self.is_updated(pod));
                readiness.count(&pod.facts, self.desired.min_ready_seconds, self.now);
            }
        }
        let patch = difference(
            &self.observed.status,
            [
                ("currentNumberScheduled", current.into()),
                ("numberMisscheduled", misplaced.into()),
                ("desiredNumberScheduled", desired.into()),
                ("numberReady", readiness.ready.into()),
                ("observedGeneration", unless_zero(self.desired.generation)),
                ("updatedNumberScheduled", unless_zero(updated)),
                ("numberAvailable", unless_zero(readiness.available)),
                ("numberUnavailable", unless_zero(desired - readiness.available)),
            ],
        );
        let outcome = patch.map(Step::Status).into_iter().fold(outcome, Outcome::step);
        // Beside the oldest pod a surging one may be about to become available.
        let all = Readiness::of(self.observed.pods.iter(), self.desired.min_ready_seconds, self.now);
        readiness.next.into_iter().chain(all.next).fold(outcome, Outcome::wake_at)
    }

    /// Revisions beyond the limit that no pod has.
    fn forgotten(&self) -> Vec<Step> {
        let used: BTreeSet<&str> = self.observed.pods.iter().filter_map(|pod| pod.label(POD_LABEL)).collect();
        let revisions = self.observed.history.revisions.iter();
        let in_use = revisions.filter(|r| used.contains(&*r.hash) || self.hashes.contains(&r.hash));
        let in_use: BTreeSet<&str> = in_use.map(|revision| &*revision.target.name).collect();
        self.observed
            .history
            .surplus(&in_use, self.desired.history_limit)
            .into_iter()
            .map(|surplus| Step::Revision(revisions::Step::Delete(surplus)))
            .collect()
    }
}

/// Bound pods before others, then the oldest.
fn oldest_first(pod: &Seen<Pod>) -> (bool, Time, &str) {
    (!pod.facts.is_bound(), pod.meta().creation_timestamp, pod.name())
}

/// A pod of the template for a node.
pub(super) fn new_pod(desired: &Desired, node: &str, name: &str, hash: &str) -> Value {
    let mut pod = pods::from_template(&desired.template, name, &desired.owner);
    pod.put(&["metadata", "labels", POD_LABEL], hash);
    if let Some(generation) = &desired.template_generation {
        pod.put(&["metadata", "labels", GENERATION_LABEL], &**generation);
    }
    let mut tolerated = pod.items(&["spec", "tolerations"]).to_vec();
    for (key, effect) in tolerations(desired.host_network) {
        let same =
            |t: &Value| t.text(&["key"]) == key && t.text(&["effect"]) == effect && t.text(&["operator"]) == "Exists";
        if !tolerated.iter().any(same) {
            tolerated.push(json!({"key": key, "operator": "Exists", "effect": effect}));
        }
    }
    pod.put(&["spec", "tolerations"], tolerated);
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    pod.put(&required, json!({"nodeSelectorTerms": [term]}));
    pod
}
