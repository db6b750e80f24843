//! Claims, volumes and classes, as far as placing pods depends on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brain::facts::{Fact, LabelSelector, NodeSelector, Quantities, Seen};
use brain::{Object, Resource};
use serde::Deserialize;
use store::{Change, Event};

use crate::topology::Labels;

/// Claims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// Volumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// The annotation that tells a provisioner where to make a claim's volume.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The provisioner of classes that have none.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    metadata: ClaimMeta,
    /// What it asks for.
    pub spec: ClaimSpec,
    /// How it is.
    pub status: Phase,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimMeta {
    annotations: BTreeMap<Box<str>, Box<str>>,
}

/// `spec` of a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The volume it is bound to; empty when it is not.
    pub volume_name: Box<str>,
    /// Its class; `None` when it has none.
    pub storage_class_name: Option<Box<str>>,
    /// How it is to be mounted.
    pub access_modes: Box<[Box<str>]>,
    /// Which volumes may do.
    pub selector: Option<LabelSelector>,
    /// `Filesystem` (also when empty) or `Block`.
    pub volume_mode: Box<str>,
    /// How large.
    pub resources: ClaimResources,
}

/// `spec.resources` of a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// `storage`.
    pub requests: Quantities,
}

/// `status.phase`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// `Pending`, `Available`, `Bound`, `Released`, `Lost` or `Failed`.
    pub phase: Box<str>,
}

/// A volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// What it is.
    pub spec: VolumeSpec,
    /// How it is.
    pub status: Phase,
}

/// `spec` of a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// `storage`.
    pub capacity: Quantities,
    /// How it may be mounted.
    pub access_modes: Box<[Box<str>]>,
    /// Its class; empty when it has none.
    pub storage_class_name: Box<str>,
    /// `Filesystem` (also when empty) or `Block`.
    pub volume_mode: Box<str>,
    /// The claim it is for.
    pub claim_ref: Option<ClaimRef>,
    /// From where it can be reached.
    pub node_affinity: VolumeAffinity,
}

/// The claim that a volume is for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid; empty when it was reserved by name.
    pub uid: Box<str>,
}

/// `spec.nodeAffinity` of a volume.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAffinity {
    /// Must hold.
    pub required: Option<NodeSelector>,
}

/// A class.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Class {
    /// Who makes its volumes.
    pub provisioner: Box<str>,
    /// `Immediate` (also when empty) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Box<str>,
    /// Where its volumes can be made; anywhere when empty.
    pub allowed_topologies: Box<[TopologyTerm]>,
}

/// A conjunction of labels.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyTerm {
    /// All must hold.
    pub match_label_expressions: Box<[TopologyRequirement]>,
}

/// A label with one of some values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TopologyRequirement {
    /// The label.
    pub key: Box<str>,
    /// Its values.
    pub values: Box<[Box<str>]>,
}

impl Fact for Claim {}
impl Fact for Volume {}
impl Fact for Class {}

impl Claim {
    /// Whether its volume is ready to be used.
    pub fn is_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotations.contains_key("pv.kubernetes.io/bind-completed")
    }

    /// The node that its volume is to be made for.
    pub fn selected_node(&self) -> &str {
        self.metadata.annotations.get(SELECTED_NODE).map_or("", |node| node)
    }

    /// Whether only one pod may use it.
    pub fn is_for_one_pod(&self) -> bool {
        self.spec.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }

    fn bytes(&self) -> i64 {
        self.spec.resources.requests.get("storage").map_or(0, |storage| storage.units())
    }
}

impl Volume {
    /// Whether nodes with these labels and this name reach it.
    pub fn is_reached_from(&self, labels: &Labels, name: &str) -> bool {
        self.spec.node_affinity.required.as_ref().is_none_or(|selector| selector.matches(labels, name))
    }

    fn bytes(&self) -> i64 {
        self.spec.capacity.get("storage").map_or(0, |storage| storage.units())
    }
}

impl Class {
    fn waits(&self) -> bool {
        &*self.volume_binding_mode == "WaitForFirstConsumer"
    }

