//! Effects, as a brain asks for them and any hands perform them: one API request each.

use serde_json::Value;
use store::{Key, Revision};

/// Where a kind of object is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// API group; empty for the legacy group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural.
    pub plural: &'static str,
}

impl Resource {
    /// From its parts.
    pub const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Resource {
        Resource { group, version, plural }
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
            Action::Evict { .. } => "evict",
            Action::Bind { .. } => "bind",
        }
    }
}

/// The key of an object in a collection: `namespace/name`, or the name alone.
pub fn key(collection: &str, namespace: &str, name: &str) -> Key {
    if namespace.is_empty() { Key::new(collection, name) } else { Key::new(collection, format!("{namespace}/{name}")) }
}
