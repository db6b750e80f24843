//! How endpoints are spread over EndpointSlices with little change: what stands in a slice stays there, what is new goes
//! where something changes anyway, then where there is room, then into new slices.

use std::collections::BTreeMap;

use brain::{Action, Object, Resource, View, child_name, fingerprint};
use meta::ObjectExt;
use serde_json::{Map, Value, json};

use crate::target::Target;

/// Where slices are stored.
pub(crate) const COLLECTION: &str = "discovery.k8s.io/endpointslices";
const SLICES: Resource = Resource::new("discovery.k8s.io", "v1", "endpointslices");
/// Names the Service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Names the controller of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Endpoints in one slice, upstream's default: a change rewrites at most this many.
pub(crate) const ENDPOINTS_MAX: usize = 100;

/// Endpoints of one family on the same ports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub family: &'static str,
    pub ports: Value,
    /// By identity: the pod's uid, or the address.
    pub endpoints: BTreeMap<String, Value>,
}

/// Whose slices these are, and what all of them carry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parent {
    pub namespace: String,
    /// The Service's name.
    pub name: String,
    pub uid: String,
    pub reference: Value,
    pub labels: Map<String, Value>,
    pub annotations: Map<String, Value>,
}

/// A slice that stands there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub target: Target,
    pub object: Value,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Create(Value),
    Update(Value),
    Delete(Target),
}

impl Change {
    /// As an API request.
    pub fn perform(self) -> Action {
        match self {
            Change::Create(object) => {
                Action::Create { resource: SLICES, namespace: object.namespace().to_owned(), object }
            }
            Change::Update(object) => Action::Update { resource: SLICES, subresource: "", object },
            Change::Delete(target) => target.delete_guarded(SLICES, None),
        }
    }
}

/// The slices of a Service that one controller manages and that are not being deleted, in order of name.
pub(crate) fn existing(view: &View, namespace: &str, service: &str, manager: &str) -> Vec<Slice> {
    let label = |object: &Object, key: &str, value: &str| object.meta().labels.get(key).is_some_and(|v| &**v == value);
    let is_ours = |object: &Object| {
        label(object, SERVICE_NAME, service) && label(object, MANAGED_BY, manager) && !object.meta().is_deleting()
    };
    let slices = view.list(COLLECTION, namespace).into_iter().filter(is_ours);
    slices.map(|object| Slice { target: Target::of(&object), object: object.tree() }).collect()
}

/// The writes that make the slices hold exactly the groups: updates, then creations, then deletions, so that no
/// endpoint is missing in between.
pub(crate) fn plan(parent: &Parent, groups: &[Group], existing: &[Slice]) -> Vec<Change> {
    let mut drafts: Vec<Draft> =
        existing.iter().map(|slice| Draft { slice: Some(slice), ..Draft::default() }).collect();
    for group in groups {
        spread(group, &mut drafts);
    }
    let seen = fingerprint(existing.iter().map(|slice| &*slice.target.uid));
    let (mut updates, mut creations, mut deletions) = (Vec::new(), Vec::new(), Vec::new());
    for draft in &drafts {
        match (draft.slice, draft.group) {
            (Some(slice), None) => deletions.push(Change::Delete(slice.target.clone())),
            (Some(slice), Some(group)) => {
                let object = draft.object(parent, group, slice.object.clone());
                updates.extend((object != slice.object).then_some(Change::Update(object)));
            }
            (None, Some(group)) => {
                let counter = creations.len().to_string();
                let name = child_name(&format!("{}-", parent.name), [&*parent.uid, &*seen, &*counter]);
                let fresh = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "addressType": group.family, "metadata": {"name": name, "namespace": parent.namespace,
                        "generateName": format!("{}-", parent.name)}});
                creations.push(Change::Create(draft.object(parent, group, fresh)));
            }
            (None, None) => {}
        }
    }
    updates.into_iter().chain(creations).chain(deletions).collect()
}

/// A slice as it shall be.
#[derive(Default)]
struct Draft<'p> {
    slice: Option<&'p Slice>,
    /// `None`: nothing is left in it.
    group: Option<&'p Group>,
    endpoints: Vec<&'p Value>,
    is_changed: bool,
}

impl Draft<'_> {
    fn object(&self, parent: &Parent, group: &Group, mut object: Value) -> Value {
        object.put(&["endpoints"], self.endpoints.iter().map(|e| (*e).clone()).collect::<Vec<_>>());
        object.put(&["ports"], group.ports.clone());
        object.put(&["metadata", "labels"], parent.labels.clone());
        object.put(&["metadata", "ownerReferences"], json!([parent.reference]));
        match parent.annotations.is_empty() {
            true => drop(object.remove(&["metadata", "annotations"])),
            false => object.put(&["metadata", "annotations"], parent.annotations.clone()),
        }
        // Absent and empty are the same to every reader, but not to a comparison.
        for field in ["endpoints", "ports"] {
            if object.items(&[field]).is_empty() && self.slice.is_some_and(|s| s.object.items(&[field]).is_empty()) {
                match self.slice.and_then(|slice| slice.object.at(&[field])) {
                    Some(value) => object.put(&[field], value.clone()),
                    None => drop(object.remove(&[field])),
                }
            }
        }
        object
    }
}

