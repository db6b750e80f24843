//! Replaces the pods of a Deployment little by little when its template changes, and keeps their number.
//!
//! Owns: the ReplicaSets it controls and selects (one for each template it had, named by the template's hash): their
//! creation, `spec.replicas`, `spec.minReadySeconds`, annotations, deletion beyond the history limit, owner reference;
//! and the Deployment's status and its annotation `deployment.kubernetes.io/revision`.
//! Never touches: pods (their ReplicaSet does), ReplicaSets' templates, the Deployment's spec.
//! At rest: one ReplicaSet has the current template and all replicas, the others have none, the history is as long
//! as its limit at most, and the status says so; or it is paused, or waits for pods, and the status says that.
//! Undo is no step of its own: a template that an old ReplicaSet has makes that one the new one again.

mod facts;
mod history;
mod progress;
mod recreate;
mod rolling;
mod rollout;
mod scale;
#[cfg(test)]
mod tests;

use brain::{Action, Brain, Def, Note, Outcome, Refusal, Resource, View, Watch};
use meta::Time;
use serde_json::Value;
use store::{Event, Key};

pub use self::facts::{Desired, Observed};
use self::rollout::Rollout;
use crate::claim::{Transfer, spec_selector};
use crate::pods::{self, BURST_MAX};
use crate::replica_set::{self, REPLICA_SETS};
use crate::target::Target;
use crate::wakes;

/// Where Deployments are served.
pub(crate) const DEPLOYMENTS: Resource = Resource::new("apps", "v1", "deployments");
/// Where Deployments are stored.
pub(crate) const COLLECTION: &str = "apps/deployments";

/// The controller.
pub struct DeploymentController;

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes a ReplicaSet's owner.
    Transfer(Transfer),
    /// Creates the ReplicaSet of the current template.
    CreateSet {
        /// The object.
        object: Value,
        /// Its replicas.
        replicas: i64,
    },
    /// Changes a ReplicaSet, if it is still as it was seen.
    PatchSet {
        /// Which one.
        target: Target,
        /// The change.
        patch: Value,
        /// From how many replicas to how many, if that changes.
        scaled: Option<(i64, i64)>,
    },
    /// Deletes a ReplicaSet of the history, if it is still as it was seen.
    DeleteSet(Target),
    /// Writes status and revision (a merge patch).
    Status(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The selector matches everything.
    SelectsAll,
    /// The selector does not match the template.
    SelectorMismatch,
    /// The new ReplicaSet could not be created.
    CreateRefused(String),
    /// The name of the new ReplicaSet belongs to another template.
    NameTaken(String),
    /// Pods of the old template must go first.
    OldPodsRunning,
    /// Nothing is done while it is paused.
    Paused,
}

