//! Pods in their order: the wanted ones up, the others down, then the update.

use std::collections::BTreeMap;

use brain::Outcome;
use brain::facts::{Pod, Seen};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use super::act::Made;
use super::facts::{Desired, Observed, Update, is_available};
use super::{Step, Why, claims};
use crate::pods::{self, BURST_MAX};
use crate::revisions::POD_LABEL;
use crate::target::Target;

/// The label with a pod's own name, for Services of one pod.
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Whether to go on with the next pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Stop,
}

/// One pass over the pods.
pub(super) struct Order<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    current: &'a Made,
    update: &'a Made,
    now: Time,
    by_ordinal: BTreeMap<i64, &'a Seen<Pod>>,
}

impl<'a> Order<'a> {
    pub fn new(
        desired: &'a Desired,
        observed: &'a Observed,
        current: &'a Made,
        update: &'a Made,
        now: Time,
    ) -> Order<'a> {
        let by_ordinal = observed.pods.iter().filter_map(|pod| Some((desired.ordinal(pod.name())?, pod))).collect();
        Order { desired, observed, current, update, now, by_ordinal }
    }

    pub fn run(&self, outcome: &mut Outcome<Step, Why>) {
        let end = self.desired.start.saturating_add(self.desired.replicas);
        for ordinal in self.desired.start..end {
            if outcome.steps.len() >= BURST_MAX || self.raise(ordinal, outcome) == Then::Stop {
                return;
            }
        }
        let condemned: Vec<(i64, &Seen<Pod>)> =
            self.by_ordinal.iter().rev().filter(|(o, _)| !self.desired.wants(**o)).map(|(o, pod)| (*o, *pod)).collect();
        for (ordinal, pod) in &condemned {
            outcome.steps.extend(claims::retention(self.desired, self.observed, pod, *ordinal));
        }
        // A claim must go with its pod before the pod goes, and that is certain only once it is written.
        let lowest_unhealthy = condemned.iter().rev().find(|(_, pod)| !self.is_up(pod)).map(|(ordinal, _)| *ordinal);
        for (ordinal, pod) in &condemned {
            if outcome.steps.len() >= BURST_MAX || self.lower(*ordinal, pod, lowest_unhealthy, outcome) == Then::Stop {
                return;
            }
        }
        self.roll(outcome);
    }

    fn is_up(&self, pod: &Seen<Pod>) -> bool {
        is_available(pod, self.desired.min_ready_seconds, self.now) && !pod.is_deleting()
    }

    /// Brings one wanted pod up.
    fn raise(&self, ordinal: i64, outcome: &mut Outcome<Step, Why>) -> Then {
        let Some(pod) = self.by_ordinal.get(&ordinal) else { return self.create(ordinal, outcome) };
        if pod.facts.is_finished() {
            // However it ended: a pod of a set is to run. Its successor has the same name, so it must go first.
            if !pod.is_deleting() {
                outcome.steps.push(Step::DeletePod(Target::of(&pod.object)));
            }
            return self.wait_in_order(pod, outcome);
        }
        if !pod.is_deleting() && matches!(&*pod.facts.status.phase, "" | "Pending") {
            outcome.steps.extend(claims::missing(self.desired, self.observed, ordinal));
        }
        if !self.is_up(pod) && self.desired.monotonic {
            return self.wait_in_order(pod, outcome);
        }
        outcome.steps.extend(claims::retention(self.desired, self.observed, pod, ordinal));
        outcome.steps.extend(relabelled(pod));
        Then::GoOn
    }

    fn wait_in_order(&self, pod: &Seen<Pod>, outcome: &mut Outcome<Step, Why>) -> Then {
        if !self.desired.monotonic {
            return Then::GoOn;
        }
        outcome.notes.push(Why::WaitingFor(pod.name().to_owned()));
        Then::Stop
    }

    fn create(&self, ordinal: i64, outcome: &mut Outcome<Step, Why>) -> Then {
        let in_order = if self.desired.monotonic { Then::Stop } else { Then::GoOn };
        let name = self.desired.pod_name(ordinal);
        if self.observed.foreign.contains(&name) {
            outcome.notes.push(Why::NameTaken(name));
            return in_order;
        }
        if let Some(stale) = claims::stale(self.desired, self.observed, ordinal) {
            outcome.notes.push(stale);
            return in_order;
        }
        outcome.steps.extend(claims::missing(self.desired, self.observed, ordinal));
        outcome.steps.push(Step::CreatePod(self.new_pod(ordinal)));
        in_order
    }

    /// Takes one pod down that is not wanted any more.
    fn lower(&self, ordinal: i64, pod: &Seen<Pod>, unhealthy: Option<i64>, outcome: &mut Outcome<Step, Why>) -> Then {
        let monotonic = self.desired.monotonic;
        if pod.is_deleting() {
            return self.wait_in_order(pod, outcome);
        }
        if monotonic && !self.is_up(pod) && unhealthy.is_some_and(|lowest| lowest != ordinal) {
            let first = self.desired.pod_name(unhealthy.unwrap_or(ordinal));
            outcome.notes.push(Why::WaitingFor(first));
            return Then::Stop;
        }
        if claims::retention(self.desired, self.observed, pod, ordinal).next().is_none() {
            outcome.steps.push(Step::DeletePod(Target::of(&pod.object)));
        }
        if monotonic { Then::Stop } else { Then::GoOn }
    }

    /// Deletes pods of older revisions, the highest ordinal first, as far as availability lets. A pod that is not
    /// available costs nothing, and every one on the way is waited for.
    fn roll(&self, outcome: &mut Outcome<Step, Why>) {
        let Update::Rolling { partition, max_unavailable } = self.desired.update else { return };
        let lowest = self.desired.start.saturating_add(partition.unwrap_or(0));
        let wanted = self.by_ordinal.range(self.desired.start..).filter(|(o, _)| self.desired.wants(**o));
        let present: Vec<(i64, &Seen<Pod>)> = wanted.map(|(ordinal, pod)| (*ordinal, *pod)).collect();
        let up = i64::try_from(present.iter().filter(|(_, pod)| self.is_up(pod)).count()).unwrap_or(i64::MAX);
        let mut unavailable = self.desired.replicas - up;
        let mut budget = max_unavailable;
        for (ordinal, pod) in present.into_iter().rev() {
            if ordinal < lowest || budget <= 0 || outcome.steps.len() >= BURST_MAX {
                return;
            }
            let (is_up, is_old) = (self.is_up(pod), pod.label(POD_LABEL) != Some(&*self.update.name));
            if is_old && !pod.is_deleting() && (!is_up || unavailable < max_unavailable) {
                outcome.steps.push(Step::DeletePod(Target::of(&pod.object)));
                unavailable += i64::from(is_up);
                budget -= 1;
            } else if !is_up {
                outcome.notes.push(Why::WaitingFor(pod.name().to_owned()));
                budget -= 1;
            }
        }
    }

    /// A pod of the revision that its ordinal is to have.
    fn new_pod(&self, ordinal: i64) -> Value {
        let made = if self.keeps_current(ordinal) { self.current } else { self.update };
        let name = self.desired.pod_name(ordinal);
        let mut pod = pods::from_template(&made.template, &name, &self.desired.owner);
        for (key, value) in [(NAME_LABEL, &*name), (INDEX_LABEL, &ordinal.to_string()), (POD_LABEL, &made.name)] {
            pod.put(&["metadata", "labels", key], value);
        }
        pod.put(&["spec", "hostname"], &*name);
        if !self.desired.service_name.is_empty() {
            pod.put(&["spec", "subdomain"], &*self.desired.service_name);
        }
        claims::mount(self.desired, &mut pod, ordinal);
        pod
    }

    fn keeps_current(&self, ordinal: i64) -> bool {
        let kept = match self.desired.update {
            Update::OnDelete => return false,
            Update::Rolling { partition: Some(partition), .. } => partition,
            Update::Rolling { partition: None, .. } => self.observed.status.int(&["currentReplicas"]).unwrap_or(0),
        };
        ordinal < self.desired.start.saturating_add(kept)
    }
}

/// Gives a pod the label of its name back.
fn relabelled(pod: &Seen<Pod>) -> Option<Step> {
    let labels = json!({"metadata": {"labels": {NAME_LABEL: pod.name()}}});
    let wrong = pod.label(NAME_LABEL) != Some(pod.name()) && !pod.is_deleting();
    wrong.then(|| Step::LabelPod(Target::of(&pod.object), labels))
}
