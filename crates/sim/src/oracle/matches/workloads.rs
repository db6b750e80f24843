//! Pods and who makes them.

use std::collections::{BTreeMap, BTreeSet};

use meta::{ObjectExt, Time, condition};
use serde_json::Value;

use super::cluster::{fits_nowhere, still_there};
use super::{
    Facts, Ledger, differs, int, is_active, is_controlled_by, is_ready, observed, pods_of, selector, selects, waits,
};

/// A ReplicaSet or ReplicationController has as many pods as it asks for, and says so.
pub fn replica_set(facts: &Facts<'_>, set: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if set.is_deleting() {
        return still_there(facts, set);
    }
    let pods = pods_of(ledger, set);
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    let wanted = int(set, &["spec", "replicas"], 1);
    let status = |field: &str| int(set, &["status", field], 0);
    let ready = active.iter().filter(|pod| is_ready(pod)).count() as i64;
    let stray = ledger
        .list_in("core/pods", set.namespace())
        .find(|pod| pod.controller_ref().is_none() && is_active(pod) && selects(selector(set), pod));
    if condition::is_true(set, "ReplicaFailure") {
        return differs("status.replicas", status("replicas"), active.len() as i64);
    }
    observed(set)
        .or_else(|| differs("the number of pods", active.len() as i64, wanted))
        .or_else(|| differs("status.replicas", status("replicas"), wanted))
        .or_else(|| differs("status.readyReplicas", status("readyReplicas"), ready))
        .or_else(|| differs("status.availableReplicas", status("availableReplicas"), ready))
        .or_else(|| stray.map(|pod| format!("does not adopt pod {}", pod.name())))
}

/// The template without the label that tells its ReplicaSets apart.
fn template(object: &Value) -> Value {
    let mut template = object.at(&["spec", "template"]).cloned().unwrap_or_default();
    template.remove(&["metadata", "labels", "pod-template-hash"]);
    template
}

/// A Deployment's newest ReplicaSet has all its pods.
pub fn deployment(facts: &Facts<'_>, object: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if object.is_deleting() {
        return still_there(facts, object);
    }
    if let Some(problem) = observed(object) {
        return Some(problem);
    }
    let sets: Vec<_> =
        ledger.owned(object.uid(), "apps/replicasets").filter(|set| is_controlled_by(set, object.uid())).collect();
    let replicas = |set: &Value| int(set, &["spec", "replicas"], 1);
    let sum = |field: &str| sets.iter().map(|set| int(set, &["status", field], 0)).sum::<i64>();
    let status = |field: &str| int(object, &["status", field], 0);
    let told = || {
        differs("status.replicas", status("replicas"), sum("replicas"))
            .or_else(|| differs("status.readyReplicas", status("readyReplicas"), sum("readyReplicas")))
    };
    if object.flag(&["spec", "paused"]) {
        return told();
    }
    let wanted = int(object, &["spec", "replicas"], 1);
    let current = template(object);
    let Some(new) = sets.iter().find(|set| template(set) == current) else {
        return Some("has no ReplicaSet of its template".to_owned());
    };
    let is_stuck = condition::find(object, "Progressing").is_some_and(|found| found.text(&["status"]) == "False");
    // Pods whose image is missing wait for ever; those that a quota keeps out are missing for as long as it does.
    let waiting = sets.iter().flat_map(|set| pods_of(ledger, set)).any(|pod| waits(pod));
    if is_stuck || waiting || condition::is_true(object, "ReplicaFailure") {
        return told();
    }
    let old = sets.iter().filter(|set| set.uid() != new.uid());
    let left: i64 = old.clone().map(|set| replicas(set)).sum();
    let history = int(object, &["spec", "revisionHistoryLimit"], 10);
    differs("the size of the new ReplicaSet", replicas(new), wanted)
        .or_else(|| differs("the size of old ReplicaSets", left, 0))
        .or_else(|| differs("status.updatedReplicas", status("updatedReplicas"), wanted))
        .or_else(|| differs("status.availableReplicas", status("availableReplicas"), wanted))
        .or_else(told)
        .or_else(|| {
            let kept = old.count() as i64;
            (kept > history).then(|| format!("keeps {kept} old ReplicaSets, more than {history}"))
        })
}

