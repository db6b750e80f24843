//! Which objects a workload owns: those that it controls and selects. Ones that it selects and nobody controls are
//! adopted, ones that it controls and no longer selects are released, and those of others are never touched.

use brain::{Action, Object, Resource, View};
use meta::labels::Selector;
use meta::{FieldPath, ObjectExt};
use serde_json::{Value, json};

use crate::target::{Target, finalizers_without};

/// Who owns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Owner {
    /// E.g. `apps/v1`.
    pub api_version: &'static str,
    /// CamelCase kind.
    pub kind: &'static str,
    /// The object.
    pub target: Target,
    /// Deletion has begun: nothing is adopted or released any more.
    pub deleting: bool,
    /// The finalizer that comes and goes with ownership.
    pub holds: Option<&'static str>,
}

impl Owner {
    /// The reference that makes an object this one's.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "name": self.target.name, "uid": self.target.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }
}

/// A change of owner, guarded by the object's revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    /// Whose owner changes.
    pub target: Target,
    /// Its owner references afterwards; null for none.
    pub owners: Value,
    /// Its finalizers afterwards, null for none; `None` if they stay.
    pub finalizers: Option<Value>,
}

impl Transfer {
    fn adopt(object: &Object, owner: &Owner) -> Transfer {
        let mut owners = object.tree().owner_references().to_vec();
        owners.push(owner.reference());
        let held = |finalizer| with_finalizer(object, finalizer).into();
        Transfer { target: Target::of(object), owners: owners.into(), finalizers: owner.holds.map(held) }
    }

    fn release(object: &Object, owner: &Owner) -> Transfer {
        let mut owners = object.tree().owner_references().to_vec();
        owners.retain(|reference| reference.text(&["uid"]) != owner.target.uid);
        let or_null = |list: Vec<Value>| if list.is_empty() { Value::Null } else { list.into() };
        let left = |finalizer| finalizers_without(object, finalizer).into_iter().map(Value::from).collect();
        let finalizers = owner.holds.map(|finalizer| or_null(left(finalizer)));
        Transfer { target: Target::of(object), owners: or_null(owners), finalizers }
    }

    /// As an API request.
    pub fn perform(self, resource: Resource) -> Action {
        let mut patch = json!({"metadata": {"ownerReferences": self.owners}});
        if let Some(finalizers) = self.finalizers {
            patch["metadata"]["finalizers"] = finalizers;
        }
        self.target.merge_guarded(resource, "", patch)
    }
}

fn with_finalizer(object: &Object, finalizer: &str) -> Vec<String> {
    let mut finalizers = finalizers_without(object, finalizer);
    finalizers.push(finalizer.to_owned());
    finalizers
}

/// What a workload finds.
#[derive(Default)]
pub(crate) struct Claimed {
    /// What it owns now, ordered by key. Objects to be adopted are not among them yet.
    pub mine: Vec<Object>,
    /// Changes of owner to be made first.
    pub transfers: Vec<Transfer>,
}

/// Sorts the objects of one collection in the owner's namespace that `belongs` lets through.
pub(crate) fn claim(
    view: &View,
    collection: &str,
    owner: &Owner,
    selector: &Selector,
    belongs: impl Fn(&Object) -> bool,
) -> Claimed {
    let (mut mine, mut transfers) = (Vec::new(), Vec::new());
    let selected = |object: &Object| selector.matches(&object.meta().labels) && belongs(object);
    let is_near =
        |object: &Object| *object.key.collection == *collection && *object.meta().namespace == *owner.target.namespace;
    for object in view.dependents(&owner.target.uid).into_iter().filter(is_near) {
        if !object.meta().is_controlled_by(&owner.target.uid) {
            continue;
        }
        if selected(&object) {
            mine.push(object);
        } else if !owner.deleting {
            transfers.push(Transfer::release(&object, owner));
        }
    }
    if !owner.deleting {
        let orphans = view.orphans(collection, &owner.target.namespace).into_iter();
        let adoptable = orphans.filter(|object| !object.meta().is_deleting() && selected(object));
        transfers.extend(adoptable.map(|object| Transfer::adopt(&object, owner)));
    }
    Claimed { mine, transfers }
}

/// The selector in the `spec` of a workload of group `apps`.
pub(crate) fn spec_selector(spec: &Value) -> Selector {
    selector(spec.get("selector"))
}

/// A workload's selector; one that cannot be read or is absent matches nothing.
pub(crate) fn selector(written: Option<&Value>) -> Selector {
    let sound = |value: &&Value| Selector::validate(value, &FieldPath::ROOT).is_empty();
    Selector::from_label_selector(written.filter(sound)).unwrap_or_else(|_| Selector::nothing())
}
