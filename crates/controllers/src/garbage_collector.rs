//! Objects whose owners are gone are deleted, and the two promises of a deletion are kept: `foregroundDeletion` (the
//! dependents that block go first) and `orphan` (the dependents are let go of).
//!
//! Its keys are objects of every kind. It writes owner references and finalizers only, and deletes with the revision
//! it decided on. An owner counts as absent when no object of that kind, namespace and name has that uid; where the kind
//! is not known nothing is decided. Cycles end because an object in one has no solid owner once one of them is gone,
//! and because references that would block each other for ever are made non-blocking.
//! At rest: the object has no owners, or all are there and stay. Never touches Events.

use std::time::Duration;

use brain::{Action, Brain, Def, Note, Object, Outcome, Propagation, Resource, View, Watch, key};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Change, Event, Key};
use view::{Meta, OwnerRef};

use crate::served;
use crate::target::Target;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const EVENTS: &str = "core/events";
/// Dependents let go of in one turn: bounds a turn's steps, the next turn goes on with the rest.
const ORPHANED_MAX: usize = 500;
/// When to look again at an owner of unknown kind: its definition may appear meanwhile. Rare, hence slow.
const UNKNOWN_KIND_RETRY: Duration = Duration::from_secs(300);

/// The controller.
pub struct GarbageCollector;

/// The object and what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    resource: Resource,
    target: Target,
    state: State,
    references: Value,
    finalizers: Vec<String>,
}

/// Where the object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not being deleted; `Some` when finalizers that it has already ask for a propagation.
    Living(Option<Propagation>),
    /// Being deleted once its blocking dependents are gone.
    Foreground,
    /// Being deleted once its dependents are let go of.
    Orphaning,
}

/// The object's owners and dependents.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Observed {
    owners: Vec<Owner>,
    has_dependents: bool,
    has_blocking_dependents: bool,
    has_foreground_dependents: bool,
    /// For [`State::Orphaning`]: the dependents to let go of, at most [`ORPHANED_MAX`].
    dependents: Vec<Dependent>,
}

/// One owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    uid: String,
    /// As upstream writes references in events.
    text: String,
    standing: Standing,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there and stays.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
    /// It is gone.
    Absent,
    /// It is not there, but another namespace has it: such a reference is not valid.
    Elsewhere,
    /// A namespaced owner of a cluster-wide object: not valid, and nothing can be concluded.
    OutOfScope,
    /// Its kind is not served: nothing can be concluded.
    UnknownKind,
}

/// A dependent that is let go of.
#[derive(Clone, Debug, PartialEq)]
struct Dependent {
    resource: Resource,
    target: Target,
    references: Value,
}

/// Every effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Deletes the object.
    Delete(Propagation),
    /// Removes references to owners that are gone or wait.
    DropOwners(Vec<String>),
    /// Makes all the object's references non-blocking.
    Unblock,
    /// Removes the reference of one dependent (by index) to the object.
    Release(usize),
    /// Removes one of the two finalizers.
    Finish(&'static str),
}

/// Every reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// No owner is left.
    NoOwnerLeft,
    /// The references name no object of this namespace.
    InvalidNamespace {
        /// The reference.
        reference: String,
        /// The object's namespace.
        namespace: String,
    },
    /// Nothing can be concluded about this owner.
    Undecidable(String),
    /// Dependents block.
    Blocked,
}