/// A StatefulSet has the pods of its ordinals, of its newest revision.
pub fn stateful_set(facts: &Facts<'_>, set: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if set.is_deleting() {
        return still_there(facts, set);
    }
    let pods = pods_of(ledger, set);
    let wanted = int(set, &["spec", "replicas"], 1);
    let start = int(set, &["spec", "ordinals", "start"], 0);
    let status = |field: &str| int(set, &["status", field], 0);
    let told = observed(set).or_else(|| differs("status.replicas", status("replicas"), pods.len() as i64));
    let unready = pods.iter().any(|pod| !is_ready(pod));
    if told.is_some() || unready {
        return told;
    }
    let names: BTreeSet<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
    let expected: BTreeSet<String> =
        (start..start + wanted).map(|ordinal| format!("{}-{ordinal}", set.name())).collect();
    // A pod of that name which belongs to somebody else stands in the way, and is the user's.
    let in_the_way = |name: &String| ledger.find("core/pods", set.namespace(), name).is_some();
    let kept_out = has_quota(ledger, set) && names.is_subset(&expected);
    if kept_out || expected.difference(&names).any(in_the_way) {
        return None;
    }
    if names != expected {
        return Some(format!("has the pods {names:?} instead of {expected:?}"));
    }
    let update = set.text(&["status", "updateRevision"]);
    let on_delete = set.text(&["spec", "updateStrategy", "type"]) == "OnDelete";
    let old = pods.iter().find(|pod| pod.label("controller-revision-hash") != Some(update));
    match old.filter(|_| !on_delete) {
        Some(pod) => Some(format!("keeps pod {} of an old revision", pod.name())),
        None => differs("status.readyReplicas", status("readyReplicas"), wanted),
    }
}

/// A DaemonSet has one pod on every node that it may run on.
pub fn daemon_set(facts: &Facts<'_>, set: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if set.is_deleting() {
        return still_there(facts, set);
    }
    if let Some(problem) = observed(set) {
        return Some(problem);
    }
    let pods = pods_of(ledger, set);
    let mut on: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        *on.entry(pod.text(&["spec", "nodeName"])).or_default() += 1;
    }
    for node in ledger.list("core/nodes").filter(|node| !node.flag(&["spec", "unschedulable"])) {
        match on.remove(node.name()).unwrap_or(0) {
            1 => {}
            0 if !node.items(&["spec", "taints"]).is_empty() || has_quota(ledger, set) => {}
            count => return Some(format!("has {count} pods on node {}", node.name())),
        }
    }
    if let Some((node, _)) = on.iter().next() {
        return Some(format!("has a pod on {node:?}, which is no node"));
    }
    let ready = pods.iter().filter(|pod| is_active(pod) && is_ready(pod)).count() as i64;
    differs("status.numberReady", int(set, &["status", "numberReady"], 0), ready)
}

/// Whether something may keep pods out of the object's namespace.
fn has_quota(ledger: &Ledger, object: &Value) -> bool {
    ledger.list_in("core/resourcequotas", object.namespace()).next().is_some()
}

/// Whether a Job has ended.
fn is_finished(job: &Value) -> bool {
    condition::is_true(job, "Complete") || condition::is_true(job, "Failed")
}