fn spread<'p>(group: &'p Group, drafts: &mut Vec<Draft<'p>>) {
    let mut fresh: BTreeMap<&str, &'p Value> = group.endpoints.iter().map(|(key, value)| (&**key, value)).collect();
    for draft in drafts.iter_mut() {
        let Some(slice) = draft.slice.filter(|slice| draft.group.is_none() && is_of(slice, group)) else { continue };
        let stood = slice.object.items(&["endpoints"]);
        let kept = stood.iter().filter_map(|endpoint| fresh.remove(&*identity(endpoint))).take(ENDPOINTS_MAX);
        draft.endpoints = kept.collect();
        draft.is_changed = draft.endpoints.iter().copied().ne(stood.iter());
        // An empty slice is kept only when there is nothing else to hold the group.
        draft.group = (!draft.endpoints.is_empty()).then_some(group);
    }
    let mut fresh: Vec<&Value> = fresh.into_values().collect();
    fill(group, &mut fresh, drafts, |draft| draft.is_changed);
    if !fresh.is_empty() && fresh.len() < ENDPOINTS_MAX {
        let needed = fresh.len();
        fill(group, &mut fresh, drafts, |draft| draft.endpoints.len() + needed <= ENDPOINTS_MAX);
    }
    reuse_empty(group, &mut fresh, drafts);
    while !fresh.is_empty() {
        let endpoints = take(&mut fresh, ENDPOINTS_MAX);
        drafts.push(Draft { slice: None, group: Some(group), endpoints, is_changed: true });
    }
    let has_slice = drafts.iter().any(|draft| draft.group.is_some_and(|held| std::ptr::eq(held, group)));
    if !has_slice {
        hold_place(group, drafts);
    }
}

fn take<'p>(fresh: &mut Vec<&'p Value>, count: usize) -> Vec<&'p Value> {
    fresh.drain(..count.min(fresh.len())).collect()
}

fn fill<'p>(group: &'p Group, fresh: &mut Vec<&'p Value>, drafts: &mut [Draft<'p>], suits: impl Fn(&Draft) -> bool) {
    let is_ours = |draft: &Draft| draft.group.is_some_and(|held| std::ptr::eq(held, group));
    let mut candidates: Vec<&mut Draft> = drafts.iter_mut().filter(|draft| is_ours(draft) && suits(draft)).collect();
    // The fullest first, so that slices stay few.
    candidates.sort_by_key(|draft| std::cmp::Reverse(draft.endpoints.len()));
    for draft in candidates {
        let room = ENDPOINTS_MAX.saturating_sub(draft.endpoints.len());
        draft.endpoints.extend(take(fresh, room));
        draft.is_changed = true;
    }
}

/// Slices of the group that lost all they had take new endpoints before new slices are made.
fn reuse_empty<'p>(group: &'p Group, fresh: &mut Vec<&'p Value>, drafts: &mut [Draft<'p>]) {
    for draft in drafts.iter_mut().filter(|draft| draft.group.is_none()) {
        if fresh.is_empty() {
            return;
        }
        if draft.slice.is_some_and(|slice| is_of(slice, group) || is_blank(slice, group)) {
            draft.endpoints = take(fresh, ENDPOINTS_MAX);
            draft.group = Some(group);
        }
    }
}

/// An empty group is held by one slice without endpoints.
fn hold_place<'p>(group: &'p Group, drafts: &mut Vec<Draft<'p>>) {
    let is_free = |draft: &&mut Draft| {
        draft.group.is_none() && draft.slice.is_some_and(|s| s.object.text(&["addressType"]) == group.family)
    };
    match drafts.iter_mut().find(is_free) {
        Some(draft) => draft.group = Some(group),
        None => drafts.push(Draft { slice: None, group: Some(group), endpoints: Vec::new(), is_changed: true }),
    }
}

fn is_of(slice: &Slice, group: &Group) -> bool {
    slice.object.text(&["addressType"]) == group.family && slice.object.items(&["ports"]) == group.ports.items(&[])
}

/// A slice that only held the place of its family.
fn is_blank(slice: &Slice, group: &Group) -> bool {
    slice.object.text(&["addressType"]) == group.family && slice.object.items(&["endpoints"]).is_empty()
}

/// What an endpoint is known by.
pub(crate) fn identity(endpoint: &Value) -> String {
    match endpoint.text(&["targetRef", "uid"]) {
        "" => endpoint.items(&["addresses"]).first().and_then(Value::as_str).unwrap_or("").to_owned(),
        uid => uid.to_owned(),
    }
}