impl Brain for GarbageCollector {
    const DEF: Def = Def {
        name: "generic-garbage-collector",
        root: Resource::ANY,
        root_kind: "",
        watches: &[Watch::every(roots)],
        resync: None,
    };
    type Desired = Desired;
    type Observed = Observed;
    type Step = Step;
    type Why = Why;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Desired, Observed)> {
        if &*key.collection == EVENTS {
            return None;
        }
        let object = view.get_key(key)?;
        let state = state(object.meta())?;
        if matches!(state, State::Living(_)) && object.meta().owner_references.is_empty() {
            return None;
        }
        let resource = served::by_collection(view, &key.collection)?.resource;
        let observed = observed(view, &object, state);
        let desired = Desired {
            resource,
            target: Target::of(&object),
            state,
            references: object.tree().at(&["metadata", "ownerReferences"]).cloned().unwrap_or_default(),
            finalizers: object.meta().finalizers.iter().map(|f| f.to_string()).collect(),
        };
        Some((desired, observed))
    }

    fn reconcile(desired: &Desired, observed: &Observed, now: Time) -> Outcome<Step, Why> {
        match desired.state {
            State::Foreground if observed.has_blocking_dependents => Outcome::rest().note(Why::Blocked),
            State::Foreground => Outcome::rest().step(Step::Finish(FOREGROUND)),
            State::Orphaning if observed.dependents.is_empty() => Outcome::rest().step(Step::Finish(ORPHAN)),
            State::Orphaning => {
                let steps = (0..observed.dependents.len()).map(Step::Release).collect();
                Outcome { steps, ..Outcome::rest() }
            }
            State::Living(propagation) => living(desired, propagation, observed, now),
        }
    }

    fn check(desired: &Desired, observed: &Observed, outcome: &Outcome<Step, Why>) -> Result<(), String> {
        let deletes = outcome.steps.iter().any(|step| matches!(step, Step::Delete(_)));
        let is_held =
            |owner: &Owner| !matches!(owner.standing, Standing::Absent | Standing::Elsewhere | Standing::Waiting);
        if deletes && (observed.owners.iter().any(is_held) || observed.owners.is_empty()) {
            return Err("an object with an owner that may stay is deleted".to_owned());
        }
        match desired.state == State::Orphaning && deletes {
            true => Err("a deletion is asked for again".to_owned()),
            false => Ok(()),
        }
    }

    fn perform(step: Step, desired: &Desired, observed: &Observed) -> Action {
        let resource = desired.resource.clone();
        let target = &desired.target;
        match step {
            Step::Delete(propagation) => target.delete_guarded(resource, Some(propagation)),
            Step::DropOwners(uids) => write_references(target, resource, without(&desired.references, &uids)),
            Step::Unblock => write_references(target, resource, unblocked(&desired.references)),
            Step::Finish(finalizer) => {
                let left: Vec<String> = desired.finalizers.iter().filter(|f| *f != finalizer).cloned().collect();
                target.set_finalizers(resource, &left)
            }
            Step::Release(index) => match observed.dependents.get(index) {
                Some(dependent) => {
                    let left = without(&dependent.references, std::slice::from_ref(&target.uid));
                    write_references(&dependent.target, dependent.resource.clone(), left)
                }
                // Steps are made from these very dependents.
                None => target.set_finalizers(resource, &desired.finalizers),
            },
        }
    }

    fn explain(why: Why) -> Note {
        match why {
            Why::NoOwnerLeft => Note::quiet("NoOwnerLeft", "all owners are gone or going"),
            Why::InvalidNamespace { reference, namespace } => Note::warning(
                "OwnerRefInvalidNamespace",
                format!("ownerRef {reference} does not exist in namespace {namespace:?}"),
            ),
            Why::Undecidable(reference) => {
                Note::quiet("OwnerUndecidable", format!("nothing can be concluded about owner {reference}"))
            }
            Why::Blocked => Note::quiet("DependentsBlock", "dependents that block deletion are still there"),
        }
    }
}

/// `None`: being deleted without a promise to keep.
fn state(meta: &Meta) -> Option<State> {
    let has = |finalizer: &str| meta.finalizers.iter().any(|f| &**f == finalizer);
    match (meta.is_deleting(), has(ORPHAN), has(FOREGROUND)) {
        (true, true, _) => Some(State::Orphaning),
        (true, false, true) => Some(State::Foreground),
        (true, false, false) => None,
        (false, true, _) => Some(State::Living(Some(Propagation::Orphan))),
        (false, false, true) => Some(State::Living(Some(Propagation::Foreground))),
        (false, false, false) => Some(State::Living(None)),
    }
}

