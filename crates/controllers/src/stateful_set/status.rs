//! The StatefulSet's status.

use brain::facts::{Pod, Seen};
use meta::Time;
use serde_json::Value;

use super::facts::{Desired, Observed, Update, is_available, is_running_and_ready};
use crate::revisions::POD_LABEL;
use crate::status::{difference, unless_zero};

/// The names of the revisions in play.
pub(super) struct Names<'a> {
    pub current: &'a str,
    pub update: &'a str,
    pub collisions: i64,
}

/// The patch of the status, if it differs. When all pods are of the update revision and ready, that one becomes
/// the current one.
pub(super) fn status(desired: &Desired, observed: &Observed, names: &Names<'_>, now: Time) -> Option<Value> {
    let count = |is: &dyn Fn(&Seen<Pod>) -> bool| {
        i64::try_from(observed.pods.iter().filter(|pod| is(pod)).count()).unwrap_or(i64::MAX)
    };
    let of = |pod: &Seen<Pod>, revision: &str| !pod.is_deleting() && pod.label(POD_LABEL) == Some(revision);
    let replicas = count(&|_| true);
    let ready = count(&is_running_and_ready);
    let updated = count(&|pod| of(pod, names.update));
    let mut current = (names.current, count(&|pod| of(pod, names.current)));
    let all = desired.replicas;
    if matches!(desired.update, Update::Rolling { .. }) && updated == all && ready == all && replicas == all {
        current = (names.update, updated);
    }
    difference(
        &observed.status,
        [
            ("observedGeneration", unless_zero(desired.generation)),
            ("replicas", replicas.into()),
            ("readyReplicas", unless_zero(ready)),
            ("currentReplicas", unless_zero(current.1)),
            ("updatedReplicas", unless_zero(updated)),
            ("availableReplicas", count(&|pod| is_available(pod, desired.min_ready_seconds, now)).into()),
            ("currentRevision", current.0.into()),
            ("updateRevision", names.update.into()),
            ("collisionCount", names.collisions.into()),
        ],
    )
}
