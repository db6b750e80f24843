//! A job's decision: is it over, what is counted, which pods go and which are made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brain::{Outcome, Siblings, child_name, fingerprint};
use meta::condition::Condition;
use meta::{ObjectExt, Time, condition};
use serde_json::{Value, json};

use super::failure_policy::{Verdict, success, verdict};
use super::pod::{JobPod, retry_at};
use super::tally::{Tally, is_failed, length};
use super::{Job, NewPod, Step, Why, indexes};
use crate::pods::{BURST_MAX, new_names};

/// Uids waiting to be counted in one status: upstream's bound on the object's size.
const UNCOUNTED_MAX: usize = 500;

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    /// Well or not.
    is_success: bool,
    reason: String,
    message: String,
    /// The interim condition stands in the status already.
    is_told: bool,
}

/// The reasons that an event may have: events and metrics want words known beforehand.
pub(super) fn known_reason(reason: &str) -> &'static str {
    const KNOWN: [&str; 5] =
        ["BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded", "PodFailurePolicy"];
    KNOWN.into_iter().find(|known| *known == reason).unwrap_or("Failed")
}

/// `taken`: the names of all pods there that might stand in the way of new ones, released ones too.
pub(super) fn decide(job: &Job, pods: &[JobPod], taken: &BTreeSet<String>, now: Time) -> Outcome<Step, Why> {
    let tally = Tally::of(&job.spec, &job.status, pods);
    let mut outcome = Outcome::rest();
    let end = told_end(&job.object).or_else(|| new_end(job, pods, &tally, now));
    let mut changes = Vec::new();
    if end.is_some() {
        changes.extend(tally.active.iter().map(|place| delete(pods, *place)));
    } else if !job.is_deleting {
        let (steps, wake) = manage(job, pods, taken, &tally, now);
        changes = steps;
        if let Some(wake) = wake {
            outcome = outcome.wake_at(wake).note(Why::BackingOff);
        }
    }
    let end = end.or_else(|| completion(job, &tally));
    if let (None, Some(deadline)) = (&end, deadline(job)) {
        outcome = outcome.wake_at(deadline);
    }
    let (told, released, why) = count(job, pods, &tally, end.as_ref(), now);
    outcome.steps.extend((told != job.object).then_some(Step::Tell(told, why)));
    outcome.steps.extend(released.into_iter().map(Step::Release));
    outcome.steps.extend(changes.into_iter().take(BURST_MAX));
    outcome
}

/// The end that an interim condition says.
fn told_end(job: &Value) -> Option<End> {
    let interim = |type_: &str, is_success| {
        let told = condition::find(job, type_).filter(|c| c.text(&["status"]) == "True")?;
        let (reason, message) = (told.text(&["reason"]).to_owned(), told.text(&["message"]).to_owned());
        Some(End { is_success, reason, message, is_told: true })
    };
    interim("SuccessCriteriaMet", true).or_else(|| interim("FailureTarget", false))
}

fn end(is_success: bool, reason: &str, message: impl Into<String>) -> Option<End> {
    Some(End { is_success, reason: reason.to_owned(), message: message.into(), is_told: false })
}