fn is_waiting(meta: &Meta) -> bool {
    meta.is_deleting() && meta.finalizers.iter().any(|f| &**f == FOREGROUND)
}

fn observed(view: &View, object: &Object, state: State) -> Observed {
    let uid = &object.meta().uid;
    match state {
        State::Foreground => {
            let blocks = |dependent: &Object| owner_of(dependent, uid).is_some_and(|owner| owner.block_owner_deletion);
            Observed { has_blocking_dependents: view.each_dependent(uid).any(|d| blocks(&d)), ..Observed::default() }
        }
        State::Orphaning => {
            let released = |dependent: &Object| {
                let resource = served::by_collection(view, &dependent.key.collection)?.resource;
                let references = dependent.tree().at(&["metadata", "ownerReferences"]).cloned().unwrap_or_default();
                Some(Dependent { resource, target: Target::of(dependent), references })
            };
            let dependents = view.each_dependent(uid).filter_map(|d| released(&d)).take(ORPHANED_MAX).collect();
            Observed { dependents, ..Observed::default() }
        }
        State::Living(_) => {
            let owners: Vec<Owner> = object.meta().owner_references.iter().map(|r| owner(view, object, r)).collect();
            let waits = owners.iter().any(|owner| owner.standing == Standing::Waiting);
            Observed {
                owners,
                has_dependents: waits && view.each_dependent(uid).next().is_some(),
                has_foreground_dependents: waits && view.each_dependent(uid).any(|d| is_waiting(d.meta())),
                ..Observed::default()
            }
        }
    }
}

fn owner_of<'o>(object: &'o Object, uid: &str) -> Option<&'o OwnerRef> {
    object.meta().owner_references.iter().find(|owner| &*owner.uid == uid)
}

fn owner(view: &View, object: &Object, reference: &OwnerRef) -> Owner {
    let namespace = &object.meta().namespace;
    let OwnerRef { api_version, kind, name, uid, .. } = reference;
    let text = format!("[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]");
    Owner { uid: uid.to_string(), text, standing: standing(view, namespace, reference) }
}

fn standing(view: &View, namespace: &str, reference: &OwnerRef) -> Standing {
    let Some(served) = served::by_kind(view, &reference.api_version, &reference.kind) else {
        return Standing::UnknownKind;
    };
    if served.namespaced && namespace.is_empty() {
        return Standing::OutOfScope;
    }
    let named = |namespace: &str| {
        let owner = view.get(&served.collection, namespace, &reference.name)?;
        (owner.meta().uid == reference.uid).then_some(owner)
    };
    match named(if served.namespaced { namespace } else { "" }) {
        Some(owner) if is_waiting(owner.meta()) => Standing::Waiting,
        Some(_) => Standing::Solid,
        None if !served.namespaced => Standing::Absent,
        None => {
            let mut others = view.snapshot().items("core/namespaces").map(|(name, _)| name);
            if others.any(|other| named(other).is_some()) { Standing::Elsewhere } else { Standing::Absent }
        }
    }
}

