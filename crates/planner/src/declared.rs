//! The declared objects as requests, in the order in which they need one another.

use std::sync::Arc;

use admit::UserInfo;
use api::route::Address;
use api::{Asked, Body};
use bytes::Bytes;
use kinds::{Catalog, KindDef, ScalePaths, apply_order};
use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};
use store::Key;
use view::View;

use crate::change::{Action, Change, Kept, Reference};
use crate::redact;
use crate::settle::Troupe;

/// On a live object: neither plan nor apply deletes or replaces it. It outlives the manifest that set it.
pub const GUARD: &str = "setpoint.dev/prevent-destroy";
const AUTOSCALERS: &str = "autoscaling/horizontalpodautoscalers";
const JSON: &str = "application/json";

/// What is declared, by whom.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The objects, as their manifests say them.
    pub objects: Vec<Value>,
    /// Objects to be put in the place of live ones as they are, whoever owns their fields: what undo does.
    pub updates: Vec<Value>,
    /// What was declared before and is no more.
    pub deletions: Vec<Reference>,
    /// Who asks. The plan shows nothing that this user may not read.
    pub user: Arc<UserInfo>,
    /// Field manager.
    pub manager: String,
    /// Take fields from other managers.
    pub force: bool,
    /// Delete and make anew what cannot be changed in place.
    pub replace: bool,
}

/// One declared object with its place.
struct Placed {
    kind: Arc<KindDef>,
    object: Value,
    key: Key,
    path: String,
}

/// Sends every request of the wish to the troupe's fork and tells what each did, in the order in which it happens.
pub(crate) fn perform(troupe: &mut Troupe, wish: &Wish) -> Vec<(Option<Key>, Change)> {
    let mut told = Vec::new();
    let order = order(&troupe.fork.catalog(), &wish.objects);
    let mut last = 0;
    for (rank, object) in order {
        // Definitions must be established and namespaces furnished before what needs them.
        if last <= apply_order::NAMESPACE && rank > last {
            troupe.run_due();
        }
        last = rank;
        told.push(apply(troupe, wish, object));
    }
    for object in &wish.updates {
        told.push(update(troupe, wish, object));
    }
    let mut deletions: Vec<(u16, &Reference)> = wish
        .deletions
        .iter()
        .map(|gone| (rank_of(&troupe.fork.catalog(), &gone.api_version, &gone.kind), gone))
        .collect();
    deletions.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
    for (_, gone) in deletions {
        told.push(delete(troupe, wish, gone));
    }
    told
}

/// The objects with their ranks, those first that others need. Objects of one rank keep their order.
fn order<'o>(catalog: &Catalog, objects: &'o [Value]) -> Vec<(u16, &'o Value)> {
    let rank = |object: &'o Value| (rank_of(catalog, object.text(&["apiVersion"]), object.text(&["kind"])), object);
    let mut ordered: Vec<(u16, &Value)> = objects.iter().map(rank).collect();
    ordered.sort_by_key(|(rank, _)| *rank);
    ordered
}

fn rank_of(catalog: &Catalog, api_version: &str, kind: &str) -> u16 {
    let gvk = json!({"apiVersion": api_version, "kind": kind}).gvk();
    gvk.and_then(|gvk| catalog.kind(&gvk).map(|kind| kind.apply_order)).unwrap_or(apply_order::WORKLOAD)
}

fn apply(troupe: &mut Troupe, wish: &Wish, object: &Value) -> (Option<Key>, Change) {
    let (placed, before, mut change) = match found(troupe, wish, object) {
        Ok(found) => found,
        Err(refused) => return (None, *refused),
    };
    let mut config = placed.object.clone();
    if let Some(before) = &before {
        keep_what_is_scaled(troupe.view(), &placed, before, &mut config, &mut change);
    }
    match send(troupe, wish, &placed, &config) {
        Ok(warnings) => {
            change.warnings = warnings;
            let after = read(troupe, wish, &placed).ok().flatten();
            change.tell(&placed.kind, before.as_ref(), after.as_ref());
            change.action = match &before {
                None => Action::Create,
                Some(_) if change.fields.is_empty() => Action::Keep,
                Some(_) => Action::Update,
            };
        }
        Err(error) => match before {
            Some(before) if is_immutable(&error) => replace(troupe, wish, &placed, &before, &mut change, &error),
            _ => change = refuse(change, &placed, &error),
        },
    }
    (Some(placed.key), change)
}

