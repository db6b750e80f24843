//! Keeps as many pods of one template as a ReplicaSet asks for.
//!
//! Owns: the pods it controls and selects (creation, deletion, their owner reference), and the ReplicaSet's status.
//! Never touches: pods of others, the ReplicaSet's spec, pods' specs and statuses.
//! At rest: active pods (neither ended nor being deleted) are as many as `spec.replicas`, every orphan that matches is
//! adopted, none is owned that does not match, and the status says so. Pods that have ended stay for the pod garbage
//! collector; others take their place.
//! A selector that does not match its own template creates nothing: every pod would be released at once, for ever.

use std::collections::BTreeSet;

use brain::facts::{Pod, Seen};
use brain::{Action, Brain, Def, Note, Outcome, Refusal, Resource, Siblings, View, Watch};
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::{Map, Value};
use store::Key;

use crate::claim::{Owner, Transfer, claim, spec_selector};
use crate::condition_list::ConditionList;
use crate::pod_rank::{Doubled, rank};
use crate::pods::{self, BURST_MAX, PODS, Readiness, is_active, is_terminating};
use crate::status::{difference, unless_zero};
use crate::target::Target;
use crate::wakes;

/// Where ReplicaSets are served.
pub(crate) const REPLICA_SETS: Resource = Resource::new("apps", "v1", "replicasets");
/// Where ReplicaSets are stored.
pub(crate) const COLLECTION: &str = "apps/replicasets";
/// The condition that says why pods are missing or too many.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The controller.
pub struct ReplicaSetController;

/// What tells ReplicaSets and ReplicationControllers apart.
#[derive(Debug)]
pub(crate) struct Flavor {
    pub resource: Resource,
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Reads `spec.selector`.
    pub selector: fn(&Value) -> Selector,
    /// Whether the status counts pods being deleted.
    pub counts_terminating: bool,
}

static FLAVOR: Flavor = Flavor {
    resource: REPLICA_SETS,
    api_version: "apps/v1",
    kind: "ReplicaSet",
    selector: spec_selector,
    counts_terminating: true,
};

/// What should be.
#[derive(Clone, Debug)]
pub struct Desired {
    pub(crate) flavor: &'static Flavor,
    pub(crate) owner: Owner,
    pub(crate) generation: i64,
    pub(crate) replicas: usize,
    pub(crate) min_ready_seconds: i64,
    pub(crate) selector: Selector,
    pub(crate) template: Value,
}

/// What is.
#[derive(Clone)]
pub struct Observed {
    /// The pods it owns, ended ones too.
    pub(crate) pods: Vec<Seen<Pod>>,
    pub(crate) transfers: Vec<Transfer>,
    /// Names that a new pod must not have; known only when pods are missing.
    pub(crate) taken: BTreeSet<String>,
    /// How crowded nodes are; known only when there are too many pods.
    pub(crate) doubled: Doubled,
    pub(crate) status: Value,
    pub(crate) refusal: Option<Refusal>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes a pod's owner.
    Transfer(Transfer),
    /// Writes the status (a merge patch).
    Status(Value),
    /// Creates a pod of this name.
    Create(String),
    /// Deletes a pod.
    Delete(Target),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// A pod could not be created.
    CreateRefused(String),
    /// A pod could not be deleted.
    DeleteRefused(String),
    /// The selector does not match the template.
    SelectorMismatch,
    /// Pods that are ready must stay so for a while.
    Waiting(usize),
}

impl Brain for ReplicaSetController {
    const DEF: Def = Def {
        name: "replicaset",
        root: REPLICA_SETS,
        root_kind: "ReplicaSet",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch {
                collection: pods::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "ReplicaSet", COLLECTION, spec_selector),
            },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        observe(view, key, &FLAVOR)
    }

    fn refused(observed: &mut Observed, refusal: &Refusal) {
        observed.refusal = Some(refusal.clone());
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        reconcile(desired, observed, now)
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        perform(step, desired)
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        announce(step)
    }

    fn explain(why: Why) -> Note {
        explain(why)
    }
}

