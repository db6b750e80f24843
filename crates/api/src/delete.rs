//! DELETE: of one object, of a collection; finalizers, grace and what happens to dependents.

use std::sync::Arc;

use admit::admission::{Effects, Operation};
use kinds::KindDef;
use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};
use store::{Entry, Key, Keyspace, Op, Precondition, Txn};

use crate::admission::Review;
use crate::changes::{self, Author};
use crate::list::{Matcher, matching};
use crate::machine::{Answer, Attempt, Commit, Settings};
use crate::write::{is_held, is_removed, tree_at};
use crate::{Body, DeleteOptions, Propagation, Request, World, body, encode, update};

/// The finalizers that propagation policies stand for.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Deletes the object that the request names.
pub(crate) fn one(world: World<'_>, request: &Request) -> Result<Attempt, ApiError> {
    let request = &with_body(request)?;
    let entry = update::stored(world, request)?;
    let kind = &request.target.kind;
    let tree = tree_at(kind, &entry)?;
    expect_preconditions(kind, &tree, &request.options.delete)?;
    admit_delete(world, request, &tree)?;
    let key = request.target.key();
    let Some(deletion) = deletion(world, request, key.clone(), &entry, tree.clone()) else {
        return Ok(Attempt::Answer(Answer::tree(tree)));
    };
    if request.options.dry_run {
        return Ok(Attempt::Answer(deletion.answer(None)));
    }
    let insists = request.options.delete.preconditions.resource_version.is_some();
    let txn =
        Txn { preconditions: vec![Precondition::ModifiedAt(key, entry.modified)], ops: vec![deletion.op.clone()] };
    Ok(Attempt::Commit(Box::new(Commit {
        txn,
        fights: 0,
        retry: !insists,
        conflict: ApiError::modified(&kind.group_resource(), &request.target.name),
        then: Box::new(move |committed| deletion.answer(Some(committed.revision.0))),
    })))
}

/// Deletes what the selectors match, a batch a transaction; the shell asks again until nothing is left.
pub(crate) fn collection(world: World<'_>, request: &Request, settings: &Settings) -> Result<Attempt, ApiError> {
    let request = &with_body(request)?;
    let kind = &request.target.kind;
    let matcher = Matcher::of(request)?;
    let mut txn = Txn::default();
    for (item, entry) in matching(world.snapshot, &request.target, &matcher, "") {
        let key = Key { collection: kind.collection(), item: Arc::clone(item) };
        let tree = tree_at(kind, entry)?;
        admit_delete(world, request, &tree)?;
        if let Some(deletion) = deletion(world, request, key.clone(), entry, tree) {
            txn.preconditions.push(Precondition::ModifiedAt(key, entry.modified));
            txn.ops.push(deletion.op);
        }
        if txn.ops.len() >= settings.delete_batch_max {
            break;
        }
    }
    let done = || Answer::tree(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}));
    if txn.ops.is_empty() || request.options.dry_run {
        return Ok(Attempt::Answer(done()));
    }
    Ok(Attempt::Commit(Box::new(Commit {
        txn,
        fights: 0,
        retry: true,
        conflict: ApiError::modified(&kind.group_resource(), ""),
        then: Box::new(move |_| done()),
    })))
}

fn with_body(request: &Request) -> Result<Request, ApiError> {
    let mut request = request.clone();
    let options = body::decode_delete_options(&request.body, &request.target.kind)?;
    request.options = request.options.with_delete_body(&options)?;
    Ok(request)
}

fn expect_preconditions(kind: &KindDef, tree: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let conflict = |what: &str, given: &str, is: &str| {
        let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {is}");
        ApiError::conflict(&kind.group_resource(), tree.name(), why)
    };
    if let Some(uid) = options.preconditions.uid.as_deref().filter(|uid| *uid != tree.uid()) {
        return Err(conflict("UID", uid, tree.uid()));
    }
    let version = tree.text(&["metadata", "resourceVersion"]);
    match options.preconditions.resource_version.as_deref().filter(|given| *given != version) {
        Some(given) => Err(conflict("ResourceVersion", given, version)),
        None => Ok(()),
    }
}

fn admit_delete(world: World<'_>, request: &Request, tree: &Value) -> Result<(), ApiError> {
    let mut attributes = request.attributes();
    attributes.verb = "delete".to_owned();
    attributes.name = tree.name().to_owned();
    attributes.namespace = tree.namespace().to_owned();
    let review = Review {
        attributes: &attributes,
        operation: Operation::Delete,
        kind: &request.target.kind.gvk(),
        old: Some(tree),
        dry_run: request.options.dry_run,
    };
    review.admit(world, None, &mut Effects::default())
}

/// What a delete does to one object.
struct Deletion {
    op: Op,
    object: Value,
    removed: bool,
    kind: Arc<KindDef>,
}

