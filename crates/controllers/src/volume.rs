//! A PersistentVolume's phase says whether it is free, bound, or was left by its claim.
//!
//! Owns: `status.phase`, and `spec.claimRef` where this controller's own binding came to nothing because the claim took
//! another volume. At rest: the phase says what the claim says. A released volume is kept as its policy wants;
//! deleting the storage behind one is its provisioner's work.

use brain::{Action, Brain, Def, Note, Outcome, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::target::{Target, write_status};
use crate::volume_claim::{BOUND_BY_CONTROLLER, CLAIM_COLLECTION, VOLUME_COLLECTION, VOLUMES};

/// The controller.
pub struct VolumeController;

/// The volume as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    target: Target,
    object: Value,
}

/// The claim it names, if that is still the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    claim: Option<Value>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the phase.
    Tell(&'static str),
    /// Takes back a binding that came to nothing.
    Unbind,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The claim is gone.
    Released,
}

impl Brain for VolumeController {
    const DEF: Def = Def {
        name: "persistent-volume",
        root: VOLUMES,
        root_kind: "PersistentVolume",
        watches: &[
            Watch { collection: VOLUME_COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: CLAIM_COLLECTION, roots: claim_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let volume = view.get_key(key)?;
        let object = volume.tree();
        let at = |field: &str| object.text(&["spec", "claimRef", field]);
        let claim = view.get(CLAIM_COLLECTION, at("namespace"), at("name")).filter(|c| *c.meta().uid == *at("uid"));
        let claim = claim.map(|claim| claim.tree());
        Some((Desired { target: Target::of(&volume), object }, Observed { claim }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        let volume = &desired.object;
        let tell = |phase| match volume.text(&["status", "phase"]) == phase {
            true => Outcome::rest(),
            false => Outcome::rest().step(Step::Tell(phase)),
        };
        let Some(claim) = &observed.claim else {
            let is_taken = !volume.text(&["spec", "claimRef", "uid"]).is_empty();
            return if is_taken { tell("Released").note(Why::Released) } else { tell("Available") };
        };
        match claim.text(&["spec", "volumeName"]) {
            "" => Outcome::rest(),
            name if name == volume.name() => tell("Bound"),
            _ if volume.annotation(BOUND_BY_CONTROLLER).is_some() => Outcome::rest().step(Step::Unbind),
            _ => tell("Available"),
        }
    }

    fn check(_: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        match outcome.steps.contains(&Step::Tell("Bound")) && observed.claim.is_none() {
            true => Err("a volume is bound to nothing".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, _: &Observed) -> Action {
        match step {
            Step::Tell(phase) => {
                let mut status = desired.object.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
                status.put(&["phase"], phase);
                write_status(VOLUMES, desired.object.clone(), status)
            }
            Step::Unbind => {
                let mut patch = json!({"spec": {"claimRef": null}});
                patch.put(&["metadata", "annotations", BOUND_BY_CONTROLLER], Value::Null);
                desired.target.merge_guarded(VOLUMES, "", patch)
            }
        }
    }

    fn explain(Why::Released: Why) -> Note {
        Note::quiet("VolumeReleased", "the claim of this volume is gone")
    }
}

/// A claim concerns the volume it names and those that name it.
fn claim_roots(view: &View, event: &Event) -> Vec<Key> {
    let names_claim = |volume: &view::Object| {
        let tree = volume.tree();
        let at = |field: &str| tree.text(&["spec", "claimRef", field]);
        event.key.item.split_once('/') == Some((at("namespace"), at("name")))
    };
    view.list(VOLUME_COLLECTION, "").into_iter().filter(names_claim).map(|volume| volume.key).collect()
}
