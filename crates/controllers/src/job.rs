//! A Job runs pods until enough have ended well, too many have failed, or its time is over.
//!
//! Owns: the Job's status, its pods (matching ones that nobody controls are adopted, own ones that no longer match are
//! released), and the finalizer `batch.kubernetes.io/job-tracking` on them, which holds every pod until it is counted: first its uid stands in `status.uncountedTerminatedPods`, then the finalizer goes, then the
//! number goes up. So no pod is counted twice and none is forgotten, wherever the controller dies.
//! Ending takes two steps: an interim condition (`SuccessCriteriaMet`, `FailureTarget`) stops everything, and when no
//! pod is left running the final one (`Complete`, `Failed`) says so.
//! At rest: as many pods run as are wanted, all ended ones are counted; or the Job has ended and holds no pod.
//! Never touches Jobs with a foreign `spec.managedBy`, nor pods that the Job does not control.

mod decide;
mod failure_policy;
mod indexes;
mod pod;
mod spec;
mod tally;

use std::collections::BTreeSet;

use brain::facts::{Pod, Seen};
use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch, child_base};
use meta::labels::Selector;
use meta::{ObjectExt, Time, condition};
use serde_json::{Value, json};
use store::{Event, Key};

use self::pod::{COMPLETION_INDEX, FAILURES, IGNORED_FAILURES, JobPod, TRACKING};
use self::spec::{JobSpec, JobStatus};
use crate::claim::{Claimed, Owner, Transfer, claim, spec_selector};
use crate::pods::{self, BURST_MAX};
use crate::target::{Target, has_finalizer};
use crate::wakes;

pub(crate) const JOBS: Resource = Resource::new("batch", "v1", "jobs");
pub(crate) const COLLECTION: &str = "batch/jobs";
const NAMESPACES: &str = "core/namespaces";
const SELF: &str = "kubernetes.io/job-controller";

/// The controller.
pub struct JobController;

/// The Job; `None` when it is gone and only its pods are left.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    job: Option<Job>,
}

#[derive(Clone, Debug, PartialEq)]
struct Job {
    target: Target,
    object: Value,
    spec: JobSpec,
    status: JobStatus,
    is_deleting: bool,
    is_finished: bool,
}

/// Its pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pods: Vec<JobPod>,
    /// Changes of owner to be made first.
    transfers: Vec<Transfer>,
    /// Pods of a Job of this name that is no more, still held for it: target and the finalizers that stay.
    strays: Vec<(Target, Vec<String>)>,
    /// Names that new pods cannot have, those of pods that the Job let go of too.
    taken: BTreeSet<String>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes a pod's owner.
    Transfer(Transfer),
    /// Writes the status; a reason and sentence to announce with it.
    Tell(Value, Option<Why>),
    /// Lets go of a pod (by index) that is counted.
    Release(usize),
    /// Lets go of a pod of a Job that is no more.
    ReleaseStray(usize),
    /// Deletes a pod (by index, with its name).
    Delete(usize, String),
    /// Makes a pod.
    Create(NewPod),
}

/// A pod to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPod {
    name: String,
    index: Option<i64>,
    /// Counted and ignored failures of the index before it.
    failures: Option<(i64, i64)>,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The Job is suspended.
    Suspended,
    /// It goes on.
    Resumed,
    /// It has ended well.
    Completed,
    /// It has failed: reason and sentence.
    Failed(String, String),
    /// Pods that failed are tried again later.
    BackingOff,
}

impl Brain for JobController {
    const DEF: Def = Def {
        name: "job",
        root: JOBS,
        root_kind: "Job",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: pods::COLLECTION, roots: pod_roots },
            Watch { collection: NAMESPACES, roots: namespace_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let (namespace, name) = key.item.split_once('/')?;
        let job = view.get_key(key).map(|object| job(&object, is_going(view, namespace)));
        let uid = job.as_ref().map_or("", |job| &job.target.uid);
        let strays = strays(view, namespace, name, uid);
        if job.as_ref().is_some_and(|job| is_foreign(&job.object)) {
            return None;
        }
        let Claimed { mine, transfers } = job.as_ref().map_or_else(Claimed::default, |job| claimed(view, job));
        let pods = mine.into_iter().map(|object| JobPod::of(&Seen::<Pod>::from(object))).collect();
        let taken = job.as_ref().map(|job| pods::taken_names(view, &owner(job))).unwrap_or_default();
        Some((Desired { job }, Observed { pods, transfers, strays, taken }))
    }

