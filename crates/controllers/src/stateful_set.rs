//! Gives a StatefulSet's pods names that stay, storage that stays with the name, and an order.
//!
//! Owns: the pods it controls whose name is its own and an ordinal; their claims' creation and, as far as they name
//! the set or its pods, the claims' owner references; its ControllerRevisions; and the StatefulSet's status.
//! Never touches: claims' contents and existence (what the retention policy gives up goes with its owner), pods'
//! specs, other pods.
//! At rest: the pods from the start ordinal on are there, each of the revision its ordinal is to have, with their
//! claims; or it waits for the pod that the notes name, because order asks for that.
//! Two pods with the same name never run: a pod is made only when the one before it has left the store.

mod act;
mod claims;
mod facts;
mod order;
mod status;
#[cfg(test)]
mod tests;

use brain::{Action, Brain, Def, Note, Outcome, Refusal, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::{Event, Key};

pub use self::facts::{Desired, Observed};
use crate::claim::{Transfer, spec_selector};
use crate::pods::{self, BURST_MAX, PODS};
use crate::revisions;
use crate::target::Target;
use crate::wakes;

/// Where StatefulSets are served.
pub(crate) const STATEFUL_SETS: Resource = Resource::new("apps", "v1", "statefulsets");
/// Where StatefulSets are stored.
pub(crate) const COLLECTION: &str = "apps/statefulsets";
const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
const CLAIMS_COLLECTION: &str = "core/persistentvolumeclaims";

/// The controller.
pub struct StatefulSetController;

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes a pod's owner.
    TransferPod(Transfer),
    /// Does something about a revision.
    Revision(revisions::Step),
    /// Writes the status (a merge patch).
    Status(Value),
    /// Creates a claim of a pod.
    CreateClaim {
        /// The claim.
        object: Value,
        /// The pod's name.
        pod: String,
    },
    /// Changes who a claim goes with.
    OwnClaim(Transfer),
    /// Creates a pod.
    CreatePod(Value),
    /// Gives a pod back the labels that its identity needs.
    LabelPod(Target, Value),
    /// Deletes a pod.
    DeletePod(Target),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The selector matches everything or misses the template.
    BadSelector,
    /// The next pod has to wait for this one.
    WaitingFor(String),
    /// A pod's name belongs to a pod of somebody else.
    NameTaken(String),
    /// A claim is being deleted, or goes with an earlier pod of the name.
    StaleClaim(String),
    /// Something could not be created or deleted: reason and message.
    Refused(&'static str, String),
    /// The name of the new revision belongs to something else.
    RevisionNameTaken(String),
}

impl Brain for StatefulSetController {
    const DEF: Def = Def {
        name: "statefulset",
        root: STATEFUL_SETS,
        root_kind: "StatefulSet",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: pods::COLLECTION, roots: of_pod },
            Watch {
                collection: revisions::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "StatefulSet", COLLECTION, spec_selector),
            },
            Watch { collection: CLAIMS_COLLECTION, roots: of_claim },
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
        let pods = observed.transfers.iter().cloned().map(Step::TransferPod);
        let revisions = observed.history.transfers.iter().cloned().map(revisions::Step::Transfer).map(Step::Revision);
        let transfers: Vec<Step> = revisions.chain(pods).take(BURST_MAX).collect();
        if transfers.is_empty() {
            act::decide(desired, observed, now)
        } else {
            Outcome { steps: transfers, ..Outcome::rest() }
        }
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        let namespace = desired.owner.target.namespace.clone();
        match step {
            Step::TransferPod(transfer) => transfer.perform(PODS),
            Step::Revision(step) => step.perform(namespace),
            Step::Status(patch) => desired.owner.target.merge_guarded(STATEFUL_SETS, "status", patch),
            Step::CreateClaim { object, .. } => Action::Create { resource: CLAIMS, namespace, object },
            Step::OwnClaim(transfer) => transfer.perform(CLAIMS),
            Step::CreatePod(object) => Action::Create { resource: PODS, namespace, object },
            Step::LabelPod(target, patch) => target.merge_guarded(PODS, "", patch),
            Step::DeletePod(target) => target.delete(PODS, None),
        }
    }

    fn announce(step: &Step, desired: &Desired) -> Option<Note> {
        let set = &desired.owner.target.name;
        let (reason, message) = match step {
            Step::CreatePod(pod) => {
                ("SuccessfulCreate", format!("create Pod {} in StatefulSet {set} successful", pod.name()))
            }
            Step::DeletePod(pod) => {
                ("SuccessfulDelete", format!("delete Pod {} in StatefulSet {set} successful", pod.name))
            }
            Step::CreateClaim { object, pod } => {
                ("SuccessfulCreate", format!("create Claim {} Pod {pod} in StatefulSet {set} success", object.name()))
            }
            Step::LabelPod(pod, _) => {
                ("SuccessfulUpdate", format!("update Pod {} in StatefulSet {set} successful", pod.name))
            }
            _ => return None,
        };
        Some(Note::normal(reason, message))
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::BadSelector => Note::warning(
                "SelectorMismatch",
                "the selector is empty or does not match the labels of the pod template",
            ),
            Why::WaitingFor(pod) => Note::quiet("WaitingForPod", format!("waiting for pod {pod}")),
            Why::NameTaken(pod) => Note::quiet("NameTaken", format!("pod {pod} belongs to somebody else")),
            Why::StaleClaim(claim) => {
                Note::quiet("StaleClaim", format!("claim {claim} is being deleted or goes with an earlier pod"))
            }
            Why::Refused(reason, message) => Note::warning(reason, message),
            Why::RevisionNameTaken(name) => {
                Note::quiet("HashCollision", format!("the name {name} belongs to another revision; taking another one"))
            }
        }
    }
}

