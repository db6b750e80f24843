//! Claims in use by pods, volumes bound to claims and attributes classes of either are not removed before that ends.
//!
//! Owns: the finalizers `kubernetes.io/pvc-protection`, `kubernetes.io/pv-protection` and `kubernetes.io/vac-protection`.
//! At rest: every claim, volume and class that is not being deleted has its finalizer, and one that is has it only while
//! it is used. A claim is used by every pod that names it and has a node, ended or not; a volume while it is bound; a
//! class by every claim and volume that has it or shall get it.

use brain::facts::{Pod, Seen};
use brain::{Action, Brain, Def, Note, Object, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::{Event, Key};

use crate::pods;
use crate::target::{Target, finalizers_with, finalizers_without, has_finalizer};
use crate::volume_claim::{CLAIM_COLLECTION, CLAIMS, VOLUME_COLLECTION, VOLUMES};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const CLASS_FINALIZER: &str = "kubernetes.io/vac-protection";
const CLASSES: Resource = Resource::new("storage.k8s.io", "v1", "volumeattributesclasses");
const CLASS_COLLECTION: &str = "storage.k8s.io/volumeattributesclasses";
/// Where claims and volumes name their class.
const CLASS_NAMES: [&[&str]; 3] = [
    &["spec", "volumeAttributesClassName"],
    &["status", "currentVolumeAttributesClassName"],
    &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
];

/// The controller of claims.
pub struct ClaimProtectionController;
/// The controller of volumes.
pub struct VolumeProtectionController;

/// The controller of classes of volume attributes.
pub struct ClassProtectionController;

/// The object shall be held, or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    is_held: bool,
}

/// Whether it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    target: Target,
    is_held: bool,
    is_deleting: bool,
    finalizers: Vec<String>,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Writes the finalizers.
    Write,
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It is being deleted and used.
    InUse,
}

impl Brain for ClaimProtectionController {
    const DEF: Def = Def {
        name: "pvc-protection",
        root: CLAIMS,
        root_kind: "PersistentVolumeClaim",
        watches: &[
            Watch { collection: CLAIM_COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: pods::COLLECTION, roots: pod_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let claim = view.get_key(key)?;
        let is_used = claim.meta().is_deleting() && is_claim_used(view, &claim);
        Some(facts(&claim, CLAIM_FINALIZER, is_used))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        decide(desired, observed)
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(Step::Write: Step, _: &Desired, observed: &Observed) -> Action {
        observed.target.set_finalizers(CLAIMS, &observed.finalizers)
    }

    fn explain(Why::InUse: Why) -> Note {
        Note::quiet("InUse", "pods still use this claim")
    }
}

impl Brain for VolumeProtectionController {
    const DEF: Def = Def {
        name: "pv-protection",
        root: VOLUMES,
        root_kind: "PersistentVolume",
        watches: &[Watch { collection: VOLUME_COLLECTION, roots: |_, event| vec![event.key.clone()] }],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let volume = view.get_key(key)?;
        let is_bound = volume.tree().text(&["status", "phase"]) == "Bound";
        Some(facts(&volume, VOLUME_FINALIZER, is_bound))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        decide(desired, observed)
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(Step::Write: Step, _: &Desired, observed: &Observed) -> Action {
        observed.target.set_finalizers(VOLUMES, &observed.finalizers)
    }

    fn explain(Why::InUse: Why) -> Note {
        Note::quiet("InUse", "the volume is bound to a claim")
    }
}

impl Brain for ClassProtectionController {
    const DEF: Def = Def {
        name: "volumeattributesclass-protection",
        root: CLASSES,
        root_kind: "VolumeAttributesClass",
        watches: &[
            Watch { collection: CLASS_COLLECTION, roots: |_, event| vec![event.key.clone()] },
            Watch { collection: CLAIM_COLLECTION, roots: class_roots },
            Watch { collection: VOLUME_COLLECTION, roots: class_roots },
        ],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        let class = view.get_key(key)?;
        let is_used = class.meta().is_deleting() && is_class_used(view, &class.meta().name);
        Some(facts(&class, CLASS_FINALIZER, is_used))
    }

    fn reconcile(desired: &Desired, observed: &Observed, _: Time) -> Outcome<Step, Why> {
        decide(desired, observed)
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        check(desired, observed, outcome)
    }

    fn perform(Step::Write: Step, _: &Desired, observed: &Observed) -> Action {
        observed.target.set_finalizers(CLASSES, &observed.finalizers)
    }

    fn explain(Why::InUse: Why) -> Note {
        Note::quiet("InUse", "claims or volumes still use this class")
    }
}

fn is_class_used(view: &View, class: &str) -> bool {
    let users = [CLAIM_COLLECTION, VOLUME_COLLECTION].into_iter().flat_map(|collection| view.list(collection, ""));
    users.into_iter().any(|user| classes_of(&user.tree()).any(|name| name == class))
}

fn classes_of(user: &Value) -> impl Iterator<Item = &str> {
    CLASS_NAMES.iter().map(|path| user.text(path)).filter(|name| !name.is_empty())
}

/// The classes that a claim or volume named before the event and that are being deleted.
fn class_roots(view: &View, event: &Event) -> Vec<Key> {
    let states = event.previous.iter().chain([&event.entry]).map(|entry| Object::new(event.key.clone(), entry.clone()));
    let trees: Vec<_> = states.map(|state| state.tree()).collect();
    let keys = trees.iter().flat_map(classes_of).map(|name| Key::new(CLASS_COLLECTION, name));
    keys.filter(|key| view.get_key(key).is_some_and(|class| class.meta().is_deleting())).collect()
}

fn facts(object: &Object, finalizer: &'static str, is_used: bool) -> (Desired, Observed) {
    let is_deleting = object.meta().is_deleting();
    let is_held = !is_deleting || is_used;
    let finalizers = if is_held { finalizers_with(object, finalizer) } else { finalizers_without(object, finalizer) };
    let observed =
        Observed { target: Target::of(object), is_held: has_finalizer(object, finalizer), is_deleting, finalizers };
    (Desired { is_held }, observed)
}

fn decide(desired: &Desired, observed: &Observed) -> Outcome<Step, Why> {
    match (desired.is_held, observed.is_held) {
        (true, true) if observed.is_deleting => Outcome::rest().note(Why::InUse),
        // A deletion that has begun can be waited for, but finalizers cannot be added any more.
        (true, false) if observed.is_deleting => Outcome::rest(),
        (wanted, is) if wanted == is => Outcome::rest(),
        _ => Outcome::rest().step(Step::Write),
    }
}

fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
    match !outcome.steps.is_empty() && desired.is_held && observed.is_deleting {
        true => Err("something in use is let go".to_owned()),
        false => Ok(()),
    }
}

fn is_claim_used(view: &View, claim: &Object) -> bool {
    let pods = view.list(pods::COLLECTION, &claim.meta().namespace).into_iter().map(Seen::<Pod>::from);
    pods.filter(|pod| pod.facts.is_bound()).any(|pod| claims_of(&pod).any(|name| *name == *claim.meta().name))
}

fn claims_of(pod: &Seen<Pod>) -> impl Iterator<Item = String> + use<'_> {
    pod.facts.spec.volumes.iter().filter_map(move |volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.to_string()),
        None => volume.ephemeral.then(|| format!("{}-{}", pod.name(), volume.name)),
    })
}