impl Deletion {
    /// A removed object is answered with a Status that says so, one that still goes with the object.
    fn answer(self, revision: Option<u64>) -> Answer {
        if !self.removed {
            let mut object = self.object;
            if let Some(revision) = revision {
                object.put(&["metadata", "resourceVersion"], revision.to_string());
            }
            return Answer { code: 200, body: Body::Tree(object), warnings: Vec::new() };
        }
        let mut details = json!({"name": self.object.name(), "kind": &*self.kind.plural, "uid": self.object.uid()});
        if !self.kind.group.is_empty() {
            details["group"] = json!(&*self.kind.group);
        }
        Answer::tree(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        }))
    }
}

/// `None`: deletion is already under way and this request changes nothing about it.
fn deletion(world: World<'_>, request: &Request, key: Key, entry: &Entry, tree: Value) -> Option<Deletion> {
    let kind = &request.target.kind;
    let options = &request.options.delete;
    let before = tree.clone();
    let mut object = tree;
    hold_for_propagation(kind, &mut object, options.propagation);
    begin(world, kind, &mut object, options);
    let removed = is_removed(kind, &object);
    if object == before && !removed {
        return None;
    }
    if kind.counts_generation && !before.is_deleting() && object.is_deleting() {
        object.put(&["metadata", "generation"], before.generation() + 1);
    }
    let mut stored = object.clone();
    if let Some(conversion) = &kind.conversion {
        (conversion.to_hub)(&mut stored);
    }
    let (value, stamp_at) = encode(&stored);
    let keyspace = if kind.volatile { Keyspace::Volatile } else { Keyspace::Durable };
    let author = Author { manager: request.manager(), user: &request.user.name, verb: "delete".to_owned() };
    let op = if removed {
        Op::Delete { key, last: Some((value, Some(stamp_at))) }
    } else {
        let annex = changes::logged(kind, Some((&before, entry)), &object, &author, world.now).annex();
        Op::Put { key, value, annex, stamp_at: Some(stamp_at), keyspace }
    };
    Some(Deletion { op, object, removed, kind: Arc::clone(kind) })
}

/// Writes the propagation policy as finalizers, which the garbage collector reads.
fn hold_for_propagation(kind: &KindDef, object: &mut Value, asked: Option<Propagation>) {
    let asked = asked.or(default_propagation(kind, object));
    let mut finalizers: Vec<String> =
        object.finalizers().filter(|f| *f != ORPHAN && *f != FOREGROUND).map(str::to_owned).collect();
    match asked {
        Some(Propagation::Orphan) => finalizers.push(ORPHAN.to_owned()),
        Some(Propagation::Foreground) => finalizers.push(FOREGROUND.to_owned()),
        Some(Propagation::Background) => {}
        // Nobody asked: finalizers that are there already say what to do.
        None => return,
    }
    match finalizers.is_empty() {
        true => drop(object.remove(&["metadata", "finalizers"])),
        false => object.put(&["metadata", "finalizers"], finalizers),
    }
}

fn default_propagation(kind: &KindDef, object: &Value) -> Option<Propagation> {
    let already_said = object.finalizers().any(|f| f == ORPHAN || f == FOREGROUND);
    (!kind.cascades_by_default && !already_said && !object.is_deleting()).then_some(Propagation::Orphan)
}

/// Begins deletion, or shortens a grace period that runs already.
fn begin(world: World<'_>, kind: &KindDef, object: &mut Value, options: &DeleteOptions) {
    let asked = options.grace_seconds;
    let grace = kind.grace_seconds.map_or(0, |seconds| seconds(object, asked).max(0));
    let running = object.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    if object.is_deleting() && (asked.is_none() || kind.grace_seconds.is_none() || grace >= running) {
        return;
    }
    let span = std::time::Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    let start = object.deletion_timestamp().map_or(world.now, |at| {
        // The running period's start, from which the shorter one counts too.
        stdx::Time::from_micros(at.as_micros() - running.saturating_mul(1_000_000))
    });
    object.put(&["metadata", "deletionTimestamp"], start.after(span).to_rfc3339());
    object.put(&["metadata", "deletionGracePeriodSeconds"], grace);
    if kind.kind == "CustomResourceDefinition" && kind.group == "apiextensions.k8s.io" {
        hold_for_objects(object);
    }
    if kind.kind == "Namespace" && kind.group.is_empty() && is_held(kind, object) {
        object.put(&["status", "phase"], "Terminating");
    }
}

/// A definition goes after its objects, also one that is deleted before anybody else has seen it.
fn hold_for_objects(definition: &mut Value) {
    const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
    let mut finalizers: Vec<String> = definition.finalizers().map(str::to_owned).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        definition.put(&["metadata", "finalizers"], finalizers);
    }
}