/// A pod concerns its controller, and the set whose name it has, whoever made it.
fn of_pod(view: &View, event: &Event) -> Vec<Key> {
    let mut keys = wakes::of_child(view, event, "StatefulSet", COLLECTION, spec_selector);
    if let Some((set, _)) = event.key.item.rsplit_once('-') {
        let named = Key::new(COLLECTION, set);
        if !keys.contains(&named) && view.get_key(&named).is_some() {
            keys.push(named);
        }
    }
    keys
}

/// A claim `data-db-0` may be one of the set `db`, or of `data-db`... : every set whose name is in it.
fn of_claim(view: &View, event: &Event) -> Vec<Key> {
    let Some((namespace, name)) = event.key.item.split_once('/') else { return Vec::new() };
    let Some((stem, ordinal)) = name.rsplit_once('-') else { return Vec::new() };
    if ordinal.parse::<u32>().is_err() {
        return Vec::new();
    }
    let names = stem.match_indices('-').filter_map(|(dash, _)| stem.get(dash + 1..));
    names.map(|set| brain::key(COLLECTION, namespace, set)).filter(|key| view.get_key(key).is_some()).collect()
}

/// Names once only; in order, one pod at a time; and nothing of others.
fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
    let (mut created, mut deleted) = (0, 0);
    for step in &outcome.steps {
        match step {
            Step::CreatePod(pod) => {
                created += 1;
                if observed.pods.iter().any(|own| own.name() == pod.name()) || observed.foreign.contains(pod.name()) {
                    return Err(format!("pod {} exists", pod.name()));
                }
            }
            Step::DeletePod(pod) => {
                deleted += 1;
                if !observed.pods.iter().any(|own| own.uid() == pod.uid && !own.is_deleting()) {
                    return Err(format!("pod {} is not to be deleted", pod.name));
                }
            }
            _ => {}
        }
    }
    if desired.owner.deleting && created + deleted > 0 {
        return Err("a set being deleted makes and deletes no pods".to_owned());
    }
    let most = desired.max_unavailable();
    if desired.monotonic && (created > 1 || deleted > most) {
        return Err(format!("{created} pods made and {deleted} deleted at once, though order matters"));
    }
    Ok(())
}
