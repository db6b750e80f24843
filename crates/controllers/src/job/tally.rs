//! Counting a job's pods.

use std::collections::{BTreeMap, BTreeSet};

use meta::Time;

use super::failure_policy::{Verdict, verdict};
use super::indexes;
use super::pod::JobPod;
use super::spec::{JobSpec, JobStatus};

/// What the pods and the status come to together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub succeeded: i64,
    pub failed: i64,
    /// Indexes into the pods.
    pub active: Vec<usize>,
    pub ready: i64,
    pub terminating: i64,
    pub succeeded_indexes: BTreeSet<i64>,
    pub failed_indexes: BTreeSet<i64>,
    /// The failed pod of an index that stays until another pod carries its count of failures.
    pub delayed: BTreeMap<i64, usize>,
    /// Failures since the last success, and the end of the last of them.
    pub failures: i64,
    pub last_failure: Time,
}

/// Whether the pod counts as failed. One that is being deleted never gets to say so itself, unless the job waits
/// for that.
pub(super) fn is_failed(spec: &JobSpec, pod: &JobPod) -> bool {
    pod.phase == "Failed" || (!spec.replaces_failed_only && pod.is_deleting && !pod.is_succeeded())
}

impl Tally {
    /// Counts.
    pub fn of(spec: &JobSpec, status: &JobStatus, pods: &[JobPod]) -> Tally {
        let mut tally = Tally::default();
        for (index, pod) in pods.iter().enumerate() {
            if pod.is_active() {
                tally.active.push(index);
                tally.ready += i64::from(pod.is_ready);
            }
            tally.terminating += i64::from(pod.is_terminating());
        }
        if spec.is_indexed {
            tally.count_indexes(spec, status, pods);
        } else {
            let fresh = pods.iter().filter(|pod| pod.is_tracked && pod.is_succeeded());
            let fresh = fresh.filter(|pod| !status.uncounted_succeeded.contains(&pod.target.uid)).count();
            tally.succeeded = status.succeeded + length(status.uncounted_succeeded.len()) + length(fresh);
        }
        tally.count_failures(spec, status, pods);
        tally
    }

    fn count_indexes(&mut self, spec: &JobSpec, status: &JobStatus, pods: &[JobPod]) {
        let completions = spec.completions.unwrap_or(0);
        self.succeeded_indexes = indexes::parse(&status.completed_indexes, completions);
        let valid = || pods.iter().filter(|pod| spec.has_index(pod.index));
        self.succeeded_indexes.extend(valid().filter(|pod| pod.is_succeeded()).filter_map(|pod| pod.index));
        self.succeeded = length(self.succeeded_indexes.len());
        let Some(limit) = spec.backoff_limit_per_index else { return };
        self.failed_indexes = indexes::parse(&status.failed_indexes, completions);
        for pod in valid().filter(|pod| is_failed(spec, pod)) {
            let has_failed = match verdict(spec.failure_policy.as_ref(), pod) {
                Verdict::FailIndex => true,
                Verdict::Ignore => false,
                Verdict::Count | Verdict::FailJob(_) => pod.failures >= limit,
            };
            self.failed_indexes.extend(pod.index.filter(|_| has_failed));
        }
        self.find_delayed(spec, pods);
    }

    fn find_delayed(&mut self, spec: &JobSpec, pods: &[JobPod]) {
        let active: BTreeSet<i64> = self.active.iter().filter_map(|index| pods[*index].index).collect();
        for (place, pod) in pods.iter().enumerate() {
            let Some(index) = pod.index.filter(|_| spec.has_index(pod.index) && pod.is_tracked && is_failed(spec, pod))
            else {
                continue;
            };
            let is_over = |index| active.contains(&index) || self.succeeded_indexes.contains(&index);
            if is_over(index) || self.failed_indexes.contains(&index) {
                continue;
            }
            let kept = self.delayed.entry(index).or_insert(place);
            let rank = |place: usize| (pods[place].all_failures(), pods[place].finished);
            if rank(place) > rank(*kept) {
                *kept = place;
            }
        }
    }

    fn count_failures(&mut self, spec: &JobSpec, status: &JobStatus, pods: &[JobPod]) {
        let counts = |pod: &&JobPod| {
            pod.is_tracked
                && (!spec.is_indexed || spec.has_index(pod.index))
                && !status.uncounted_failed.contains(&pod.target.uid)
                && is_failed(spec, pod)
                && verdict(spec.failure_policy.as_ref(), pod) != Verdict::Ignore
        };
        let fresh = pods.iter().filter(counts).count();
        self.failed = status.failed + length(status.uncounted_failed.len()) + length(fresh);
        let last_success = pods.iter().filter(|pod| pod.is_succeeded()).map(|pod| pod.finished).max();
        for pod in pods.iter().filter(|pod| is_failed(spec, pod)) {
            if last_success.is_none_or(|success| pod.finished > success) {
                self.failures += 1;
                self.last_failure = self.last_failure.max(pod.finished);
            }
        }
    }
}

pub(super) fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