impl Brain for DeploymentController {
    const DEF: Def = Def {
        name: "deployment",
        root: DEPLOYMENTS,
        root_kind: "Deployment",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch {
                collection: replica_set::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "Deployment", COLLECTION, spec_selector),
            },
            Watch { collection: pods::COLLECTION, roots: of_gone_pod },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        facts::observe(view, key)
    }

    fn refused(observed: &mut Observed, refusal: &Refusal) {
        observed.refusal = Some(refusal.clone());
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        if !observed.transfers.is_empty() {
            let steps = observed.transfers.iter().take(BURST_MAX).cloned().map(Step::Transfer).collect();
            return Outcome { steps, ..Outcome::rest() };
        }
        decide(Rollout::new(desired, observed, now))
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        match step {
            Step::Transfer(transfer) => transfer.perform(REPLICA_SETS),
            Step::CreateSet { object, .. } => {
                Action::Create { resource: REPLICA_SETS, namespace: desired.owner.target.namespace.clone(), object }
            }
            Step::PatchSet { target, patch, .. } => target.merge_guarded(REPLICA_SETS, "", patch),
            Step::DeleteSet(target) => target.delete_guarded(REPLICA_SETS, None),
            Step::Status(patch) => desired.owner.target.merge_guarded(DEPLOYMENTS, "status", patch),
        }
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        let (name, from, to) = match step {
            Step::CreateSet { object, replicas } if *replicas > 0 => (meta::ObjectExt::name(object), 0, *replicas),
            Step::PatchSet { target, scaled: Some((from, to)), .. } => (&*target.name, *from, *to),
            _ => return None,
        };
        let way = if from < to { "up" } else { "down" };
        Some(Note::normal("ScalingReplicaSet", format!("Scaled {way} replica set {name} from {from} to {to}")))
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::SelectsAll => Note::warning(
                "SelectingAll",
                "This deployment is selecting all pods. A non-empty selector is required.",
            ),
            Why::SelectorMismatch => {
                Note::warning("SelectorMismatch", "the selector does not match the labels of the pod template")
            }
            Why::CreateRefused(message) => Note::warning(progress::FAILED_CREATE, message),
            Why::NameTaken(name) => {
                Note::quiet("HashCollision", format!("the name {name} belongs to another template; taking another one"))
            }
            Why::OldPodsRunning => Note::quiet("WaitingForOldPods", "pods of the old template are still there"),
            Why::Paused => Note::quiet("Paused", "the deployment is paused"),
        }
    }
}

/// The decision, in upstream's order.
fn decide(mut rollout: Rollout<'_>) -> Outcome<Step, Why> {
    let desired = rollout.desired;
    if desired.selector.is_everything() {
        return rollout.selects_all();
    }
    if desired.owner.deleting {
        return rollout.finish_plainly();
    }
    rollout.sync_paused_condition();
    if desired.paused {
        rollout.sync_new_set();
        rollout.scale();
        rollout.clean_history();
        return rollout.note(Why::Paused).finish_plainly();
    }
    if rollout.is_scaling_event() {
        rollout.sync_new_set();
        if rollout.scale() {
            return rollout.finish_plainly();
        }
    }
    match desired.strategy {
        facts::Strategy::Recreate => rollout.recreate(),
        facts::Strategy::Rolling { .. } => rollout.roll(),
    }
}

/// A Deployment that recreates waits for the pods of its old ReplicaSets to go: their end concerns it.
fn of_gone_pod(view: &View, event: &Event) -> Vec<Key> {
    let pod = brain::Object::new(event.key.clone(), std::sync::Arc::clone(&event.entry));
    let over = event.change == store::Change::Deleted || brain::facts::Pod::of(&pod).is_finished();
    let set = pod.meta().controller().filter(|owner| over && &*owner.kind == "ReplicaSet");
    let set = set.and_then(|owner| view.get(replica_set::COLLECTION, &pod.meta().namespace, &owner.name));
    let name = set.as_ref().and_then(|set| set.meta().controller()).filter(|owner| &*owner.kind == "Deployment");
    name.map(|owner| brain::key(COLLECTION, &pod.meta().namespace, &owner.name)).into_iter().collect()
}

/// Sizes stay within the surge, and availability is given up only as far as it may.
fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
    let mut total = observed.sets.iter().map(|set| set.replicas).sum::<i64>();
    let before = total;
    for step in &outcome.steps {
        match step {
            Step::CreateSet { replicas, .. } => total += replicas,
            Step::PatchSet { scaled: Some((from, to)), .. } => {
                total += to - from;
                if *to < 0 {
                    return Err(format!("a ReplicaSet of {to} replicas"));
                }
            }
            Step::DeleteSet(target) => {
                let set = observed.sets.iter().find(|set| set.target == *target);
                if set.is_none_or(|set| set.replicas != 0 || set.status_replicas != 0) {
                    return Err(format!("{} is deleted though it has pods or is not owned", target.name));
                }
            }
            _ => {}
        }
    }
    let most = desired.replicas.saturating_add(desired.strategy.max_surge());
    if total > before && total > most {
        return Err(format!("{total} replicas, and {most} are the most"));
    }
    Ok(())
}