/// A Job runs or has ended.
pub fn job(facts: &Facts<'_>, job: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if job.is_deleting() {
        return still_there(facts, job);
    }
    const TRACKING: &str = "batch.kubernetes.io/job-tracking";
    let pods = pods_of(ledger, job);
    let active = pods.iter().filter(|pod| is_active(pod)).count() as i64;
    if is_finished(job) {
        let tracked = pods.iter().any(|pod| pod.finalizers().any(|finalizer| finalizer == TRACKING));
        let tracked = tracked.then(|| "is finished and tracks pods".to_owned());
        return differs("the number of active pods", active, 0).or(tracked);
    }
    if job.flag(&["spec", "suspend"]) {
        return differs("the number of active pods", active, 0);
    }
    let waits = pods.iter().any(|pod| waits(pod) || fits_nowhere(facts, pod));
    if active == 0 && !has_quota(ledger, job) {
        return Some("is not finished and has no active pods".to_owned());
    }
    if active > 0
        && !waits
        && pods
            .iter()
            .filter(|pod| is_active(pod))
            .all(|pod| pod.annotation("simulated.setpoint.dev/finish-after").is_none())
    {
        return Some("is not finished though nothing is in the way".to_owned());
    }
    differs("status.active", int(job, &["status", "active"], 0), active)
}

/// A CronJob lists its running Jobs, keeps no more ended ones than it may, and has served its schedule until the users
/// stopped it.
pub fn cron_job(facts: &Facts<'_>, cron: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if cron.is_deleting() {
        return still_there(facts, cron);
    }
    let jobs: Vec<_> = ledger.owned(cron.uid(), "batch/jobs").collect();
    let complete = jobs.iter().filter(|job| condition::is_true(job, "Complete")).count() as i64;
    let failed = jobs.iter().filter(|job| condition::is_true(job, "Failed")).count() as i64;
    let limit = |field: &str, default| int(cron, &["spec", field], default);
    let listed: BTreeSet<&str> = cron.items(&["status", "active"]).iter().map(|job| job.text(&["uid"])).collect();
    let running: BTreeSet<&str> = jobs.iter().filter(|job| !is_finished(job)).map(|job| job.uid()).collect();
    if complete > limit("successfulJobsHistoryLimit", 3) {
        return Some(format!("keeps {complete} complete jobs"));
    }
    if failed > limit("failedJobsHistoryLimit", 1) {
        return Some(format!("keeps {failed} failed jobs"));
    }
    let unserved = || unserved(cron).map(|due| format!("has not served {}", due.to_rfc3339()));
    let wrong = (listed != running).then(|| format!("lists {} active jobs of {}", listed.len(), running.len()));
    wrong.or_else(unserved)
}

/// The last time of a schedule of every minute that should have been served before the CronJob was stopped, if it was
/// not. Where Jobs must not run side by side, one that runs keeps others away: only that there was one is asked for.
fn unserved(cron: &Value) -> Option<Time> {
    /// The longest backoff, and a little.
    const GRACE_SECONDS: i64 = 32;
    let stopped = Time::parse(cron.annotation(crate::world::STOPPED)?)?.as_secs() - GRACE_SECONDS;
    let due = Time::from_secs(stopped - stopped % 60);
    let served = Time::parse(cron.text(&["status", "lastScheduleTime"]));
    let is_served = match cron.text(&["spec", "concurrencyPolicy"]) {
        "Forbid" => served.is_some(),
        _ => served.is_some_and(|served| served >= due),
    };
    let created = Time::parse(cron.text(&["metadata", "creationTimestamp"]));
    (!is_served && created.is_some_and(|created| created < due)).then_some(due)
}

/// A Job that has a time to live after its end is gone when that is over.
pub fn outlived(facts: &Facts<'_>, job: &Value) -> Option<String> {
    let ttl = job.int(&["spec", "ttlSecondsAfterFinished"])?;
    let ended = ["Complete", "Failed"].into_iter().filter_map(|kind| condition::find(job, kind));
    let ended = ended.filter(|found| found.text(&["status"]) == "True");
    let at = ended.filter_map(|found| Time::parse(found.text(&["lastTransitionTime"]))).next()?;
    (at.as_secs() + ttl < facts.now).then(|| "has outlived its time".to_owned())
}
