//! A PersistentVolumeClaim is bound to a PersistentVolume that fits it.
//!
//! Owns: `spec.claimRef` of the volume it binds (with the annotation that says so), `spec.volumeName` of the claim, the
//! binding annotations of both, the annotation that asks an external provisioner for a volume, and the claim's
//! phase, capacity and access modes. A binding is written to the volume first, then to the claim: a volume with a
//! claim's uid is that claim's, wherever the controller dies. Claims of classes that wait for their first consumer are
//! bound when the scheduler has chosen a volume or node. At rest: the claim is bound, lost, or nothing fits it yet.

use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::labels::Selector;
use meta::{ObjectExt, Quantity, Time};
use serde_json::{Value, json};
use store::{Event, Key};

use crate::target::Target;

pub(crate) const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
pub(crate) const CLAIM_COLLECTION: &str = "core/persistentvolumeclaims";
pub(crate) const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
pub(crate) const VOLUME_COLLECTION: &str = "core/persistentvolumes";
const CLASSES: &str = "storage.k8s.io/storageclasses";
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The controller.
pub struct VolumeClaimController;

/// The claim as seen, and what its class says.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    target: Target,
    object: Value,
    /// Empty: no such class, or none wanted.
    provisioner: String,
    waits_for_consumer: bool,
}

/// The volume in question.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    volume: Option<(Target, Value)>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Gives the volume to the claim.
    TakeVolume,
    /// Names the volume in the claim.
    BindClaim(Value),
    /// Asks an external provisioner.
    AskProvisioner,
    /// Writes the claim's status.
    Tell(Value),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The class waits.
    WaitForFirstConsumer,
    /// Somebody else makes the volume.
    ExternalProvisioning(String),
    /// Nothing fits, and nobody makes one.
    FailedBinding(String),
    /// The volume is gone.
    Lost(&'static str),
    /// The volume is another claim's.
    Misbound,
}