/// Puts a whole object in the place of a live one.
fn update(troupe: &mut Troupe, wish: &Wish, object: &Value) -> (Option<Key>, Change) {
    let (placed, before, mut change) = match found(troupe, wish, object) {
        Ok(found) => found,
        Err(refused) => return (None, *refused),
    };
    let Some(before) = before else {
        change.reason = "it is not there".to_owned();
        return (None, change);
    };
    let path = format!("{}?fieldManager={}", placed.path, wish.manager);
    let body = serde_json::to_vec(&placed.object).unwrap_or_default().into();
    let asked = asked(wish, "PUT", &path, JSON, body);
    match troupe.fork.ask(&asked) {
        Ok((_, warnings)) => {
            change.warnings = warnings;
            let after = read(troupe, wish, &placed).ok().flatten();
            change.tell(&placed.kind, Some(&before), after.as_ref());
            change.action = if change.fields.is_empty() { Action::Keep } else { Action::Update };
        }
        Err(error) => change = refuse(change, &placed, &error),
    }
    (Some(placed.key), change)
}

/// Where an object is meant to be, what stands there, and the change about it, which is refused until it is known to
/// be something else. The error is the refused change of an object that has no place or may not be read.
fn found(troupe: &mut Troupe, wish: &Wish, object: &Value) -> Result<(Placed, Option<Value>, Change), Box<Change>> {
    let mut change = Change::new(Action::Refuse, Reference::of(object));
    let placed = match place(&troupe.fork.catalog(), object) {
        Ok(placed) => placed,
        Err(why) => return Err(Box::new(Change { reason: why, ..change })),
    };
    change.object.namespace = placed.object.namespace().to_owned();
    match read(troupe, wish, &placed) {
        Ok(before) => Ok((placed, before, change)),
        Err(error) => Err(Box::new(refuse(change, &placed, &error))),
    }
}

