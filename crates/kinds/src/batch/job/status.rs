//! What may be reported of a Job. A fault that was there before is not held against a change of something else.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, Time};
use serde_json::Value;

use super::indexes;
use super::spec::is_indexed;
use crate::check::{At, Faults, non_negative_fields, same};
use crate::workload::is_true;

/// Two states of one Job and what differs.
struct Change<'v> {
    new: &'v Value,
    old: &'v Value,
}

impl Change<'_> {
    /// Whether a condition was set or lost.
    fn turned(&self, condition: &str) -> bool {
        is_true(self.new, condition) != is_true(self.old, condition)
    }

    fn finished_turned(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    /// Whether a field of the status differs.
    fn touched(&self, field: &str) -> bool {
        !same(&self.new["status"][field], &self.old["status"][field])
    }
}

/// Whether a Job has come to its end.
pub(crate) fn is_finished(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// Checks a change at the address `status`.
pub(crate) fn check(new: &Value, old: &Value, faults: &mut Faults) {
    let root = At::root(new);
    let status = root.field("status");
    let change = Change { new, old };
    non_negative_fields(&status, &["active", "succeeded", "failed", "ready", "terminating"], faults);
    uncounted(&status.field("uncountedTerminatedPods"), faults);
    conditions(&status.field("conditions"), &change, faults);
    times(&status, &change, faults);
    finished(&status, &change, faults);
    index_sets(&status, &change, faults);
    not_back(&status, &change, faults);
}

fn uncounted(at: &At, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for list in ["succeeded", "failed"] {
        for uid in at.field(list).each() {
            if uid.text().is_empty() {
                faults.push(uid.invalid("must not be empty"));
            } else if !seen.insert(uid.text()) {
                faults.push(uid.duplicate());
            }
        }
    }
}

/// Conditions that exclude one another, or that come only after another.
fn conditions(at: &At, change: &Change, faults: &mut Faults) {
    let job = change.new;
    let is = |condition: &str| is_true(job, condition);
    let turned = |condition: &str| change.turned(condition);
    let mut unless = |fine: bool, detail: &str| {
        if !fine {
            faults.push(FieldError::invalid_whole(at.path, detail));
        }
    };
    if turned("Complete") || turned("Failed") {
        unless(!(is("Complete") && is("Failed")), "cannot set Complete=True and Failed=true conditions");
    }
    if turned("Complete") || turned("FailureTarget") {
        unless(!(is("Complete") && is("FailureTarget")), "cannot set Complete=True and FailureTarget=true conditions");
    }
    if turned("Failed") || change.touched("failedIndexes") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        unless(!is("Failed") || is("FailureTarget"), detail);
    }
    if turned("Complete") || turned("SuccessCriteriaMet") {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        unless(!is("Complete") || is("SuccessCriteriaMet"), detail);
    }
    let met = is("SuccessCriteriaMet");
    unless(!(met && is("Failed")), "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    unless(!(met && is("FailureTarget")), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    let by_policy = job.at(&["spec", "successPolicy"]).is_some() && is("Complete") && !met;
    unless(!by_policy, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True");
}

fn times(status: &At, change: &Change, faults: &mut Faults) {
    let (start, end) = (status.field("startTime"), status.field("completionTime"));
    let complete = is_true(change.new, "Complete");
    if change.turned("Complete") || change.touched("completionTime") {
        if end.is_set() && !complete {
            faults.push(end.invalid("cannot set completionTime when there is no Complete=True condition"));
        }
        if !end.is_set() && complete {
            faults.push(end.required("completionTime is required for Complete jobs"));
        }
    }
    if change.touched("startTime") || change.touched("completionTime") {
        let times = (Time::parse(start.text()), Time::parse(end.text()));
        if matches!(times, (Some(start), Some(end)) if end < start) {
            faults.push(end.invalid("must be equal to or after `startTime`"));
        }
    }
}

/// What has ended has no pods left.
fn finished(status: &At, change: &Change, faults: &mut Faults) {
    let finished = is_finished(change.new);
    let now = |field: &str| finished && (change.finished_turned() || change.touched(field));
    let (active, start, uncounted, terminating) = (
        status.field("active"),
        status.field("startTime"),
        status.field("uncountedTerminatedPods"),
        status.field("terminating"),
    );
    if now("active") && active.number() > 0 {
        faults.push(active.invalid("active>0 is invalid for finished job"));
    }
    let never_started = change.new.flag(&["spec", "suspend"]) && change.new.int(&["spec", "completions"]) == Some(0);
    if now("startTime") && !start.is_set() && !never_started {
        faults.push(start.required("startTime is required for finished job"));
    }
    let pods = ["succeeded", "failed"].iter().map(|list| uncounted.field(list).items().len()).sum::<usize>();
    if now("uncountedTerminatedPods") && pods > 0 {
        faults.push(uncounted.invalid("must be empty for finished job"));
    }
    if now("terminating") && terminating.number() > 0 {
        faults.push(terminating.invalid("terminating>0 is invalid for finished job"));
    }
    let ready = status.field("ready");
    if (change.touched("ready") || change.touched("active")) && ready.number() > active.number() {
        faults.push(ready.invalid("cannot set more ready pods than active"));
    }
}

fn index_sets(status: &At, change: &Change, faults: &mut Faults) {
    let (done, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let spec = &change.new["spec"];
    let by_index = spec.get("backoffLimitPerIndex").is_some();
    let completions = spec.int(&["completions"]);
    let mut parse = |at: &At, noun: &str| {
        let parsed = completions.map(|completions| indexes::count(at.text(), completions));
        if let Some(Err(fault)) = parsed {
            faults.push(at.invalid(format!("error parsing {noun}: {fault}")));
        }
    };
    if change.touched("completedIndexes") {
        parse(&done, "completedIndexes");
    }
    if change.touched("failedIndexes") && by_index && failed.is_set() {
        parse(&failed, "failedIndexes");
    }
    if change.touched("completedIndexes") && !done.text().is_empty() && !is_indexed(spec) {
        faults.push(done.invalid("cannot set non-empty completedIndexes when non-indexed completion mode"));
    }
    if change.touched("failedIndexes") && failed.is_set() && !by_index {
        faults.push(failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
    }
    let changed = change.touched("completedIndexes") || change.touched("failedIndexes");
    let shared = completions.and_then(|completions| indexes::first_shared(done.text(), failed.text(), completions));
    if let Some(index) = shared.filter(|_| changed) {
        faults.push(failed.invalid(format!("failedIndexes and completedIndexes overlap at index: {index}")));
    }
}

/// What has been reached is not undone.
fn not_back(status: &At, change: &Change, faults: &mut Faults) {
    let Change { new, old } = change;
    let conditions = status.field("conditions");
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if is_true(old, condition) && !is_true(new, condition) {
            faults.push(FieldError::invalid_whole(
                conditions.path,
                format!("cannot disable the terminal {condition}=True condition"),
            ));
        }
    }
    let spec = &new["spec"];
    let elastic = is_indexed(spec) && spec.int(&["completions"]) == spec.int(&["parallelism"]);
    for (counter, fixed) in [("failed", true), ("succeeded", !elastic)] {
        let at = status.field(counter);
        if fixed && at.number() < old.int(&["status", counter]).unwrap_or(0) {
            faults.push(at.invalid_as(at.number(), format!("cannot decrease the {counter} counter")));
        }
    }
    let end = status.field("completionTime");
    if end.is_set() && old.at(&["status", "completionTime"]).is_some() && change.touched("completionTime") {
        faults.push(end.invalid("field is immutable"));
    }
    start_time(status, change, faults);
    if is_true(old, "SuccessCriteriaMet") && !is_true(new, "SuccessCriteriaMet") {
        faults.push(FieldError::invalid_whole(conditions.path, "cannot disable the SuccessCriteriaMet=True condition"));
    }
    let late = is_true(old, "Complete") && !is_true(old, "SuccessCriteriaMet") && is_true(new, "SuccessCriteriaMet");
    if late {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        faults.push(FieldError::invalid_whole(conditions.path, detail));
    }
}

/// A Job starts once, and again only when it is resumed.
fn start_time(status: &At, change: &Change, faults: &mut Faults) {
    let Change { new, old } = change;
    let resumed = is_true(old, "Suspended") && !is_true(new, "Suspended");
    let had = old.at(&["status", "startTime"]).is_some();
    if had && change.touched("startTime") && !resumed && !new.flag(&["spec", "suspend"]) {
        let at = status.field("startTime");
        faults.push(at.invalid("field is immutable for unsuspended job once set"));
    }
}
