//! The Deployment's status: numbers, and whether it gets on.

use std::time::Duration;

use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use super::rollout::Rollout;
use crate::condition_list::ConditionList;
use crate::status::unless_zero;

/// Whether the rollout gets on.
pub(super) const PROGRESSING: &str = "Progressing";
/// The new ReplicaSet could not be created.
pub(super) const FAILED_CREATE: &str = "ReplicaSetCreateError";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const COMPLETE: &str = "NewReplicaSetAvailable";
const PAUSED: &str = "DeploymentPaused";

/// The numbers of a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub replicas: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    pub unavailable: i64,
    pub terminating: Option<i64>,
    observed_generation: i64,
}

impl Numbers {
    /// As they are now.
    pub fn of(rollout: &Rollout<'_>) -> Numbers {
        let sum =
            |number: &dyn Fn(&super::facts::Set) -> i64| rollout.drafts.iter().map(|d| number(&d.set)).sum::<i64>();
        let available = sum(&|set| set.available);
        let terminating: Vec<i64> = rollout.drafts.iter().filter_map(|draft| draft.set.terminating).collect();
        Numbers {
            replicas: sum(&|set| set.status_replicas),
            updated: rollout.new_set().map_or(0, |set| set.status_replicas),
            ready: sum(&|set| set.ready),
            available,
            unavailable: (rollout.total() - available).max(0),
            terminating: (!terminating.is_empty()).then(|| terminating.iter().sum()),
            observed_generation: rollout.desired.generation,
        }
    }

    /// As they were written last.
    fn stored(status: &Value) -> Numbers {
        let number = |field: &str| status.int(&[field]).unwrap_or(0);
        Numbers {
            replicas: number("replicas"),
            updated: number("updatedReplicas"),
            ready: number("readyReplicas"),
            available: number("availableReplicas"),
            unavailable: number("unavailableReplicas"),
            terminating: status.int(&["terminatingReplicas"]),
            observed_generation: number("observedGeneration"),
        }
    }

    /// The whole status.
    pub fn fields(
        &self,
        generation: i64,
        collisions: i64,
        conditions: ConditionList,
    ) -> impl Iterator<Item = (&'static str, Value)> {
        [
            ("observedGeneration", unless_zero(generation)),
            ("replicas", unless_zero(self.replicas)),
            ("updatedReplicas", unless_zero(self.updated)),
            ("readyReplicas", unless_zero(self.ready)),
            ("availableReplicas", unless_zero(self.available)),
            ("unavailableReplicas", unless_zero(self.unavailable)),
            ("terminatingReplicas", self.terminating.map_or(Value::Null, Value::from)),
            ("collisionCount", unless_zero(collisions)),
            ("conditions", conditions.into_value()),
        ]
        .into_iter()
    }

    fn is_complete(&self, replicas: i64, generation: i64) -> bool {
        self.updated == replicas
            && self.replicas == replicas
            && self.available == replicas
            && self.observed_generation >= generation
    }

    fn is_ahead_of(&self, before: &Numbers) -> bool {
        self.updated > before.updated
            || self.replicas - self.updated < before.replicas - before.updated
            || self.ready > before.ready
            || self.available > before.available
    }
}

/// Whether the status that is written already says that the rollout is complete.
pub(super) fn is_complete(rollout: &Rollout<'_>) -> bool {
    let stored = Numbers::stored(&rollout.observed.status);
    stored.is_complete(rollout.desired.replicas, rollout.desired.generation)
}