    fn absent_roots(view: &View) -> Vec<Key> {
        wakes::of_absent(view, pods::COLLECTION, pod_roots)
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        let mut outcome = match &desired.job {
            Some(job) if job.is_finished => {
                let held = (0..observed.pods.len()).filter(|index| observed.pods[*index].is_tracked);
                Outcome { steps: held.map(Step::Release).collect(), ..Outcome::rest() }
            }
            Some(_) if !observed.transfers.is_empty() => {
                let transfers = observed.transfers.iter().take(BURST_MAX).cloned();
                Outcome { steps: transfers.map(Step::Transfer).collect(), ..Outcome::rest() }
            }
            Some(job) => decide::decide(job, &observed.pods, &observed.taken, now),
            None => Outcome::rest(),
        };
        outcome.steps.extend((0..observed.strays.len()).map(Step::ReleaseStray));
        outcome
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let created = outcome.steps.iter().filter(|step| matches!(step, Step::Create(_))).count();
        let active = observed.pods.iter().filter(|pod| pod.is_active()).count();
        let Some(job) = &desired.job else { return Ok(()) };
        let limit = usize::try_from(job.spec.parallelism).unwrap_or(0);
        if created > 0 && active + created > limit {
            return Err(format!("{active} pods run and {created} are made, but {limit} may run"));
        }
        let ends = |step: &Step| matches!(step, Step::Tell(new, _) if is_finished(new));
        match outcome.steps.iter().any(ends) && observed.pods.iter().any(|pod| pod.is_active() || pod.is_tracked) {
            true => Err("a job ends while pods run or are not counted".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        match (step, &desired.job) {
            (Step::Transfer(transfer), _) => transfer.perform(pods::PODS),
            (Step::Tell(object, _), _) => Action::Update { resource: JOBS, subresource: "status", object },
            (Step::Create(pod), Some(job)) => Action::Create {
                resource: pods::PODS,
                namespace: job.target.namespace.clone(),
                object: new_pod(job, &pod),
            },
            (Step::Release(index), _) => match observed.pods.get(index) {
                Some(pod) => pod.target.set_finalizers(pods::PODS, &pod.finalizers_left),
                None => nothing(),
            },
            (Step::ReleaseStray(index), _) => match observed.strays.get(index) {
                Some((target, left)) => target.set_finalizers(pods::PODS, left),
                None => nothing(),
            },
            (Step::Delete(index, _), _) => match observed.pods.get(index) {
                Some(pod) => pod.target.delete(pods::PODS, None),
                None => nothing(),
            },
            (Step::Create(_), None) => nothing(),
        }
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        match step {
            Step::Tell(_, why) => why.clone().map(Self::explain),
            Step::Create(pod) => Some(Note::normal("SuccessfulCreate", format!("Created pod: {}", pod.name))),
            Step::Delete(_, name) => Some(Note::normal("SuccessfulDelete", format!("Deleted pod: {name}"))),
            Step::Transfer(_) | Step::Release(_) | Step::ReleaseStray(_) => None,
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::Suspended => Note::normal("Suspended", "Job suspended"),
            Why::Resumed => Note::normal("Resumed", "Job resumed"),
            Why::Completed => Note::normal("Completed", "Job completed"),
            Why::Failed(reason, message) => Note::warning(decide::known_reason(&reason), message),
            Why::BackingOff => Note::quiet("BackingOff", "failed pods are tried again later"),
        }
    }
}

/// Steps name pods of the very facts they were decided on; this stands where none is named, and is refused.
fn nothing() -> Action {
    Target::default().delete(pods::PODS, None)
}

/// In a namespace that is being deleted nothing can be made any more: Jobs there only let go of what they hold, as if
/// they were being deleted themselves, which comes only after their pods are gone.
fn is_going(view: &View, namespace: &str) -> bool {
    view.get(NAMESPACES, "", namespace).is_some_and(|namespace| namespace.meta().is_deleting())
}

fn job(object: &Object, is_namespace_going: bool) -> Job {
    let tree = object.tree();
    Job {
        target: Target::of(object),
        spec: JobSpec::of(&tree),
        status: JobStatus::of(&tree),
        is_deleting: is_namespace_going || object.meta().is_deleting(),
        is_finished: is_finished(&tree),
        object: tree,
    }
}

/// Whether the Job has its final condition.
pub(crate) fn is_finished(job: &Value) -> bool {
    condition::is_true(job, "Complete") || condition::is_true(job, "Failed")
}

fn is_foreign(job: &Value) -> bool {
    !matches!(job.text(&["spec", "managedBy"]), "" | SELF)
}

/// Held pods whose controller is a Job of this name with another uid; and the held pod of this very name that nobody
/// controls any more (its Job let it go as an orphan before the Job's controller came to it).
fn strays(view: &View, namespace: &str, name: &str, uid: &str) -> Vec<(Target, Vec<String>)> {
    let prefix = format!("{namespace}/{}", child_base(name));
    let pods = view.snapshot().range(pods::COLLECTION, &prefix, "");
    let pods = pods.map(|(item, entry)| Object::new(Key::new(pods::COLLECTION, item.clone()), entry.clone()));
    let is_stray = |pod: &Object| {
        let is_let_go = match pod.meta().controller() {
            Some(owner) => &*owner.kind == "Job" && &*owner.name == name && &*owner.uid != uid,
            None => &*pod.meta().name == name,
        };
        is_let_go && has_finalizer(pod, TRACKING)
    };
    let stray = |pod: Object| (Target::of(&pod), crate::target::finalizers_without(&pod, TRACKING));
    pods.filter(is_stray).map(stray).collect()
}

fn owner(job: &Job) -> Owner {
    Owner {
        api_version: "batch/v1",
        kind: "Job",
        target: job.target.clone(),
        deleting: job.is_deleting,
        holds: Some(TRACKING),
    }
}

/// The job's pods. One that has ended or is going takes and gives none: it only lets go of what it still holds, whatever the
/// labels say by now.
fn claimed(view: &View, job: &Job) -> Claimed {
    if job.is_finished || job.is_deleting {
        let is_own = |object: &Object| {
            &*object.key.collection == pods::COLLECTION && object.meta().is_controlled_by(&job.target.uid)
        };
        let mine = view.each_dependent(&job.target.uid).filter(is_own).collect();
        return Claimed { mine, transfers: Vec::new() };
    }
    let selector = job.object.get("spec").map_or_else(Selector::nothing, spec_selector);
    claim(view, pods::COLLECTION, &owner(job), &selector, |_| true)
}

fn new_pod(job: &Job, new: &NewPod) -> Value {
    let owner = owner(job);
    let template = job.object.at(&["spec", "template"]).cloned().unwrap_or_default();
    let mut pod = pods::from_template(&template, &new.name, &owner);
    let mut finalizers = pod.items(&["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|f| f == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    pod.put(&["metadata", "finalizers"], finalizers);
    if let Some(index) = new.index {
        become_indexed(&mut pod, &job.target.name, index);
    }
    if let Some((failures, ignored)) = new.failures {
        pod.put(&["metadata", "annotations", FAILURES], failures.to_string());
        if ignored > 0 {
            pod.put(&["metadata", "annotations", IGNORED_FAILURES], ignored.to_string());
        }
    }
    pod
}

fn become_indexed(pod: &mut Value, job: &str, index: i64) {
    pod.put(&["metadata", "annotations", COMPLETION_INDEX], index.to_string());
    pod.put(&["metadata", "labels", COMPLETION_INDEX], index.to_string());
    pod.put(&["spec", "hostname"], format!("{job}-{index}"));
    for field in ["containers", "initContainers"] {
        let Some(containers) = pod.get_mut("spec").and_then(|spec| spec.get_mut(field)).and_then(Value::as_array_mut)
        else {
            continue;
        };
        for container in containers {
            let mut env = container.items(&["env"]).to_vec();
            if !env.iter().any(|variable| variable.text(&["name"]) == "JOB_COMPLETION_INDEX") {
                let path = format!("metadata.labels['{COMPLETION_INDEX}']");
                let source = json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}});
                env.push(json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": source}));
                container.put(&["env"], env);
            }
        }
    }
}

/// The Jobs of a namespace whose deletion has begun.
fn namespace_roots(view: &View, event: &Event) -> Vec<Key> {
    let namespace = Object::new(event.key.clone(), event.entry.clone());
    let jobs = view.list(COLLECTION, &event.key.item).into_iter().filter(|_| namespace.meta().is_deleting());
    jobs.map(|job| job.key).collect()
}

/// The Jobs that a pod concerns, and the key of the pod's own name when nobody controls it but it is held.
fn pod_roots(view: &View, event: &Event) -> Vec<Key> {
    let mut keys = wakes::of_child(view, event, "Job", COLLECTION, spec_selector);
    let pod = Object::new(event.key.clone(), event.entry.clone());
    let meta = pod.meta();
    if meta.controller().is_none() && has_finalizer(&pod, TRACKING) {
        keys.push(Key::new(COLLECTION, format!("{}/{}", meta.namespace, meta.name)));
    }
    keys
}

#[cfg(test)]
mod tests;