fn living(desired: &Desired, propagation: Option<Propagation>, observed: &Observed, now: Time) -> Outcome<Step, Why> {
    let of = |standing: Standing| observed.owners.iter().filter(move |owner| owner.standing == standing);
    let mut outcome = Outcome::rest();
    if let Some(owner) = of(Standing::UnknownKind).next() {
        return outcome.note(Why::Undecidable(owner.text.clone())).wake_at(now.after(UNKNOWN_KIND_RETRY));
    }
    if let Some(owner) = of(Standing::OutOfScope).next() {
        return outcome.note(Why::Undecidable(owner.text.clone()));
    }
    outcome.notes.extend(of(Standing::Elsewhere).map(|owner| Why::InvalidNamespace {
        reference: owner.text.clone(),
        namespace: desired.target.namespace.clone(),
    }));
    let gone: Vec<String> =
        observed.owners.iter().filter(|o| o.standing != Standing::Solid).map(|o| o.uid.clone()).collect();
    if gone.len() < observed.owners.len() {
        return if gone.is_empty() { outcome } else { outcome.step(Step::DropOwners(gone)) };
    }
    let outcome = outcome.note(Why::NoOwnerLeft);
    if of(Standing::Waiting).next().is_none() || !observed.has_dependents {
        return outcome.step(Step::Delete(propagation.unwrap_or(Propagation::Background)));
    }
    // The next turn deletes: its decision is bound to the revision that the change of the references makes.
    match observed.has_foreground_dependents && is_blocking(&desired.references) {
        true => outcome.step(Step::Unblock),
        false => outcome.step(Step::Delete(Propagation::Foreground)),
    }
}

fn is_blocking(references: &Value) -> bool {
    references.items(&[]).iter().any(|reference| reference.flag(&["blockOwnerDeletion"]))
}

fn without(references: &Value, uids: &[String]) -> Value {
    let stays = |reference: &&Value| !uids.iter().any(|uid| uid == reference.text(&["uid"]));
    references.items(&[]).iter().filter(stays).cloned().collect::<Vec<_>>().into()
}

fn unblocked(references: &Value) -> Value {
    let unblock = |reference: &Value| {
        let mut reference = reference.clone();
        reference.put(&["blockOwnerDeletion"], false);
        reference
    };
    references.items(&[]).iter().map(unblock).collect::<Vec<_>>().into()
}

fn write_references(target: &Target, resource: Resource, references: Value) -> Action {
    let references = if references.items(&[]).is_empty() { Value::Null } else { references };
    target.merge_guarded(resource, "", json!({"metadata": {"ownerReferences": references}}))
}

/// A change concerns the object itself, its dependents when it is gone or begins to wait for them, and its owners
/// when those may have waited for it. What else changes about an object concerns nobody here.
fn roots(view: &View, event: &Event) -> Vec<Key> {
    if &*event.key.collection == EVENTS {
        return Vec::new();
    }
    let new = Object::new(event.key.clone(), event.entry.clone());
    let old = event.previous.clone().map(|entry| Object::new(event.key.clone(), entry));
    let is_gone = event.change == Change::Deleted;
    if !is_gone && old.as_ref().is_some_and(|old| is_same(old.meta(), new.meta())) {
        return Vec::new();
    }
    let mut keys = Vec::new();
    if !is_gone && (new.meta().is_deleting() || !new.meta().owner_references.is_empty()) {
        keys.push(event.key.clone());
    }
    let waited = old.as_ref().is_some_and(|old| is_waiting(old.meta()));
    if is_gone || (is_waiting(new.meta()) && !waited) {
        keys.extend(view.each_dependent(&new.meta().uid).map(|dependent| dependent.key));
    }
    for object in old.iter().chain([&new]) {
        keys.extend(object.meta().owner_references.iter().filter_map(|r| deleting_owner(view, object.meta(), r)));
    }
    keys
}

fn is_same(old: &Meta, new: &Meta) -> bool {
    let owner =
        |r: &OwnerRef| (r.uid.clone(), r.name.clone(), r.kind.clone(), r.api_version.clone(), r.block_owner_deletion);
    old.deletion_timestamp == new.deletion_timestamp
        && old.finalizers == new.finalizers
        && old.owner_references.iter().map(owner).eq(new.owner_references.iter().map(owner))
}

fn deleting_owner(view: &View, meta: &Meta, reference: &OwnerRef) -> Option<Key> {
    let served = served::by_kind(view, &reference.api_version, &reference.kind)?;
    let namespace = if served.namespaced { &*meta.namespace } else { "" };
    let key = key(&served.collection, namespace, &reference.name);
    view.get_key(&key).filter(|owner| owner.meta().is_deleting()).map(|_| key)
}

#[cfg(test)]
mod tests;