impl Rollout<'_> {
    /// Says that the rollout is paused, or goes on again: the time it was paused for is no lack of progress.
    pub fn sync_paused_condition(&mut self) {
        let reason = self.conditions.reason(PROGRESSING);
        if self.desired.progress_deadline.is_none() || reason == TIMED_OUT {
            return;
        }
        match (self.desired.paused, reason == PAUSED) {
            (true, false) => {
                self.conditions.update(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", self.now);
            }
            (false, true) => {
                self.conditions.update(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", self.now);
            }
            _ => {}
        }
    }
}

/// Says whether enough pods are available.
pub(super) fn say_available(rollout: &mut Rollout<'_>, numbers: &Numbers) {
    let least = rollout.desired.replicas - rollout.desired.strategy.max_unavailable();
    let (status, reason, message) = if numbers.available >= least {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    rollout.conditions.update(AVAILABLE, status, reason, message, rollout.now);
}

/// Says whether the rollout is complete, gets on, or has stood still for too long; and takes over what the
/// ReplicaSets say about pods that cannot be created.
pub(super) fn estimate(rollout: &mut Rollout<'_>, numbers: &Numbers) {
    match rollout.desired.progress_deadline {
        None => rollout.conditions.remove(PROGRESSING),
        Some(deadline) => estimate_progress(rollout, numbers, deadline),
    }
    let new_first = rollout.new_set().into_iter().chain(rollout.drafts.iter().map(|draft| &draft.set));
    match new_first.filter_map(|set| set.failure.as_ref()).next().cloned() {
        Some(failure) => take_over(rollout, &failure),
        None => rollout.conditions.remove(REPLICA_FAILURE),
    }
}

fn estimate_progress(rollout: &mut Rollout<'_>, numbers: &Numbers, deadline: i64) {
    let known_complete = numbers.replicas == numbers.updated && rollout.conditions.reason(PROGRESSING) == COMPLETE;
    if known_complete {
        return;
    }
    let who = match rollout.new_set() {
        Some(set) => format!("ReplicaSet {:?}", set.target.name),
        None => format!("Deployment {:?}", rollout.desired.owner.target.name),
    };
    let now = rollout.now;
    let before = Numbers::stored(&rollout.observed.status);
    if numbers.is_complete(rollout.desired.replicas, rollout.desired.generation) {
        let message = format!("{who} has successfully progressed.");
        rollout.conditions.update(PROGRESSING, "True", COMPLETE, &message, now);
    } else if numbers.is_ahead_of(&before) {
        let message = format!("{who} is progressing.");
        // Every bit of progress renews the time, also where the reason stays.
        rollout.conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", &message, now);
    } else if has_timed_out(rollout, deadline) {
        let message = format!("{who} has timed out progressing.");
        rollout.conditions.update(PROGRESSING, "False", TIMED_OUT, &message, now);
    }
}

fn has_timed_out(rollout: &Rollout<'_>, deadline: i64) -> bool {
    match rollout.conditions.reason(PROGRESSING) {
        TIMED_OUT => true,
        COMPLETE => false,
        _ => deadline_at(rollout, deadline).is_some_and(|at| at < rollout.now),
    }
}

fn deadline_at(rollout: &Rollout<'_>, deadline: i64) -> Option<Time> {
    let last = rollout.conditions.time(PROGRESSING, "lastUpdateTime")?;
    Some(last.after(Duration::from_secs(u64::try_from(deadline).unwrap_or(0))))
}

/// When the lack of progress must be looked at, if there is none until then.
pub(super) fn next_check(rollout: &Rollout<'_>, numbers: &Numbers) -> Option<Time> {
    let over = matches!(rollout.conditions.reason(PROGRESSING), TIMED_OUT | COMPLETE | PAUSED);
    let complete = numbers.is_complete(rollout.desired.replicas, rollout.desired.generation);
    if over || complete {
        return None;
    }
    // The times have whole seconds: one more makes sure that the deadline is over.
    Some(deadline_at(rollout, rollout.desired.progress_deadline?)?.after(Duration::from_secs(1)))
}

fn take_over(rollout: &mut Rollout<'_>, failure: &Value) {
    let field = |name: &str| failure.text(&[name]);
    let current = rollout.conditions.get(REPLICA_FAILURE);
    let same = |c: &Value| c.text(&["status"]) == field("status") && c.text(&["reason"]) == field("reason");
    if !current.is_some_and(same) {
        rollout.conditions.replace(json!({
            "type": REPLICA_FAILURE, "status": field("status"), "reason": field("reason"), "message": field("message"),
            "lastTransitionTime": field("lastTransitionTime"), "lastUpdateTime": field("lastTransitionTime"),
        }));
    }
}