pub(crate) fn observe(view: &View, key: &Key, flavor: &'static Flavor) -> Option<(Desired, Observed)> {
    let object = view.get_key(key)?;
    let tree = object.tree();
    let spec = tree.get("spec")?;
    let owner = Owner {
        api_version: flavor.api_version,
        kind: flavor.kind,
        target: Target::of(&object),
        deleting: object.meta().is_deleting(),
        holds: None,
    };
    let desired = Desired {
        flavor,
        generation: tree.generation(),
        replicas: usize::try_from(spec.int(&["replicas"]).unwrap_or(1)).unwrap_or(0),
        min_ready_seconds: spec.int(&["minReadySeconds"]).unwrap_or(0),
        selector: (flavor.selector)(spec),
        template: spec.get("template").cloned().unwrap_or_default(),
        owner,
    };
    let claimed = claim(view, pods::COLLECTION, &desired.owner, &desired.selector, |_| true);
    let pods: Vec<Seen<Pod>> = claimed.mine.into_iter().map(Seen::from).collect();
    let active = pods.iter().filter(|pod| is_active(pod)).count();
    let observed = Observed {
        taken: if active < desired.replicas { pods::taken_names(view, &desired.owner) } else { BTreeSet::new() },
        doubled: if active > desired.replicas {
            doubled(view, object.meta().controller().map_or("", |owner| &owner.uid), &pods)
        } else {
            Doubled::new()
        },
        pods,
        transfers: claimed.transfers,
        status: tree.get("status").cloned().unwrap_or_default(),
        refusal: None,
    };
    Some((desired, observed))
}

/// How many active pods each node has, of this workload and of its siblings under the same controller.
fn doubled(view: &View, controller: &str, own: &[Seen<Pod>]) -> Doubled {
    let mut doubled = Doubled::new();
    let mut count = |pod: &Seen<Pod>| {
        if is_active(pod) && pod.facts.is_bound() {
            *doubled.entry(pod.facts.spec.node_name.clone()).or_default() += 1;
        }
    };
    if controller.is_empty() {
        own.iter().for_each(count);
        return doubled;
    }
    let siblings = view.dependents(controller).into_iter().filter(|sibling| &*sibling.key.collection == COLLECTION);
    for sibling in siblings {
        let children = view.dependents(&sibling.meta().uid);
        children.into_iter().filter(|c| &*c.key.collection == pods::COLLECTION).for_each(|c| count(&Seen::from(c)));
    }
    doubled
}

pub(crate) fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
    if !observed.transfers.is_empty() {
        let steps = observed.transfers.iter().take(BURST_MAX).cloned().map(Step::Transfer).collect();
        return Outcome { steps, ..Outcome::rest() };
    }
    let readiness = Readiness::of(observed.pods.iter().filter(|pod| is_active(pod)), desired.min_ready_seconds, now);
    let mut outcome = Outcome::rest();
    let failure = failure(desired, observed, &mut outcome);
    outcome.steps.extend(status(desired, observed, readiness, failure, now).map(Step::Status));
    if !desired.owner.deleting {
        outcome.steps.extend(manage(desired, observed, now));
    }
    pods::status_after_creations(
        &mut outcome.steps,
        observed.refusal.as_ref(),
        |step| matches!(step, Step::Create(_)),
        |step| matches!(step, Step::Status(_)),
    );
    if let Some(next) = readiness.next {
        let waiting = usize::try_from(readiness.ready - readiness.available).unwrap_or(0);
        outcome = outcome.note(Why::Waiting(waiting)).wake_at(next);
    }
    outcome
}

/// Creates what is missing or deletes what is too much.
fn manage(desired: &Desired, observed: &Observed, now: Time) -> Vec<Step> {
    let mut active: Vec<&Seen<Pod>> = observed.pods.iter().filter(|pod| is_active(pod)).collect();
    if active.len() < desired.replicas {
        if !matches_itself(desired) {
            return Vec::new();
        }
        let count = (desired.replicas - active.len()).min(BURST_MAX);
        let owner = &desired.owner.target;
        let identity = [&*owner.uid, &*owner.revision.to_string()];
        let siblings = Siblings::named(observed.pods.iter().map(Seen::name));
        let names = pods::new_names(&owner.name, &identity, siblings, &observed.taken, count);
        return names.into_iter().map(Step::Create).collect();
    }
    let surplus = (active.len() - desired.replicas).min(BURST_MAX);
    if surplus > 0 {
        rank(&mut active, &observed.doubled, now);
    }
    active.into_iter().take(surplus).map(|pod| Step::Delete(Target::of(&pod.object))).collect()
}

fn matches_itself(desired: &Desired) -> bool {
    let none = Map::new();
    let labels = desired.template.map(&["metadata", "labels"]).unwrap_or(&none);
    desired.selector.matches(labels) && !desired.selector.is_everything()
}

/// Why pods are missing or too many: `(reason, message)`.
fn failure(desired: &Desired, observed: &Observed, outcome: &mut Outcome<Step, Why>) -> Failure {
    let active = observed.pods.iter().filter(|pod| is_active(pod)).count();
    if desired.owner.deleting || active == desired.replicas {
        return Failure::None;
    }
    let missing = active < desired.replicas;
    if missing && !matches_itself(desired) {
        let known = ConditionList::of(&observed.status).reason(REPLICA_FAILURE) == "SelectorMismatch";
        if !known {
            outcome.notes.push(Why::SelectorMismatch);
        }
        return Failure::Because("SelectorMismatch", SELECTOR_MISMATCH.to_owned());
    }
    let (verb, reason) = if missing { ("create", "FailedCreate") } else { ("delete", "FailedDelete") };
    match &observed.refusal {
        Some(refusal) if refusal.is(verb, &PODS) => {
            let message = refusal.message.clone();
            outcome.notes.push(if missing {
                Why::CreateRefused(message.clone())
            } else {
                Why::DeleteRefused(message.clone())
            });
            Failure::Because(reason, message)
        }
        // Nothing is known of the last try (after a restart, say): what was said holds until the number is right.
        _ => Failure::Unknown,
    }
}

