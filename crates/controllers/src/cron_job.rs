//! A CronJob makes a Job at every time of its schedule.
//!
//! Owns: its Jobs, named `<name>-<minutes since the epoch>` so that a time is never served twice, and its status. Of
//! times that were missed only the latest is made up for, unless its starting deadline is over. Ended Jobs beyond the
//! history limits are deleted. At rest: every time up to now is served, skipped or too late, and the next is waited for.
//! Never touches Jobs that it does not control.

use std::time::Duration;

use brain::{Action, Brain, Def, Note, Object, Outcome, Propagation, Resource, View, Watch};
use meta::{ObjectExt, Time, condition};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::cron_schedule::Schedule;
use crate::job::{COLLECTION as JOB_COLLECTION, JOBS, is_finished};
use crate::target::Target;

const CRON_JOBS: Resource = Resource::new("batch", "v1", "cronjobs");
const COLLECTION: &str = "batch/cronjobs";
const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// From so many missed times on a warning is given: the clock jumped, or the schedule is too dense.
const MISSED_MANY: usize = 100;
/// Missed times are walked one by one up to here; beyond, the latest is estimated from the distance of two.
const WALKED_MAX: usize = 100;

/// The controller.
pub struct CronJobController;

/// What the CronJob asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    target: Target,
    object: Value,
    schedule: Result<Schedule, String>,
    created: Time,
    is_suspended: bool,
    starting_deadline: Option<u64>,
    last_schedule: Option<Time>,
    successes_kept: usize,
    failures_kept: usize,
}

/// Its Jobs, in order of name.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    jobs: Vec<Job>,
}

#[derive(Clone, Debug, PartialEq)]
struct Job {
    target: Target,
    is_complete: bool,
    is_failed: bool,
    started: Time,
    completed: Option<Time>,
    scheduled: Option<Time>,
}