impl Brain for VolumeClaimController {
    const DEF: Def = Def {
        name: "persistent-volume-binder",
        root: CLAIMS,
        root_kind: "PersistentVolumeClaim",
        watches: &[
            Watch { collection: CLAIM_COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: VOLUME_COLLECTION, roots: unbound_roots },
            Watch { collection: CLASSES, roots: unbound_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let claim = view.get_key(key).filter(|claim| !claim.meta().is_deleting())?;
        let object = claim.tree();
        let class = view.get(CLASSES, "", object.text(&["spec", "storageClassName"])).map(|class| class.tree());
        let class = class.unwrap_or_default();
        let has_node = object.annotation(SELECTED_NODE).is_some();
        let waits_for_consumer = class.text(&["volumeBindingMode"]) == "WaitForFirstConsumer" && !has_node;
        let volume = match object.text(&["spec", "volumeName"]) {
            "" => best_volume(view, &object, waits_for_consumer),
            name => view.get(VOLUME_COLLECTION, "", name),
        };
        let desired = Desired {
            target: Target::of(&claim),
            provisioner: class.text(&["provisioner"]).to_owned(),
            waits_for_consumer,
            object,
        };
        Some((desired, Observed { volume: volume.map(|volume| (Target::of(&volume), volume.tree())) }))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        let claim = &desired.object;
        let is_completed = claim.annotation(BIND_COMPLETED).is_some();
        let names_volume = !claim.text(&["spec", "volumeName"]).is_empty();
        match &observed.volume {
            None if is_completed && !names_volume => lost(
                claim,
                Why::Lost("Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"),
            ),
            None if is_completed => {
                lost(claim, Why::Lost("Bound claim has lost its PersistentVolume. Data on the volume is lost!"))
            }
            None if names_volume => pending(claim, None),
            None => unbound(desired),
            Some((_, volume)) if is_of_other(volume, claim) && is_completed => lost(claim, Why::Misbound),
            Some((target, volume)) if is_of_other(volume, claim) => {
                let why = Why::FailedBinding(format!("volume {:?} already bound to a different claim.", target.name));
                pending(claim, Some(why))
            }
            Some((_, volume)) => bind(claim, volume, is_completed || !names_volume),
        }
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let takes = outcome.steps.contains(&Step::TakeVolume);
        match takes && observed.volume.as_ref().is_none_or(|(_, volume)| is_of_other(volume, &desired.object)) {
            true => Err("a volume is taken from another claim".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        match step {
            Step::TakeVolume => {
                let (target, volume) = observed.volume.clone().unwrap_or_default();
                let claim = &desired.target;
                let mut patch = json!({"spec": {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1",
                    "namespace": claim.namespace, "name": claim.name, "uid": claim.uid,
                    "resourceVersion": claim.revision.to_string()}}});
                // A user who named the claim in the volume keeps that when the binding ends.
                if volume.at(&["spec", "claimRef"]).is_none() {
                    patch.put(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
                }
                target.merge_guarded(VOLUMES, "", patch)
            }
            Step::BindClaim(patch) => desired.target.merge_guarded(CLAIMS, "", patch),
            Step::AskProvisioner => {
                let mut patch = json!({});
                for annotation in [PROVISIONER, BETA_PROVISIONER] {
                    patch.put(&["metadata", "annotations", annotation], desired.provisioner.as_str());
                }
                desired.target.merge_guarded(CLAIMS, "", patch)
            }
            Step::Tell(status) => crate::target::write_status(CLAIMS, desired.object.clone(), status),
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::WaitForFirstConsumer => {
                Note::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
            }
            Why::ExternalProvisioning(provisioner) => Note::normal(
                "ExternalProvisioning",
                format!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
                     the system administrator. If volume creation is delayed, please verify that the provisioner is running \
                     and correctly registered."
                ),
            ),
            Why::FailedBinding(message) => Note::normal("FailedBinding", message),
            Why::Lost(message) => Note::warning("ClaimLost", message),
            Why::Misbound => {
                Note::warning("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
            }
        }
    }
}

fn lost(claim: &Value, why: Why) -> Outcome<Step, Why> {
    match claim.text(&["status", "phase"]) {
        "Lost" => Outcome::rest(),
        _ => Outcome::rest().step(Step::Tell(phase(claim, "Lost"))).note(why),
    }
}

fn pending(claim: &Value, why: Option<Why>) -> Outcome<Step, Why> {
    let mut outcome = Outcome::rest();
    if claim.text(&["status", "phase"]) != "Pending" {
        outcome = outcome.step(Step::Tell(phase(claim, "Pending")));
    }
    outcome.notes.extend(why);
    outcome
}

fn phase(claim: &Value, phase: &str) -> Value {
    let mut status = claim.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
    status.put(&["phase"], phase);
    status
}

fn unbound(desired: &Desired) -> Outcome<Step, Why> {
    let claim = &desired.object;
    let provisions = !desired.provisioner.is_empty() && desired.provisioner != NO_PROVISIONER;
    if desired.waits_for_consumer {
        return pending(claim, Some(Why::WaitForFirstConsumer));
    }
    if provisions && claim.annotation(PROVISIONER) != Some(&desired.provisioner) {
        return Outcome::rest().step(Step::AskProvisioner);
    }
    let why = match provisions {
        true => Why::ExternalProvisioning(desired.provisioner.clone()),
        false if claim.text(&["spec", "storageClassName"]).is_empty() => {
            Why::FailedBinding("no persistent volumes available for this claim and no storage class is set".to_owned())
        }
        false => Why::FailedBinding("no persistent volumes available for this claim".to_owned()),
    };
    pending(claim, Some(why))
}

/// One write a turn: each is bound to the revisions that the one before it has changed.
fn bind(claim: &Value, volume: &Value, by_controller: bool) -> Outcome<Step, Why> {
    if volume.text(&["spec", "claimRef", "uid"]) != claim.uid() {
        return Outcome::rest().step(Step::TakeVolume);
    }
    let is_named = claim.text(&["spec", "volumeName"]) == volume.name();
    if !is_named || claim.annotation(BIND_COMPLETED).is_none() {
        let mut patch = json!({"spec": {"volumeName": volume.name()}});
        patch.put(&["metadata", "annotations", BIND_COMPLETED], "yes");
        if by_controller {
            patch.put(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
        }
        return Outcome::rest().step(Step::BindClaim(patch));
    }
    let mut status = phase(claim, "Bound");
    status.put(&["accessModes"], volume.items(&["spec", "accessModes"]).to_vec());
    // A claim that is being expanded keeps the capacity that its node has written.
    if claim.at(&["status", "capacity", "storage"]).is_none() {
        status.put(&["capacity"], volume.at(&["spec", "capacity"]).cloned().unwrap_or_default());
    }
    match claim.at(&["status"]) == Some(&status) {
        true => Outcome::rest(),
        false => Outcome::rest().step(Step::Tell(status)),
    }
}

fn is_of_other(volume: &Value, claim: &Value) -> bool {
    let Some(reference) = volume.at(&["spec", "claimRef"]).filter(|reference| !reference.is_null()) else {
        return false;
    };
    let uid = reference.text(&["uid"]);
    let is_named = reference.text(&["name"]) == claim.name() && reference.text(&["namespace"]) == claim.namespace();
    !is_named || (!uid.is_empty() && uid != claim.uid())
}

/// A volume that names the claim, else the smallest that fits.
fn best_volume(view: &View, claim: &Value, waits: bool) -> Option<Object> {
    let selector =
        claim.at(&["spec", "selector"]).map(|s| Selector::from_label_selector(Some(s)).unwrap_or(Selector::nothing()));
    let mut best: Option<(Quantity, Object)> = None;
    for object in view.list(VOLUME_COLLECTION, "").into_iter().filter(|volume| !volume.meta().is_deleting()) {
        let volume = object.tree();
        if is_of_other(&volume, claim) {
            continue;
        }
        if volume.at(&["spec", "claimRef"]).is_some() {
            return Some(object);
        }
        let is_selected = selector.as_ref().is_none_or(|selector| selector.matches(&object.meta().labels));
        let Some(size) = fitting_size(&volume, claim).filter(|_| is_selected && !waits) else { continue };
        if best.as_ref().is_none_or(|(smallest, _)| size.minus(smallest).is_negative()) {
            best = Some((size, object));
        }
    }
    best.map(|(_, object)| object)
}

/// The volume's size, if the volume serves the claim.
fn fitting_size(volume: &Value, claim: &Value) -> Option<Quantity> {
    let mode = |object: &Value| match object.text(&["spec", "volumeMode"]) {
        "Block" => "Block",
        _ => "Filesystem",
    };
    let same = |field: &str| volume.text(&["spec", field]) == claim.text(&["spec", field]);
    let offered = volume.items(&["spec", "accessModes"]);
    let has_modes = claim.items(&["spec", "accessModes"]).iter().all(|mode| offered.contains(mode));
    let is_free = matches!(volume.text(&["status", "phase"]), "Available");
    let size = Quantity::from_value(volume.at(&["spec", "capacity", "storage"])?).ok()?;
    let asked = claim.at(&["spec", "resources", "requests", "storage"]);
    let asked = asked.and_then(|asked| Quantity::from_value(asked).ok()).unwrap_or(Quantity::ZERO);
    let is_large = !size.minus(&asked).is_negative();
    let fits = is_free && has_modes && is_large && mode(volume) == mode(claim);
    (fits && same("storageClassName") && same("volumeAttributesClassName")).then_some(size)
}

/// A volume concerns the claim it names or named and every claim that has none; a class those of it.
fn unbound_roots(view: &View, event: &Event) -> Vec<Key> {
    let entries = event.previous.iter().chain([&event.entry]);
    let named = entries.filter_map(|entry| {
        let tree = Object::new(event.key.clone(), entry.clone()).tree();
        let reference = tree.at(&["spec", "claimRef"])?;
        Some(Key::new(CLAIM_COLLECTION, format!("{}/{}", reference.text(&["namespace"]), reference.text(&["name"]))))
    });
    let is_waiting = |claim: &Object| {
        let tree = claim.tree();
        let name = tree.text(&["spec", "volumeName"]);
        *name == *event.key.item || (name.is_empty() && tree.text(&["status", "phase"]) != "Bound")
    };
    let waiting = view.list(CLAIM_COLLECTION, "").into_iter().filter(is_waiting).map(|claim| claim.key);
    named.chain(waiting).collect()
}

#[cfg(test)]
mod tests;