const SELECTOR_MISMATCH: &str = "the selector does not match the labels of the pod template";

enum Failure {
    None,
    Unknown,
    Because(&'static str, String),
}

fn status(desired: &Desired, observed: &Observed, readiness: Readiness, failure: Failure, now: Time) -> Option<Value> {
    let count =
        |is: &dyn Fn(&Seen<Pod>) -> bool| i64::try_from(observed.pods.iter().filter(|p| is(p)).count()).unwrap_or(0);
    let template: Vec<(&String, &Value)> =
        desired.template.map(&["metadata", "labels"]).into_iter().flatten().collect();
    let fully_labeled =
        |pod: &Seen<Pod>| is_active(pod) && template.iter().all(|(key, value)| pod.label(key) == value.as_str());
    let mut conditions = ConditionList::of(&observed.status);
    match failure {
        Failure::None => conditions.remove(REPLICA_FAILURE),
        Failure::Unknown => {}
        // The first failure is kept with its time until the number is right again.
        Failure::Because(..) if conditions.has(REPLICA_FAILURE) => {}
        Failure::Because(reason, message) => conditions.set(REPLICA_FAILURE, "True", reason, &message, now),
    }
    let mut wanted = vec![
        ("replicas", count(&is_active).into()),
        ("fullyLabeledReplicas", unless_zero(count(&fully_labeled))),
        ("readyReplicas", unless_zero(readiness.ready)),
        ("availableReplicas", unless_zero(readiness.available)),
        ("observedGeneration", unless_zero(desired.generation)),
        ("conditions", conditions.into_value()),
    ];
    if desired.flavor.counts_terminating {
        wanted.push(("terminatingReplicas", count(&is_terminating).into()));
    }
    difference(&observed.status, wanted)
}

pub(crate) fn perform(step: Step, desired: &Desired) -> Action {
    let target = &desired.owner.target;
    match step {
        Step::Transfer(transfer) => transfer.perform(PODS),
        Step::Status(patch) => target.merge_guarded(desired.flavor.resource.clone(), "status", patch),
        Step::Create(name) => Action::Create {
            resource: PODS,
            namespace: target.namespace.clone(),
            object: pods::from_template(&desired.template, &name, &desired.owner),
        },
        Step::Delete(pod) => pod.delete(PODS, None),
    }
}

pub(crate) fn announce(step: &Step) -> Option<Note> {
    match step {
        Step::Create(name) => Some(Note::normal("SuccessfulCreate", format!("Created pod: {name}"))),
        Step::Delete(pod) => Some(Note::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name))),
        Step::Transfer(_) | Step::Status(_) => None,
    }
}

pub(crate) fn explain(why: Why) -> Note {
    match why {
        Why::CreateRefused(message) => Note::warning("FailedCreate", format!("Error creating: {message}")),
        Why::DeleteRefused(message) => Note::warning("FailedDelete", format!("Error deleting: {message}")),
        Why::SelectorMismatch => Note::warning("SelectorMismatch", SELECTOR_MISMATCH),
        Why::Waiting(count) => {
            Note::quiet("WaitingForMinReadySeconds", format!("{count} ready pods are not available yet"))
        }
    }
}

pub(crate) fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
    let active = observed.pods.iter().filter(|pod| is_active(pod)).count();
    let mut created = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    for step in &outcome.steps {
        let fresh = match step {
            Step::Create(name) => created.insert(name.as_str()) && !observed.taken.contains(name),
            Step::Delete(pod) => {
                deleted.insert(pod.uid.as_str()) && observed.pods.iter().any(|own| own.uid() == pod.uid)
            }
            Step::Transfer(_) | Step::Status(_) => true,
        };
        if !fresh {
            return Err(format!("{step:?} is made twice or on what is not its own"));
        }
    }
    if !created.is_empty() && active + created.len() > desired.replicas {
        return Err(format!("{active} pods and {} new ones exceed {}", created.len(), desired.replicas));
    }
    if !deleted.is_empty() && active < desired.replicas + deleted.len() {
        return Err(format!("{active} pods less {} are fewer than {}", deleted.len(), desired.replicas));
    }
    if desired.owner.deleting && !(created.is_empty() && deleted.is_empty()) {
        return Err("a workload being deleted makes and deletes no pods".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
