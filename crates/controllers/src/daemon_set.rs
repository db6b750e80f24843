//! Runs one pod on every node that a DaemonSet is meant for.
//!
//! Owns: the pods it controls and selects (creation, deletion, their owner reference), each tied to its node by
//! affinity; its ControllerRevisions; and the DaemonSet's status.
//! Never touches: nodes, pods' specs, other pods. Binding is the scheduler's.
//! At rest: every node that the template may run on has exactly one pod of it, of the current template unless the
//! strategy waits for the user; no other node has one; and the status says so.
//! A pod is named by set, node, template and what is there already: made twice, it collides.

mod act;
mod facts;
mod nodes;
mod rolling;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use brain::facts::{Node, Pod, PodSpec};
use brain::{Action, Brain, Def, Note, Object, Outcome, Refusal, Resource, View, Watch};
use meta::Time;
use serde_json::Value;
use store::{Event, Key};

pub use self::facts::{Desired, Observed};
use crate::claim::{Transfer, spec_selector};
use crate::pods::{self, BURST_MAX, PODS};
use crate::revisions;
use crate::target::Target;
use crate::wakes;

/// Where DaemonSets are served.
pub(crate) const DAEMON_SETS: Resource = Resource::new("apps", "v1", "daemonsets");
/// Where DaemonSets are stored.
pub(crate) const COLLECTION: &str = "apps/daemonsets";
const NODES_COLLECTION: &str = "core/nodes";

/// The controller.
pub struct DaemonSetController;

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes a pod's owner.
    TransferPod(Transfer),
    /// Does something about a revision.
    Revision(revisions::Step),
    /// Writes the status (a merge patch).
    Status(Value),
    /// Creates a pod.
    Create {
        /// Its node.
        node: String,
        /// Its name.
        name: String,
        /// The hash of its template.
        hash: String,
    },
    /// Deletes a pod.
    Delete(Target),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The selector matches everything.
    SelectsAll,
    /// The selector does not match the template.
    SelectorMismatch,
    /// A pod failed and is replaced: pod, node.
    Failed(String, String),
    /// A pod ended and is replaced: pod, node.
    Succeeded(String, String),
    /// Something could not be done: reason and message.
    Refused(&'static str, String),
    /// The name of the new revision belongs to something else.
    RevisionNameTaken(String),
}

impl Brain for DaemonSetController {
    const DEF: Def = Def {
        name: "daemon-set",
        root: DAEMON_SETS,
        root_kind: "DaemonSet",
        watches: &[
            Watch { collection: COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch {
                collection: pods::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "DaemonSet", COLLECTION, spec_selector),
            },
            Watch {
                collection: revisions::COLLECTION,
                roots: |view, event| wakes::of_child(view, event, "DaemonSet", COLLECTION, spec_selector),
            },
            Watch { collection: NODES_COLLECTION, roots: of_node },
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
            Step::Status(patch) => desired.owner.target.merge_guarded(DAEMON_SETS, "status", patch),
            Step::Create { node, name, hash } => {
                Action::Create { resource: PODS, namespace, object: act::new_pod(desired, &node, &name, &hash) }
            }
            Step::Delete(pod) => pod.delete(PODS, None),
        }
    }

    fn announce(step: &Step, _: &Desired) -> Option<Note> {
        match step {
            Step::Create { name, .. } => Some(Note::normal("SuccessfulCreate", format!("Created pod: {name}"))),
            Step::Delete(pod) => Some(Note::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name))),
            _ => None,
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::SelectsAll => Note::warning(
                "SelectingAll",
                "This daemon set is selecting all pods. A non-empty selector is required.",
            ),
            Why::SelectorMismatch => {
                Note::warning("SelectorMismatch", "the selector does not match the labels of the pod template")
            }
            Why::Failed(pod, node) => Note::warning(
                "FailedDaemonPod",
                format!("Found failed daemon pod {pod} on node {node}, will try to kill it"),
            ),
            Why::Succeeded(pod, node) => Note::normal(
                "SucceededDaemonPod",
                format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it"),
            ),
            Why::Refused(reason, message) => Note::warning(reason, message),
            Why::RevisionNameTaken(name) => {
                Note::quiet("HashCollision", format!("the name {name} belongs to another revision; taking another one"))
            }
        }
    }
}

/// A node concerns the sets that decide otherwise about it than before, and those whose pods were waiting for a node
/// that is gone. Heartbeats concern nobody.
fn of_node(view: &View, event: &Event) -> Vec<Key> {
    let node = |entry: &Arc<store::Entry>| Object::new(event.key.clone(), Arc::clone(entry));
    let now = (event.change != store::Change::Deleted).then(|| node(&event.entry));
    let before = event.previous.as_ref().map(node);
    let verdict = |spec: &PodSpec, object: &Option<Object>| {
        object.as_ref().map(|object| nodes::verdict(spec, object.meta(), &Node::of(object)))
    };
    let concerned = |set: &Object| {
        let spec = set.project(facts::read_template_spec);
        verdict(&spec, &before) != verdict(&spec, &now)
    };
    view.list(COLLECTION, "").into_iter().filter(concerned).map(|set| set.key).collect()
}

/// One new pod on a node that is meant for it, and no pod of others deleted.
fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
    let mut created = BTreeSet::new();
    for step in &outcome.steps {
        match step {
            Step::Create { node, name, .. } => {
                let wanted = observed.nodes.iter().any(|seen| seen.name == *node && seen.verdict.runs);
                if !wanted || !created.insert(node.as_str()) || observed.taken.contains(name) {
                    return Err(format!("pod {name} on node {node} is not wanted, or made twice"));
                }
            }
            Step::Delete(pod) if !observed.pods.iter().any(|own| own.uid() == pod.uid && !own.is_deleting()) => {
                return Err(format!("pod {} is not to be deleted", pod.name));
            }
            _ => {}
        }
    }
    let idle = |step: &Step| !matches!(step, Step::Create { .. } | Step::Delete(_));
    if desired.owner.deleting && !outcome.steps.iter().all(idle) {
        return Err("a set being deleted makes and deletes no pods".to_owned());
    }
    Ok(())
}

/// The node that a daemon's pod runs on or is tied to.
fn node_of(pod: &Pod) -> Option<&str> {
    if pod.is_bound() { Some(&pod.spec.node_name) } else { pod.spec.node_named_by_affinity() }
}