impl Job {
    fn is_active(&self) -> bool {
        !self.is_complete && !self.is_failed
    }
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Makes the Job of a time.
    Create(Time),
    /// Deletes a Job (by index, with its name).
    Delete(usize, String),
    /// Writes the status.
    Tell(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The schedule cannot be read.
    Unparseable(String, String),
    /// A time was missed by more than the deadline.
    Missed(Time),
    /// Very many times were missed.
    MissedMany,
    /// Another Job still runs.
    AlreadyActive,
    /// A Job of the active list has ended; the condition that says so.
    Completed(String, &'static str),
    /// A Job of the active list is gone.
    Missing(String),
}

impl Brain for CronJobController {
    const DEF: Def = Def {
        name: "cronjob",
        root: CRON_JOBS,
        root_kind: "CronJob",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: JOB_COLLECTION, roots: job_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let object = view.get_key(key)?;
        let uid = object.meta().uid.clone();
        let is_own = |job: &Object| &*job.key.collection == JOB_COLLECTION && job.meta().is_controlled_by(&uid);
        let jobs = view.each_dependent(&uid).filter(is_own).map(|object| job(&object)).collect();
        (!object.meta().is_deleting()).then(|| (desired(&object), Observed { jobs }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let mut outcome = Outcome::rest();
        outcome.steps.extend(surplus(desired, observed));
        let mut last_schedule = desired.last_schedule.max(served(observed));
        let active: Vec<usize> = (0..observed.jobs.len()).filter(|index| observed.jobs[*index].is_active()).collect();
        match &desired.schedule {
            Err(error) => {
                let text = desired.object.text(&["spec", "schedule"]).to_owned();
                outcome = outcome.note(Why::Unparseable(text, error.clone()));
            }
            Ok(_) if desired.is_suspended => {}
            Ok(schedule) => {
                let due = due(desired, observed, schedule, now);
                outcome.notes.extend(due.note);
                if let Some(next) = schedule.next(now) {
                    outcome = outcome.wake_at(next);
                }
                if let Some(time) = due.time {
                    start(desired, observed, &active, time, &mut outcome);
                    if outcome.steps.contains(&Step::Create(time)) {
                        last_schedule = Some(time);
                    }
                }
            }
        }
        // What this turn deletes is no longer active, as soon as it says so.
        let is_replaced = |index: &usize| outcome.steps.iter().any(|s| matches!(s, Step::Delete(of, _) if of == index));
        let stay: Vec<usize> = active.into_iter().filter(|index| !is_replaced(index)).collect();
        outcome.notes.extend(departed(desired, observed));
        let told = told(desired, observed, &stay, last_schedule);
        outcome.steps.extend((told != desired.object).then_some(Step::Tell(told)));
        outcome
    }

    fn check(desired: &Desired, _: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let creations = outcome.steps.iter().filter(|step| matches!(step, Step::Create(_))).count();
        if desired.is_suspended && creations > 0 {
            return Err("a suspended CronJob makes a Job".to_owned());
        }
        if creations > 1 { Err("more than one Job in a turn".to_owned()) } else { Ok(()) }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        match step {
            Step::Create(time) => Action::Create {
                resource: JOBS,
                namespace: desired.target.namespace.clone(),
                object: new_job(desired, time),
            },
            Step::Tell(object) => Action::Update { resource: CRON_JOBS, subresource: "status", object },
            Step::Delete(index, _) => {
                let target = observed.jobs.get(index).map(|job| job.target.clone()).unwrap_or_default();
                target.delete(JOBS, Some(Propagation::Background))
            }
        }
    }

    fn announce(step: &Step, desired: &Desired) -> Option<Note> {
        match step {
            Step::Create(time) => {
                Some(Note::normal("SuccessfulCreate", format!("Created job {}", job_name(desired, *time))))
            }
            Step::Delete(_, name) => Some(Note::normal("SuccessfulDelete", format!("Deleted job {name}"))),
            Step::Tell(_) => None,
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::Unparseable(schedule, error) => {
                Note::warning("UnparseableSchedule", format!("unparseable schedule: {schedule:?} : {error}"))
            }
            Why::Missed(time) => {
                Note::warning("MissSchedule", format!("Missed scheduled time to start a job: {}", rfc1123(time)))
            }
            Why::MissedMany => Note::warning(
                "TooManyMissedTimes",
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
            ),
            Why::AlreadyActive => Note::normal(
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            ),
            Why::Completed(name, condition) => {
                Note::normal("SawCompletedJob", format!("Saw completed job: {name}, condition: {condition}"))
            }
            Why::Missing(name) => Note::normal("MissingJob", format!("Active job went missing: {name}")),
        }
    }
}

fn desired(object: &Object) -> Desired {
    let tree = object.tree();
    let kept =
        |field, default: usize| tree.int(&["spec", field]).map_or(default, |limit| usize::try_from(limit).unwrap_or(0));
    Desired {
        target: Target::of(object),
        schedule: Schedule::parse(tree.text(&["spec", "schedule"]), tree.text(&["spec", "timeZone"])),
        created: object.meta().creation_timestamp,
        is_suspended: tree.flag(&["spec", "suspend"]),
        starting_deadline: tree.int(&["spec", "startingDeadlineSeconds"]).and_then(|s| u64::try_from(s).ok()),
        last_schedule: Time::parse(tree.text(&["status", "lastScheduleTime"])),
        successes_kept: kept("successfulJobsHistoryLimit", 3),
        failures_kept: kept("failedJobsHistoryLimit", 1),
        object: tree,
    }
}

fn job(object: &Object) -> Job {
    let tree = object.tree();
    Job {
        target: Target::of(object),
        is_complete: condition::is_true(&tree, "Complete"),
        is_failed: is_finished(&tree) && !condition::is_true(&tree, "Complete"),
        started: Time::parse(tree.text(&["status", "startTime"])).unwrap_or(object.meta().creation_timestamp),
        completed: Time::parse(tree.text(&["status", "completionTime"])),
        scheduled: tree.annotation(SCHEDULED_AT).and_then(Time::parse),
    }
}

/// The latest time that has a Job: it says that the time was served, even if the status never came to say so.
fn served(observed: &Observed) -> Option<Time> {
    observed.jobs.iter().filter_map(|job| job.scheduled).max()
}

/// The time to serve now, and what there is to say about missed ones.
struct Due {
    time: Option<Time>,
    note: Option<Why>,
}

fn due(desired: &Desired, observed: &Observed, schedule: &Schedule, now: Time) -> Due {
    let none = Due { time: None, note: None };
    let mut earliest = desired.last_schedule.max(served(observed)).unwrap_or(desired.created);
    if let Some(deadline) = desired.starting_deadline {
        let micros = i64::try_from(deadline).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        earliest = earliest.max(Time::from_micros(now.as_micros().saturating_sub(micros)));
    }
    let Some((latest, missed)) = latest(schedule, earliest, now) else { return none };
    let is_late = desired.starting_deadline.is_some_and(|deadline| latest.after(Duration::from_secs(deadline)) < now);
    if is_late {
        return Due { time: None, note: Some(Why::Missed(latest)) };
    }
    Due { time: Some(latest), note: (missed > MISSED_MANY).then_some(Why::MissedMany) }
}

/// The latest time in `(earliest, now]` and how many there are. After an outage there may be millions: then the
/// walk begins anew shortly before now.
fn latest(schedule: &Schedule, earliest: Time, now: Time) -> Option<(Time, usize)> {
    let mut latest = schedule.next(earliest).filter(|time| *time <= now)?;
    let mut missed = 1;
    while let Some(next) = schedule.next(latest).filter(|next| *next <= now) {
        missed += 1;
        if missed > WALKED_MAX {
            let span = next.since(latest).max(Duration::from_secs(1));
            let left = now.since(next).as_secs() / span.as_secs().max(1);
            missed = missed.saturating_add(usize::try_from(left).unwrap_or(usize::MAX));
            return Some((walk_back(schedule, next, now), missed));
        }
        latest = next;
    }
    Some((latest, missed))
}

/// The latest time up to now: looked for in windows before now that double until one holds a time.
fn walk_back(schedule: &Schedule, known: Time, now: Time) -> Time {
    let mut window = 60_i64;
    loop {
        let from = Time::from_secs(now.as_secs().saturating_sub(window)).max(known);
        let mut found = None;
        let mut at = from;
        while let Some(next) = schedule.next(at).filter(|next| *next <= now) {
            (found, at) = (Some(next), next);
        }
        match found {
            Some(found) => return found,
            None if from == known => return known,
            None => window = window.saturating_mul(2),
        }
    }
}

fn start(desired: &Desired, observed: &Observed, active: &[usize], time: Time, outcome: &mut Outcome<Step, Why>) {
    let name = job_name(desired, time);
    if observed.jobs.iter().any(|job| job.target.name == name) || desired.last_schedule == Some(time) {
        return;
    }
    match desired.object.text(&["spec", "concurrencyPolicy"]) {
        "Forbid" if !active.is_empty() => {
            outcome.notes.push(Why::AlreadyActive);
            return;
        }
        "Replace" => {
            let deletions = active.iter().map(|index| Step::Delete(*index, observed.jobs[*index].target.name.clone()));
            outcome.steps.extend(deletions);
        }
        _ => {}
    }
    outcome.steps.push(Step::Create(time));
}

/// Ended Jobs beyond the limits, oldest first.
fn surplus(desired: &Desired, observed: &Observed) -> Vec<Step> {
    let beyond = |kept: usize, is_of: fn(&Job) -> bool| {
        let mut ended: Vec<usize> = (0..observed.jobs.len()).filter(|index| is_of(&observed.jobs[*index])).collect();
        ended.sort_by_key(|index| (observed.jobs[*index].started, observed.jobs[*index].target.name.clone()));
        let count = ended.len().saturating_sub(kept);
        ended.into_iter().take(count).map(|index| Step::Delete(index, observed.jobs[index].target.name.clone()))
    };
    beyond(desired.successes_kept, |job| job.is_complete)
        .chain(beyond(desired.failures_kept, |job| job.is_failed))
        .collect()
}

/// What became of the Jobs on the active list that do not belong there any more.
fn departed(desired: &Desired, observed: &Observed) -> Vec<Why> {
    let why = |reference: &Value| {
        let name = reference.text(&["name"]).to_owned();
        match observed.jobs.iter().find(|job| job.target.uid == reference.text(&["uid"])) {
            None => Some(Why::Missing(name)),
            Some(job) if job.is_complete => Some(Why::Completed(name, "Complete")),
            Some(job) if job.is_failed => Some(Why::Completed(name, "Failed")),
            Some(_) => None,
        }
    };
    desired.object.items(&["status", "active"]).iter().filter_map(why).collect()
}

/// The CronJob with its status.
fn told(desired: &Desired, observed: &Observed, active: &[usize], last_schedule: Option<Time>) -> Value {
    let mut new = desired.object.clone();
    let reference = |index: &usize| {
        let target = &observed.jobs[*index].target;
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": target.namespace, "name": target.name,
            "uid": target.uid, "resourceVersion": target.revision.to_string()})
    };
    // The revision of a reference is that of when it was first seen: it is no reason to write again.
    let uid = |reference: &Value| reference.text(&["uid"]).to_owned();
    let stood: Vec<String> = desired.object.items(&["status", "active"]).iter().map(uid).collect();
    let references: Vec<Value> = active.iter().map(reference).collect();
    if references.iter().map(uid).collect::<Vec<_>>() != stood {
        match references.is_empty() {
            true => drop(new.remove(&["status", "active"])),
            false => new.put(&["status", "active"], references),
        }
    }
    if let Some(time) = last_schedule.filter(|_| last_schedule != desired.last_schedule) {
        new.put(&["status", "lastScheduleTime"], time.to_rfc3339());
    }
    let success = observed.jobs.iter().filter(|job| job.is_complete).filter_map(|job| job.completed).max();
    let known = Time::parse(new.text(&["status", "lastSuccessfulTime"]));
    if let Some(time) = success.filter(|time| known.is_none_or(|known| known < *time)) {
        new.put(&["status", "lastSuccessfulTime"], time.to_rfc3339());
    }
    new
}

/// Minutes since the epoch make the name: one Job a time, whoever asks how often.
fn job_name(desired: &Desired, time: Time) -> String {
    format!("{}-{}", desired.target.name, time.as_secs().div_euclid(60))
}

fn new_job(desired: &Desired, time: Time) -> Value {
    let template = desired.object.at(&["spec", "jobTemplate"]).cloned().unwrap_or_default();
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": template.at(&["spec"])});
    for field in ["labels", "annotations"] {
        if let Some(value) = template.at(&["metadata", field]) {
            job.put(&["metadata", field], value.clone());
        }
    }
    let zone = desired.object.text(&["spec", "timeZone"]);
    job.put(&["metadata", "annotations", SCHEDULED_AT], in_zone(time, zone));
    job.put(&["metadata", "name"], job_name(desired, time));
    job.put(&["metadata", "namespace"], desired.target.namespace.as_str());
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": desired.target.name,
        "uid": desired.target.uid, "controller": true, "blockOwnerDeletion": true});
    job.put(&["metadata", "ownerReferences"], json!([owner]));
    job
}

/// RFC 3339 with the zone's offset.
fn in_zone(time: Time, zone: &str) -> String {
    let stamp = jiff::Timestamp::from_second(time.as_secs()).ok();
    let zone = if zone.is_empty() { None } else { jiff::tz::TimeZone::get(zone).ok() };
    match (stamp, zone) {
        (Some(stamp), Some(zone)) => stamp.to_zoned_datetime(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        _ => time.to_rfc3339(),
    }
}

/// `Mon, 02 Jan 2006 15:04:05 +0000`, the form of upstream's event.
fn rfc1123(time: Time) -> String {
    let stamp = jiff::Timestamp::from_second(time.as_secs()).unwrap_or_default();
    stamp.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
}

fn job_roots(_: &View, event: &Event) -> Vec<Key> {
    let entries = event.previous.iter().chain([&event.entry]);
    let key = |entry: &std::sync::Arc<store::Entry>| {
        let job = Object::new(event.key.clone(), entry.clone());
        let owner = job.meta().controller().filter(|owner| &*owner.kind == "CronJob")?;
        Some(Key::new(COLLECTION, format!("{}/{}", job.meta().namespace, owner.name)))
    };
    entries.filter_map(key).collect()
}

#[cfg(test)]
mod tests;
