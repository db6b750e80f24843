//! One pod of a job, as the job's decision sees it.

use std::time::Duration;

use brain::facts::{ContainerStatus, Pod, Seen};
use meta::Time;

use crate::target::{Target, finalizers_without, has_finalizer};

/// Holds a pod until the job has counted it.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label: which part of an indexed job it works on.
pub(super) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How often the index failed before this pod.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How often the index failed in ways that do not count.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A pod of the job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobPod {
    pub target: Target,
    pub phase: String,
    pub is_deleting: bool,
    pub is_ready: bool,
    pub is_bound: bool,
    pub created: Time,
    /// When it ended, as far as can be told.
    pub finished: Time,
    pub index: Option<i64>,
    pub failures: i64,
    pub ignored_failures: i64,
    pub restarts: i64,
    pub is_tracked: bool,
    pub finalizers_left: Vec<String>,
    /// Ended containers: name and exit code.
    pub exits: Vec<(String, i64)>,
    /// Conditions: type and status.
    pub conditions: Vec<(String, String)>,
}

impl JobPod {
    /// Takes the facts.
    pub fn of(pod: &Seen<Pod>) -> JobPod {
        let number = |key: &str| pod.facts.annotation(key).and_then(|text| text.parse::<i64>().ok());
        let status = &pod.facts.status;
        let containers = || status.container_statuses.iter().chain(&status.init_container_statuses);
        let exit =
            |c: &ContainerStatus| c.state.terminated.as_ref().map(|t| (c.name.to_string(), i64::from(t.exit_code)));
        JobPod {
            target: Target::of(&pod.object),
            phase: status.phase.to_string(),
            is_deleting: pod.is_deleting(),
            is_ready: pod.facts.is_ready(),
            is_bound: pod.facts.is_bound(),
            created: pod.meta().creation_timestamp,
            finished: finished(pod),
            index: number(COMPLETION_INDEX).filter(|index| *index >= 0),
            failures: number(FAILURES).unwrap_or(0),
            ignored_failures: number(IGNORED_FAILURES).unwrap_or(0),
            restarts: containers().map(|c| i64::from(c.restart_count)).sum(),
            is_tracked: has_finalizer(&pod.object, TRACKING),
            finalizers_left: finalizers_without(&pod.object, TRACKING),
            exits: containers().filter_map(exit).collect(),
            conditions: status.conditions.iter().map(|c| (c.type_.to_string(), c.status.to_string())).collect(),
        }
    }

    /// Ended well.
    pub fn is_succeeded(&self) -> bool {
        self.phase == "Succeeded"
    }

    /// Ended, well or not.
    pub fn is_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// Works or will.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_deleting
    }

    /// Is being deleted and has not ended.
    pub fn is_terminating(&self) -> bool {
        !self.is_finished() && self.is_deleting
    }

    /// Failures of its index before it, of both kinds.
    pub fn all_failures(&self) -> i64 {
        self.failures.saturating_add(self.ignored_failures)
    }
}

/// The last container's end; else when the pod stopped being ready; else the begin of its deletion; else its creation.
fn finished(pod: &Seen<Pod>) -> Time {
    let statuses = &pod.facts.status.container_statuses;
    let ends: Option<Vec<Time>> = statuses.iter().map(|c| c.state.terminated.as_ref()?.finished_at).collect();
    let last = ends.and_then(|ends| ends.into_iter().max());
    let unready = || pod.facts.condition("Ready").filter(|ready| !ready.is_true())?.last_transition_time;
    let deleted = || {
        let grace = pod.facts.spec.termination_grace_period_seconds.unwrap_or(0).max(0);
        let micros = grace.saturating_mul(1_000_000);
        Some(Time::from_micros(pod.meta().deletion_timestamp?.as_micros().saturating_sub(micros)))
    };
    last.or_else(unready).or_else(deleted).unwrap_or(pod.meta().creation_timestamp)
}

/// When a failed try may be followed by another: ten seconds after its end, doubling with every failure.
pub(super) fn retry_at(failures: i64, last: Time) -> Time {
    const FIRST: Duration = Duration::from_secs(10);
    const LONGEST: Duration = Duration::from_secs(600);
    if failures <= 0 {
        return Time::EPOCH;
    }
    let doubled = u32::try_from(failures - 1).ok().and_then(|n| 1_u32.checked_shl(n)).unwrap_or(u32::MAX);
    last.after(FIRST.saturating_mul(doubled).min(LONGEST))
}