fn new_end(job: &Job, pods: &[JobPod], tally: &Tally, now: Time) -> Option<End> {
    let spec = &job.spec;
    let failing = pods.iter().filter(|pod| is_failed(spec, pod));
    for pod in failing {
        if let Verdict::FailJob(message) = verdict(spec.failure_policy.as_ref(), pod) {
            return end(false, "PodFailurePolicy", message);
        }
    }
    if tally.failed > spec.backoff_limit || restarted_too_often(job, pods) {
        return end(false, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline(job).is_some_and(|deadline| deadline <= now) {
        return end(false, "DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let failed_indexes = length(tally.failed_indexes.len());
    if spec.is_indexed && spec.backoff_limit_per_index.is_some() {
        if spec.max_failed_indexes.is_some_and(|max| failed_indexes > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return end(false, "MaxFailedIndexesExceeded", message);
        }
        if failed_indexes > 0 && failed_indexes + tally.succeeded >= spec.completions.unwrap_or(0) {
            return end(false, "FailedIndexes", "Job has failed indexes");
        }
    }
    let rule = success(spec.success_policy.as_ref(), spec.completions.unwrap_or(0), &tally.succeeded_indexes);
    rule.filter(|_| spec.is_indexed).and_then(|message| end(true, "SuccessPolicy", message))
}

fn restarted_too_often(job: &Job, pods: &[JobPod]) -> bool {
    let live = pods.iter().filter(|pod| matches!(&*pod.phase, "Running" | "Pending"));
    let restarts: i64 = live.map(|pod| pod.restarts).sum();
    let limit = job.spec.backoff_limit;
    job.spec.restarts_on_failure && if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn deadline(job: &Job) -> Option<Time> {
    let seconds = job.spec.active_deadline.filter(|_| !job.spec.is_suspended)?;
    Some(job.status.start_time?.after(Duration::from_secs(seconds)))
}

/// Enough has succeeded and nothing runs any more.
fn completion(job: &Job, tally: &Tally) -> Option<End> {
    let is_enough = match job.spec.completions {
        None => tally.succeeded > 0,
        Some(completions) => tally.succeeded >= completions,
    };
    let is_over = is_enough && tally.active.is_empty() && !job.is_deleting;
    if is_over { end(true, "CompletionsReached", "Reached expected number of succeeded pods") } else { None }
}

/// Deletions or creations of pods, and when to try again.
fn manage(job: &Job, pods: &[JobPod], taken: &BTreeSet<String>, tally: &Tally, now: Time) -> (Vec<Step>, Option<Time>) {
    let active = length(tally.active.len());
    let wanted = if job.spec.is_suspended { 0 } else { wanted(job, tally, active) };
    let surplus = surplus(job, pods, tally, usize::try_from(active - wanted).unwrap_or(0));
    if !surplus.is_empty() {
        return (surplus.into_iter().map(|place| delete(pods, place)).collect(), None);
    }
    let terminating = if job.spec.replaces_failed_only { tally.terminating } else { 0 };
    let missing = usize::try_from(wanted - terminating - active).unwrap_or(0).min(BURST_MAX);
    if missing == 0 {
        return (Vec::new(), None);
    }
    if job.spec.backoff_limit_per_index.is_none() {
        let retry = retry_at(tally.failures, tally.last_failure);
        if retry > now {
            return (Vec::new(), Some(retry));
        }
    }
    let (new, wake) = if job.spec.is_indexed {
        indexed(job, pods, taken, tally, missing, now)
    } else {
        (plain(job, pods, taken, missing), None)
    };
    (new.into_iter().map(Step::Create).collect(), wake)
}

fn delete(pods: &[JobPod], place: usize) -> Step {
    Step::Delete(place, pods[place].target.name.clone())
}

fn wanted(job: &Job, tally: &Tally, active: i64) -> i64 {
    match job.spec.completions {
        // The first success is the signal: what runs may finish, nothing is started.
        None if tally.succeeded > 0 => active,
        None => job.spec.parallelism,
        Some(completions) => (completions - tally.succeeded).clamp(0, job.spec.parallelism),
    }
}

/// The active pods to delete: those with an index that is not the job's or that another has, then the least useful.
fn surplus(job: &Job, pods: &[JobPod], tally: &Tally, count: usize) -> Vec<usize> {
    let mut ranked = tally.active.clone();
    ranked.sort_by_key(|place| {
        let pod = &pods[*place];
        // Later is less useful only among equals: younger pods have done less.
        (pod.is_bound, pod.phase == "Running", pod.is_ready, std::cmp::Reverse(pod.created), pod.target.name.clone())
    });
    let mut going = Vec::new();
    if job.spec.is_indexed {
        let mut held = BTreeSet::new();
        // From the most useful on, the first of each index stays.
        for place in ranked.iter().rev() {
            let index = pods[*place].index;
            if !job.spec.has_index(index) || !held.insert(index) {
                going.push(*place);
            }
        }
    }
    let more: Vec<usize> = ranked.into_iter().filter(|place| !going.contains(place)).collect();
    let missing = count.saturating_sub(going.len());
    going.extend(more.into_iter().take(missing));
    going
}

fn plain(job: &Job, pods: &[JobPod], taken: &BTreeSet<String>, count: usize) -> Vec<NewPod> {
    let owner = [&*job.target.uid];
    let siblings = Siblings::named(pods.iter().map(|pod| &*pod.target.name));
    let fresh = new_names(&job.target.name, &owner, siblings, taken, count);
    fresh.into_iter().map(|name| NewPod { name, index: None, failures: None }).collect()
}

fn indexed(
    job: &Job,
    pods: &[JobPod],
    taken: &BTreeSet<String>,
    tally: &Tally,
    count: usize,
    now: Time,
) -> (Vec<NewPod>, Option<Time>) {
    let occupies = |pod: &&JobPod| pod.is_active() || (job.spec.replaces_failed_only && pod.is_terminating());
    let occupied: BTreeSet<i64> = pods.iter().filter(occupies).filter_map(|pod| pod.index).collect();
    let is_pending = |index: &i64| {
        !occupied.contains(index) && !tally.succeeded_indexes.contains(index) && !tally.failed_indexes.contains(index)
    };
    let pending: Vec<i64> = (0..job.spec.completions.unwrap_or(0)).filter(is_pending).take(count).collect();
    let mut by_index: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for pod in pods {
        by_index.entry(pod.index.unwrap_or(-1)).or_default().push(&pod.target.uid);
    }
    let (mut new, mut wake) = (Vec::new(), None::<Time>);
    for index in pending {
        let delayed = tally.delayed.get(&index).map(|place| &pods[*place]);
        let retry = delayed.map_or(Time::EPOCH, |pod| retry_at(pod.all_failures() + 1, pod.finished));
        if retry > now {
            wake = Some(wake.map_or(retry, |wake| wake.min(retry)));
            continue;
        }
        let seen = fingerprint(by_index.get(&index).into_iter().flatten().copied());
        let base = format!("{}-{index}-", job.target.name);
        let mut names = (0..=taken.len())
            .map(|n| child_name(&base, [&*job.target.uid, &*index.to_string(), &*seen, &*n.to_string()]));
        let Some(name) = names.find(|name| !taken.contains(name)) else { continue };
        new.push(NewPod { name, index: Some(index), failures: failures_before(job, delayed) });
    }
    (new, wake)
}

fn failures_before(job: &Job, last: Option<&JobPod>) -> Option<(i64, i64)> {
    job.spec.backoff_limit_per_index?;
    let Some(last) = last else { return Some((0, 0)) };
    Some(match verdict(job.spec.failure_policy.as_ref(), last) {
        Verdict::Ignore => (last.failures, last.ignored_failures + 1),
        _ => (last.failures + 1, last.ignored_failures),
    })
}

/// The Job with its new status, the pods to let go of, and what to announce.
fn count(job: &Job, pods: &[JobPod], tally: &Tally, end: Option<&End>, now: Time) -> (Value, Vec<usize>, Option<Why>) {
    let mut new = job.object.clone();
    let ledger = Ledger::of(job, pods, tally, end);
    let mut why = tell_suspension(job, &mut new, end, now);
    if job.status.start_time.is_none() && !job.spec.is_suspended {
        new.put(&["status", "startTime"], now.to_rfc3339());
    }
    put_number(&mut new, "active", length(tally.active.len()));
    new.put(&["status", "ready"], tally.ready);
    new.put(&["status", "terminating"], tally.terminating);
    put_number(&mut new, "failed", ledger.failed);
    put_number(&mut new, "succeeded", ledger.succeeded);
    new.put(&["status", "uncountedTerminatedPods"], ledger.uncounted());
    if job.spec.is_indexed {
        let completed = indexes::format(&tally.succeeded_indexes);
        if completed != job.status.completed_indexes {
            new.put(&["status", "completedIndexes"], completed);
        }
        if job.spec.backoff_limit_per_index.is_some() {
            new.put(&["status", "failedIndexes"], indexes::format(&tally.failed_indexes));
        }
    }
    let is_quiet = tally.active.is_empty() && tally.terminating == 0 && !pods.iter().any(|pod| pod.is_tracked);
    if let Some(end) = end {
        let finished = end.is_told && is_quiet && ledger.is_empty();
        tell_end(&mut new, end, finished, now);
        if finished {
            why = Some(match end.is_success {
                true => Why::Completed,
                false => Why::Failed(end.reason.clone(), end.message.clone()),
            });
        }
    }
    (new, ledger.released, why)
}

fn put_number(job: &mut Value, field: &str, number: i64) {
    match number {
        0 if job.at(&["status", field]).is_none() => {}
        0 => drop(job.remove(&["status", field])),
        number => job.put(&["status", field], number),
    }
}

fn tell_end(job: &mut Value, end: &End, is_finished: bool, now: Time) {
    let interim = if end.is_success { "SuccessCriteriaMet" } else { "FailureTarget" };
    condition::set(job, Condition::new(interim, "True", &end.reason, end.message.as_str()), now);
    if is_finished {
        let last = if end.is_success { "Complete" } else { "Failed" };
        condition::set(job, Condition::new(last, "True", &end.reason, end.message.as_str()), now);
        if end.is_success {
            job.put(&["status", "completionTime"], now.to_rfc3339());
        }
    }
}

fn tell_suspension(job: &Job, new: &mut Value, end: Option<&End>, now: Time) -> Option<Why> {
    if end.is_some() || job.is_deleting {
        return None;
    }
    let was = condition::is_true(&job.object, "Suspended");
    match (job.spec.is_suspended, was) {
        (true, false) => {
            condition::set(new, Condition::new("Suspended", "True", "JobSuspended", "Job suspended"), now);
            Some(Why::Suspended)
        }
        (false, true) => {
            condition::set(new, Condition::new("Suspended", "False", "JobResumed", "Job resumed"), now);
            new.put(&["status", "startTime"], now.to_rfc3339());
            Some(Why::Resumed)
        }
        _ => None,
    }
}

/// What is counted and what is about to be.
struct Ledger {
    succeeded: i64,
    failed: i64,
    uncounted_succeeded: Vec<String>,
    uncounted_failed: Vec<String>,
    /// Pods (by index) to let go of once this stands in the status.
    released: Vec<usize>,
}

impl Ledger {
    fn of(job: &Job, pods: &[JobPod], tally: &Tally, end: Option<&End>) -> Ledger {
        let held: BTreeSet<&str> = pods.iter().filter(|pod| pod.is_tracked).map(|pod| &*pod.target.uid).collect();
        let split = |uids: &[String]| -> (Vec<String>, i64) {
            let (waiting, let_go): (Vec<String>, Vec<String>) =
                uids.iter().cloned().partition(|uid| held.contains(&**uid));
            (waiting, length(let_go.len()))
        };
        let (uncounted_succeeded, newly_succeeded) = split(&job.status.uncounted_succeeded);
        let (uncounted_failed, newly_failed) = split(&job.status.uncounted_failed);
        let succeeded = if job.spec.is_indexed { tally.succeeded } else { job.status.succeeded + newly_succeeded };
        let failed = job.status.failed + newly_failed;
        let mut ledger = Ledger { succeeded, failed, uncounted_succeeded, uncounted_failed, released: Vec::new() };
        for (place, pod) in pods.iter().enumerate().filter(|(_, pod)| pod.is_tracked) {
            if ledger.is_full() {
                break;
            }
            if is_countable(job, pod, place, tally, end) {
                ledger.enter(job, pod, end);
                ledger.released.push(place);
            }
        }
        ledger
    }

    fn enter(&mut self, job: &Job, pod: &JobPod, end: Option<&End>) {
        let uid = &pod.target.uid;
        if pod.is_succeeded() && !self.uncounted_failed.contains(uid) {
            // An index is its own proof against counting twice.
            if !job.spec.is_indexed && !self.uncounted_succeeded.contains(uid) {
                self.uncounted_succeeded.push(uid.clone());
            }
            return;
        }
        let fails = is_failed(&job.spec, pod) || end.is_some_and(|end| !end.is_success);
        let is_ours = !job.spec.is_indexed || job.spec.has_index(pod.index);
        let is_ignored = verdict(job.spec.failure_policy.as_ref(), pod) == Verdict::Ignore;
        if fails && is_ours && !is_ignored && !self.uncounted_failed.contains(uid) {
            self.uncounted_failed.push(uid.clone());
        }
    }

    fn is_full(&self) -> bool {
        self.released.len() >= UNCOUNTED_MAX
            || self.uncounted_succeeded.len() + self.uncounted_failed.len() >= UNCOUNTED_MAX
    }

    fn is_empty(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty()
    }

    fn uncounted(&self) -> Value {
        let mut uncounted = json!({});
        for (field, uids) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !uids.is_empty() {
                uncounted.put(&[field], uids.clone());
            }
        }
        uncounted
    }
}

fn is_countable(job: &Job, pod: &JobPod, place: usize, tally: &Tally, end: Option<&End>) -> bool {
    if job.is_deleting || end.is_some() || pod.is_succeeded() {
        return true;
    }
    let is_delayed = pod.index.is_some_and(|index| tally.delayed.get(&index) == Some(&place));
    is_failed(&job.spec, pod) && !is_delayed
}