/// The claims that the pod uses and that are being deleted.
fn pod_roots(view: &View, event: &Event) -> Vec<Key> {
    let pod = Seen::<Pod>::from(Object::new(event.key.clone(), event.entry.clone()));
    let namespace = &pod.meta().namespace;
    let keys = claims_of(&pod).map(|name| Key::new(CLAIM_COLLECTION, format!("{namespace}/{name}")));
    keys.filter(|key| view.get_key(key).is_some_and(|claim| claim.meta().is_deleting())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::World;
    use brain::Controller;
    use serde_json::json;

    #[test]
    fn a_claim_stays_while_a_pod_uses_it() {
        for crashing in [false, true] {
            let mut world = World::new([Controller::of::<ClaimProtectionController>()]);
            world.crashing = crashing;
            world.put(CLAIM_COLLECTION, json!({"metadata": {"name": "data", "namespace": "a"}}));
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
            for (name, node) in [("user", "n1"), ("unbound", "")] {
                let pod = json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"nodeName": node, "volumes": volumes}});
                world.put(pods::COLLECTION, pod);
            }
            assert_eq!(world.settle(), ["patch persistentvolumeclaims a/data"]);
            world.delete(CLAIM_COLLECTION, "a", "data", None);
            assert_eq!(world.follow(), Vec::<String>::new());
            world.remove(pods::COLLECTION, "a", "user");
            assert_eq!(world.follow(), ["patch persistentvolumeclaims a/data"]);
            assert!(world.names(CLAIM_COLLECTION).is_empty());
        }
    }

    #[test]
    fn a_volume_stays_while_it_is_bound() {
        let mut world = World::new([Controller::of::<VolumeProtectionController>()]);
        world.put(VOLUME_COLLECTION, json!({"metadata": {"name": "v"}, "status": {"phase": "Bound"}}));
        world.settle();
        world.delete(VOLUME_COLLECTION, "", "v", None);
        assert_eq!(world.follow(), Vec::<String>::new());
        world.edit(VOLUME_COLLECTION, "", "v", |volume| volume.put(&["status", "phase"], "Released"));
        assert_eq!(world.follow(), ["patch persistentvolumes v"]);
        assert!(world.names(VOLUME_COLLECTION).is_empty());
    }

    #[test]
    fn a_class_stays_while_a_claim_has_it() {
        let mut world = World::new([Controller::of::<ClassProtectionController>()]);
        world.put(CLASS_COLLECTION, json!({"metadata": {"name": "gold"}}));
        let claim =
            json!({"metadata": {"name": "data", "namespace": "a"}, "spec": {"volumeAttributesClassName": "gold"}});
        world.put(CLAIM_COLLECTION, claim);
        assert_eq!(world.settle(), ["patch volumeattributesclasses gold"]);
        world.delete(CLASS_COLLECTION, "", "gold", None);
        assert_eq!(world.follow(), Vec::<String>::new());
        world.remove(CLAIM_COLLECTION, "a", "data");
        assert_eq!(world.follow(), ["patch volumeattributesclasses gold"]);
        assert!(world.names(CLASS_COLLECTION).is_empty());
    }
}