    /// Whether its volumes can be made for nodes with these labels.
    pub fn can_make_for(&self, labels: &Labels) -> bool {
        let holds = |r: &TopologyRequirement| {
            labels.get(&r.key).is_some_and(|value| r.values.iter().any(|own| **own == **value))
        };
        &*self.provisioner != NO_PROVISIONER
            && !self.provisioner.is_empty()
            && (self.allowed_topologies.is_empty()
                || self.allowed_topologies.iter().any(|term| term.match_label_expressions.iter().all(holds)))
    }
}

/// Everything known about volumes.
#[derive(Default)]
pub struct Volumes {
    claims: BTreeMap<Arc<str>, Seen<Claim>>,
    volumes: BTreeMap<Arc<str>, Seen<Volume>>,
    classes: BTreeMap<Arc<str>, Arc<Class>>,
    /// Volumes that no claim has, by class.
    unclaimed: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
    /// Volumes on the way to a claim, in this scheduler's own decisions.
    promised: BTreeMap<Arc<str>, Arc<str>>,
}

/// What a claim means for where its pod can be.
#[derive(Clone)]
pub enum Need {
    /// Where this volume is reached.
    Reach(Arc<Volume>),
    /// Where one of these volumes is reached, or else where one can be made.
    Find {
        /// The claim's key in its collection.
        claim: Arc<str>,
        /// Volumes that would do, smallest first.
        volumes: Vec<(Arc<str>, Arc<Volume>)>,
        /// The class that could make one.
        class: Arc<Class>,
    },
}

/// What has to be done before a pod with unbound claims can start on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepare {
    /// This volume is for that claim (both by their key in the collection).
    Reserve {
        /// The volume.
        volume: Arc<str>,
        /// The claim.
        claim: Arc<str>,
    },
    /// A volume is to be made for that claim.
    Make {
        /// The claim.
        claim: Arc<str>,
    },
}

impl Volumes {
    /// Takes in a change; whether it was about volumes at all.
    pub fn apply(&mut self, event: &Event) -> bool {
        let object =
            (event.change != Change::Deleted).then(|| Object::new(event.key.clone(), Arc::clone(&event.entry)));
        self.put(&event.key.collection, &event.key.item, object)
    }

    /// One object is now this; `None` when it is gone.
    pub fn put(&mut self, collection: &str, item: &Arc<str>, object: Option<Object>) -> bool {
        match collection {
            "core/persistentvolumeclaims" => put(&mut self.claims, item, object.map(Seen::from)),
            "core/persistentvolumes" => self.put_volume(item, object.map(Seen::from)),
            "storage.k8s.io/storageclasses" => put(&mut self.classes, item, object.map(|o| Class::of(&o))),
            _ => return false,
        }
        true
    }

    fn put_volume(&mut self, item: &Arc<str>, volume: Option<Seen<Volume>>) {
        if let Some(old) = self.volumes.remove(item)
            && let Some(set) = self.unclaimed.get_mut(&old.facts.spec.storage_class_name)
        {
            set.remove(item);
        }
        let Some(volume) = volume else { return };
        let is_free = volume.facts.spec.claim_ref.as_ref().is_none_or(|claim| claim.uid.is_empty());
        if is_free && !volume.is_deleting() {
            self.unclaimed.entry(volume.facts.spec.storage_class_name.clone()).or_default().insert(Arc::clone(item));
        } else {
            self.promised.remove(item);
        }
        self.volumes.insert(Arc::clone(item), volume);
    }