/// Where an object is served; the sentence says why nowhere.
fn place(catalog: &Catalog, object: &Value) -> Result<Placed, String> {
    let (api_version, kind) = (object.text(&["apiVersion"]), object.text(&["kind"]));
    let found = object.gvk().and_then(|gvk| catalog.kind(&gvk).cloned());
    let kind = found.ok_or_else(|| format!("no matches for kind {kind:?} in version {api_version:?}"))?;
    if object.name().is_empty() {
        return Err("a declared object needs metadata.name; generateName makes a new one every time".to_owned());
    }
    if kind.virtual_only {
        return Err(format!("{} is a question, not an object: it cannot be declared", kind.kind));
    }
    let mut object = object.clone();
    // Status is observed, never declared.
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if kind.is_namespaced() && object.namespace().is_empty() {
        object.put(&["metadata", "namespace"], "default");
    } else if !kind.is_namespaced() {
        object.remove(&["metadata", "namespace"]);
    }
    let gvr = kind.gvr();
    let address = Address {
        group: gvr.group.to_string(),
        version: gvr.version.to_string(),
        resource: gvr.resource.to_string(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        ..Address::default()
    };
    let key = brain::key(&kind.collection(), object.namespace(), object.name());
    Ok(Placed { path: address.path(), kind, object, key })
}

/// The object as its user may read it; `None` when there is none.
fn read(troupe: &mut Troupe, wish: &Wish, placed: &Placed) -> Result<Option<Value>, ApiError> {
    let asked = asked(wish, "GET", &placed.path, JSON, Bytes::new());
    match troupe.fork.ask(&asked) {
        Ok((answer, _)) => Ok(Some(at_version(&placed.kind, answer.body))),
        Err(error) if error.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The tree of an answer, in the version that was asked for.
fn at_version(kind: &KindDef, body: Body) -> Value {
    match body {
        Body::Entry(entry) => {
            let mut tree = meta::stored::read(&entry.value).unwrap_or_default();
            if let Some(conversion) = &kind.conversion {
                (conversion.from_hub)(&mut tree);
            }
            tree
        }
        Body::Tree(tree) => tree,
        Body::Raw(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Body::List(_) | Body::Watch(_) => Value::Null,
    }
}

fn send(troupe: &mut Troupe, wish: &Wish, placed: &Placed, config: &Value) -> Result<Vec<String>, ApiError> {
    let force = if wish.force { "&force=true" } else { "" };
    let path = format!("{}?fieldManager={}&fieldValidation=Strict{force}", placed.path, wish.manager);
    let body = serde_json::to_vec(config).unwrap_or_default().into();
    let asked = asked(wish, "PATCH", &path, "application/apply-patch+yaml", body);
    troupe.fork.ask(&asked).map(|(_, warnings)| warnings)
}

fn asked<'a>(wish: &'a Wish, method: &'a str, path: &'a str, content_type: &'a str, body: Bytes) -> Asked<'a> {
    Asked { user: &wish.user, agent: &wish.manager, method, path, content_type, body }
}

fn refuse(mut change: Change, placed: &Placed, error: &ApiError) -> Change {
    change.action = Action::Refuse;
    change.reason = redact::sentence(&placed.kind, &placed.object, error.message.clone());
    change
}

/// Whether all that is wrong is that something cannot be changed in place.
fn is_immutable(error: &ApiError) -> bool {
    let causes = error.details.as_ref().map_or(&[][..], |details| &details.causes[..]);
    error.code == 422 && !causes.is_empty() && causes.iter().all(|cause| cause.message.contains("immutable"))
}

/// Deletes an object and makes it again, if that was asked for and nothing guards it.
fn replace(troupe: &mut Troupe, wish: &Wish, placed: &Placed, before: &Value, change: &mut Change, error: &ApiError) {
    change.uid = before.uid().to_owned();
    change.resource_version = before.text(&["metadata", "resourceVersion"]).to_owned();
    if !wish.replace || is_guarded(before) {
        let why = redact::sentence(&placed.kind, &placed.object, error.message.clone());
        change.reason = match is_guarded(before) {
            true => format!("{why}; it would have to be replaced, which its annotation {GUARD} forbids"),
            false => format!("{why}; it would have to be replaced, which has to be asked for"),
        };
        return;
    }
    if let Err(error) = remove(troupe, wish, &placed.path, before.uid()) {
        change.reason = error.message;
        return;
    }
    troupe.run_to_rest(&|view| view.get_key(&placed.key).is_none());
    match send(troupe, wish, placed, &placed.object) {
        Ok(warnings) => {
            change.warnings = warnings;
            let after = read(troupe, wish, placed).ok().flatten();
            change.tell(&placed.kind, Some(before), after.as_ref());
            change.action = Action::Replace;
            let causes = error.details.as_ref().map_or(&[][..], |details| &details.causes[..]);
            for field in &mut change.fields {
                field.forces_replacement = causes.iter().any(|cause| field.path.starts_with(&*cause.field));
            }
        }
        Err(error) => change.reason = redact::sentence(&placed.kind, &placed.object, error.message),
    }
}

fn is_guarded(object: &Value) -> bool {
    object.annotation(GUARD) == Some("true")
}

fn delete(troupe: &mut Troupe, wish: &Wish, gone: &Reference) -> (Option<Key>, Change) {
    let (placed, before, mut change) = match found(troupe, wish, &gone.manifest()) {
        Ok(found) => found,
        Err(refused) => return (None, *refused),
    };
    let Some(before) = before else {
        change.action = Action::Keep;
        change.reason = "it is gone already".to_owned();
        return (None, change);
    };
    change.tell(&placed.kind, Some(&before), None);
    if is_guarded(&before) {
        change.reason = format!("it is no longer declared, but its annotation {GUARD} forbids to delete it");
        return (None, change);
    }
    match remove(troupe, wish, &placed.path, before.uid()) {
        Ok(()) => {
            change.action = Action::Delete;
            change.reason = "it is no longer declared".to_owned();
        }
        Err(error) => change = refuse(change, &placed, &error),
    }
    (Some(placed.key), change)
}

fn remove(troupe: &mut Troupe, wish: &Wish, path: &str, uid: &str) -> Result<(), ApiError> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        "preconditions": {"uid": uid}});
    let body = serde_json::to_vec(&options).unwrap_or_default().into();
    let asked = asked(wish, "DELETE", path, JSON, body);
    troupe.fork.ask(&asked).map(|_| ())
}

/// A replica count that an autoscaler looks after stays as it is, whatever the manifest says: it would be changed back.
fn keep_what_is_scaled(view: &View, placed: &Placed, live: &Value, config: &mut Value, change: &mut Change) {
    let Some(ScalePaths { spec, .. }) = &placed.kind.scale else { return };
    let path: Vec<&str> = spec.split('.').collect();
    let (Some(declared), Some(value)) = (config.at(&path).cloned(), live.at(&path).cloned()) else { return };
    if declared == value {
        return;
    }
    let scales = |autoscaler: &Value| {
        let target = |field: &str| autoscaler.text(&["spec", "scaleTargetRef", field]);
        target("kind") == &*placed.kind.kind && target("name") == placed.object.name()
    };
    let autoscalers = view.list(AUTOSCALERS, placed.object.namespace());
    if let Some(autoscaler) = autoscalers.into_iter().map(|object| object.tree()).find(scales) {
        config.put(&path, value.clone());
        let by = format!("HorizontalPodAutoscaler/{}", autoscaler.name());
        change.kept.push(Kept { path: spec.to_string(), declared, value, by });
    }
}
