//! The words of admission: what is being done, in which world, and what has to happen besides.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kinds::Catalog;
use meta::{ApiError, Gvk, ObjectExt, Time};
use serde_json::Value;
use store::{Entry, Key, Revision, Snapshot};

use crate::Attributes;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It comes into being.
    Create,
    /// It changes.
    Update,
    /// It is to go.
    Delete,
    /// Something is connected to it (exec, port-forward, proxy).
    Connect,
}

impl Operation {
    /// As AdmissionReview and policies write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One request on its way in.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    /// Who asks for what. For creates the name may be empty (`generateName`).
    pub attributes: &'r Attributes,
    /// What is done.
    pub operation: Operation,
    /// Kind of what was sent: the object's own, or the subresource's (`Scale`, `Eviction`, `Binding`).
    pub kind: &'r Gvk,
    /// Nothing will be written.
    pub dry_run: bool,
    /// `CreateOptions`, `UpdateOptions`, `PatchOptions` or `DeleteOptions`; null when there are none.
    pub options: &'r Value,
}

/// What admission may look at.
#[derive(Clone, Copy)]
pub struct World<'w> {
    /// The state decided on. What is decided holds only for this state: writes carry preconditions.
    pub snapshot: &'w Snapshot,
    /// The kinds served.
    pub catalog: &'w Catalog,
    /// The time.
    pub now: Time,
    /// Gives five random characters of the name alphabet, for the token volume of a pod.
    pub suffix: &'w dyn Fn() -> String,
    /// Whether the user of these attributes may do what they say: all authorisers at this state.
    pub may: &'w dyn Fn(&Attributes) -> bool,
}

/// A stored object, decoded once per revision.
#[derive(Debug, Default)]
pub struct Tree(Value);

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl Tree {
    fn of(entry: &Entry) -> Arc<Tree> {
        entry.memo(|value| Tree(meta::stored::read(value).unwrap_or_default()))
    }
}

impl World<'_> {
    /// A stored namespace.
    pub fn namespace(&self, name: &str) -> Option<Arc<Tree>> {
        self.shared("core/namespaces", name)
    }

    /// As [`World::read`], for the few objects that nearly every request asks about: what is decoded stays beside the
    /// stored bytes.
    pub fn shared(&self, collection: &str, item: &str) -> Option<Arc<Tree>> {
        self.snapshot.get(collection, item).map(|entry| Tree::of(entry))
    }

    /// As [`World::list`], for collections of which the same holds.
    pub fn list_shared(&self, collection: &str) -> impl Iterator<Item = Arc<Tree>> {
        self.snapshot.items(collection).map(|(_, entry)| Tree::of(entry))
    }

    /// One stored object, by collection (`core/pods`) and item (`namespace/name` or `name`).
    pub fn read(&self, collection: &str, item: &str) -> Option<Value> {
        meta::stored::read(&self.snapshot.get(collection, item)?.value).ok()
    }

    /// One stored object of a namespace.
    pub fn read_in(&self, collection: &str, namespace: &str, name: &str) -> Option<Value> {
        self.read(collection, &format!("{namespace}/{name}"))
    }

    /// The objects of a collection in a namespace (all when it is empty), by name.
    pub fn list(&self, collection: &str, namespace: &str) -> Vec<Value> {
        self.list_with_revision(collection, namespace).into_iter().map(|(_, object)| object).collect()
    }

    /// The same with the revision of each object's last write.
    pub fn list_with_revision(&self, collection: &str, namespace: &str) -> Vec<(Revision, Value)> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let entries = self.snapshot.range(collection, &prefix, "");
        entries.filter_map(|(_, e)| Some((e.modified, meta::stored::read(&e.value).ok()?))).collect()
    }
}

/// A request together with the object before it (updates, deletes).
#[derive(Clone, Copy)]
pub struct Case<'c> {
    /// The request.
    pub request: Request<'c>,
    /// What may be looked at.
    pub world: World<'c>,
    /// The stored object.
    pub old: Option<&'c Value>,
}

impl Case<'_> {
    /// Whether the request is for this resource and subresource.
    pub fn is_for(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.request.attributes.is_for(group, resource, subresource)
    }

    /// Whether the request is for pods themselves.
    pub fn is_for_pods(&self) -> bool {
        self.is_for("", "pods", "")
    }

    /// The namespace of the request.
    pub fn namespace(&self) -> &str {
        &self.request.attributes.namespace
    }

    /// 403 of an admission step: `pods "x" is forbidden: …`.
    pub fn forbids(&self, object: Option<&Value>, why: impl fmt::Display) -> ApiError {
        let attributes = self.request.attributes;
        let metadata = |field: &str| object.map_or("", |object| object.text(&["metadata", field]));
        let names = [attributes.name.as_str(), metadata("name"), metadata("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        ApiError::forbidden(&attributes.group_resource(), name, why)
    }
}

/// What a request brings about beside its own write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// Written in the same transaction; the transaction fails when one of them changed since it was read, and the
    /// request is then admitted anew against a newer state. Nothing is written for dry runs.
    pub writes: Vec<SideWrite>,
    /// `Warning` headers.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub audit: BTreeMap<String, String>,
}

/// Another object that changes together with the request's own.
#[derive(Clone, Debug, PartialEq)]
pub struct SideWrite {
    /// Where it is stored.
    pub key: Key,
    /// Its new tree, `metadata.resourceVersion` still the old one.
    pub object: Value,
    /// The write it was read at: the precondition.
    pub read_at: Revision,
}

impl Effects {
    /// Adds a warning, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