    /// One claim, by `namespace/name`.
    pub fn claim(&self, key: &str) -> Option<&Seen<Claim>> {
        self.claims.get(key)
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Option<&Seen<Volume>> {
        self.volumes.get(name)
    }

    /// A volume is being reserved for a claim: nobody else may have it meanwhile.
    pub fn promise(&mut self, volume: &Arc<str>, claim: &Arc<str>) {
        self.promised.insert(Arc::clone(volume), Arc::clone(claim));
    }

    /// What was promised to a claim is free again.
    pub fn take_back(&mut self, claim: &str) {
        self.promised.retain(|_, to| **to != *claim);
    }

    /// What a claim means for its pod's place; the error is upstream's sentence.
    pub fn need(&self, namespace: &str, name: &str, ephemeral: bool) -> Result<Need, String> {
        let key = format!("{namespace}/{name}");
        let Some((key, claim)) = self.claims.get_key_value(&*key) else {
            return Err(if ephemeral {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
            } else {
                format!("persistentvolumeclaim {name:?} not found")
            });
        };
        if &*claim.facts.status.phase == "Lost" {
            let volume = &claim.facts.spec.volume_name;
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.is_deleting() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if claim.facts.is_bound() {
            let volume = self.volumes.get(&*claim.facts.spec.volume_name);
            let missing = || format!("persistentvolume {:?} not found", claim.facts.spec.volume_name);
            return volume.map(|volume| Need::Reach(Arc::clone(&volume.facts))).ok_or_else(missing);
        }
        let class = claim.facts.spec.storage_class_name.as_ref().and_then(|name| self.classes.get(&**name));
        let unbound = || "pod has unbound immediate PersistentVolumeClaims".to_owned();
        let class =
            class.filter(|class| class.waits() && claim.facts.spec.volume_name.is_empty()).ok_or_else(unbound)?;
        Ok(Need::Find { claim: Arc::clone(key), volumes: self.fitting(key, claim), class: Arc::clone(class) })
    }

    fn fitting(&self, key: &Arc<str>, claim: &Seen<Claim>) -> Vec<(Arc<str>, Arc<Volume>)> {
        let class = claim.facts.spec.storage_class_name.as_deref().unwrap_or("");
        let names = self.unclaimed.get(class).into_iter().flatten();
        let fits = |name: &&Arc<str>| {
            let is_promised = self.promised.get(*name).is_some_and(|to| to != key);
            !is_promised && self.volumes.get(*name).is_some_and(|volume| fits(volume, claim))
        };
        let named = |name: &Arc<str>| Some((Arc::clone(name), Arc::clone(&self.volumes.get(name)?.facts)));
        let mut volumes: Vec<_> = names.filter(fits).filter_map(named).collect();
        volumes.sort_by_key(|(_, volume)| volume.bytes());
        volumes
    }
}

fn put<T>(all: &mut BTreeMap<Arc<str>, T>, item: &Arc<str>, thing: Option<T>) {
    match thing {
        Some(thing) => all.insert(Arc::clone(item), thing),
        None => all.remove(item),
    };
}

/// Whether a free volume would do for a claim, wherever it is.
fn fits(volume: &Seen<Volume>, claim: &Seen<Claim>) -> bool {
    let (have, want) = (&volume.facts.spec, &claim.facts.spec);
    let mode = |mode: &str| if mode.is_empty() { "Filesystem".to_owned() } else { mode.to_owned() };
    let reserved = have
        .claim_ref
        .as_ref()
        .is_none_or(|reserved| *reserved.namespace == *claim.meta().namespace && *reserved.name == *claim.name());
    reserved
        && volume.facts.bytes() >= claim.facts.bytes()
        && mode(&have.volume_mode) == mode(&want.volume_mode)
        && want.access_modes.iter().all(|mode| have.access_modes.contains(mode))
        && want.selector.as_ref().is_none_or(|selector| selector.0.matches(&volume.meta().labels))
}

/// How the needs of one pod are met on a node: `None` when they are not, and whether a bound volume is the reason.
pub fn meet(needs: &[Need], labels: &Labels, node: &str) -> Result<Vec<Prepare>, crate::reason::Reason> {
    let mut prepare = Vec::new();
    let mut taken: BTreeSet<&Arc<str>> = BTreeSet::new();
    for need in needs {
        match need {
            Need::Reach(volume) if volume.is_reached_from(labels, node) => {}
            Need::Reach(_) => return Err(crate::reason::Reason::VolumeAffinity),
            Need::Find { claim, volumes, class } => {
                let free = |(name, volume): &&(Arc<str>, Arc<Volume>)| {
                    !taken.contains(name) && volume.is_reached_from(labels, node)
                };
                if let Some((volume, _)) = volumes.iter().find(free) {
                    taken.insert(volume);
                    prepare.push(Prepare::Reserve { volume: Arc::clone(volume), claim: Arc::clone(claim) });
                } else if class.can_make_for(labels) {
                    prepare.push(Prepare::Make { claim: Arc::clone(claim) });
                } else {
                    return Err(crate::reason::Reason::NoVolume);
                }
            }
        }
    }
    Ok(prepare)
}
