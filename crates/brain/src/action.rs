//! Effects, as a brain asks for them and any hands perform them: one API request each.

use std::borrow::Cow;

use meta::{GroupVersion, ObjectExt};
use serde_json::Value;
use store::{Key, Revision};

/// Where a kind of object is served. Static for the kinds that a brain knows, owned for those it meets (owners and
/// dependents of any kind, custom kinds).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the legacy group.
    pub group: Cow<'static, str>,
    /// Version.
    pub version: Cow<'static, str>,
    /// Plural.
    pub plural: Cow<'static, str>,
}

impl Resource {
    /// The root of a controller that looks after objects of every kind: its keys are of any collection.
    pub const ANY: Resource = Resource::new("*", "*", "*");

    /// From its parts.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
        Resource { group: Cow::Borrowed(group), version: Cow::Borrowed(version), plural: Cow::Borrowed(plural) }
    }

    /// Of a kind that is known by its `apiVersion` and plural only; `None` for a malformed `apiVersion`.
    pub fn found(api_version: &str, plural: &str) -> Option<Resource> {
        let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
        Some(Resource { group: group.into(), version: version.into(), plural: plural.to_owned().into() })
    }

    /// The store's collection: `apps/deployments`; the legacy group is `core`.
    pub fn collection(&self) -> String {
        let group = if self.group.is_empty() { "core" } else { &*self.group };
        format!("{group}/{}", self.plural)
    }
}

/// One effect. Destructive ones carry the uid they mean, and the revision where it matters.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates an object. Its name is chosen by the brain (see [`crate::child_name`]): a repeated create collides
    /// instead of doubling. "Already exists" ends the turn; the next one sees what is there.
    Create {
        /// Where.
        resource: Resource,
        /// The namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// The object, with `metadata.name`.
        object: Value,
    },
    /// Replaces an object; `metadata.resourceVersion` inside guards it.
    Update {
        /// Where.
        resource: Resource,
        /// `status`, `scale`, ... or empty for the object itself.
        subresource: &'static str,
        /// The whole object.
        object: Value,
    },
    /// Patches an object.
    Patch {
        /// Where.
        resource: Resource,
        /// `status` or empty for the object itself.
        subresource: &'static str,
        /// The namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// The object's name.
        name: String,
        /// The uid it must have.
        uid: String,
        /// What to change.
        patch: Patch,
    },
    /// Deletes an object.
    Delete {
        /// Where.
        resource: Resource,
        /// The namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// The object's name.
        name: String,
        /// The uid it must have.
        uid: String,
        /// The revision it must still be at, where the decision depends on more than its identity.
        revision: Option<Revision>,
        /// What happens to its dependents; `None` leaves it to the kind's default.
        propagation: Option<Propagation>,
        /// Grace in seconds; `None` leaves it to the object.
        grace_seconds: Option<i64>,
    },
    /// Deletes every object of a kind in a namespace, in batches until none is left that deletion has not begun for.
    /// For a namespace or kind that itself is being deleted: the finalizer that its controller holds is the guard.
    DeleteCollection {
        /// Where.
        resource: Resource,
        /// The namespace; empty for all namespaces and for cluster-scoped kinds.
        namespace: String,
        /// What happens to dependents; `None` leaves it to the kind's default.
        propagation: Option<Propagation>,
    },
    /// Asks for a pod's eviction: disruption budgets may refuse.
    Evict {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The uid it must have.
        uid: String,
    },
    /// Binds a pod to a node.
    Bind {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
        /// The uid it must have.
        uid: String,
        /// The node's name.
        node: String,
    },
}

/// The body of a patch.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7386. Guarded when it holds `metadata.resourceVersion`.
    Merge(Value),
    /// RFC 6902.
    Json(Value),
    /// Strategic merge.
    Strategic(Value),
    /// Server-side apply, with force: the field manager is the controller.
    Apply(Value),
}

/// What happens to dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They lose the owner reference.
    Orphan,
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
}

impl Action {
    /// The verb as audit, metrics and plans name it.
    pub fn verb(&self) -> &'static str {
        match self {
            Action::Create { .. } => "create",
            Action::Update { .. } => "update",
            Action::Patch { .. } => "patch",
            Action::Delete { .. } => "delete",
            Action::DeleteCollection { .. } => "deletecollection",
            Action::Evict { .. } => "evict",
            Action::Bind { .. } => "bind",
        }
    }

    /// The resource it is about.
    pub fn resource(&self) -> Resource {
        match self {
            Action::Create { resource, .. }
            | Action::Update { resource, .. }
            | Action::Patch { resource, .. }
            | Action::Delete { resource, .. }
            | Action::DeleteCollection { resource, .. } => resource.clone(),
            Action::Evict { .. } | Action::Bind { .. } => Resource::new("", "v1", "pods"),
        }
    }

    /// The name of the object it is about; empty for a collection.
    pub fn name(&self) -> &str {
        match self {
            Action::Create { object, .. } | Action::Update { object, .. } => object.name(),
            Action::Patch { name, .. }
            | Action::Delete { name, .. }
            | Action::Evict { name, .. }
            | Action::Bind { name, .. } => name,
            Action::DeleteCollection { .. } => "",
        }
    }
}

/// The key of an object in a collection: `namespace/name`, or the name alone.
pub fn key(collection: &str, namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { Key::new(collection, name) } else { Key::new(collection, format!("{namespace}/{name}")) }
}
