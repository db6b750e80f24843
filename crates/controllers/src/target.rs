//! Which object an effect is meant for, and the effects that many controllers share.

use brain::{Action, Object, Patch, Propagation, Resource};
use serde_json::{Value, json};
use store::Revision;

/// One object as it was seen: its identity and revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The revision that last wrote it.
    pub revision: Revision,
}

impl Target {
    /// The object as seen.
    pub fn of(object: &Object) -> Target {
        let meta = object.meta();
        Target {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            revision: object.revision(),
        }
    }

    /// A merge patch that is refused unless the object is still as it was seen.
    pub fn merge_guarded(&self, resource: Resource, subresource: &'static str, mut patch: Value) -> Action {
        patch["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.patch(resource, subresource, Patch::Merge(patch))
    }

    fn patch(&self, resource: Resource, subresource: &'static str, patch: Patch) -> Action {
        Action::Patch {
            resource,
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            patch,
        }
    }

    /// Writes the object's finalizers, if it is still as it was seen.
    pub fn set_finalizers(&self, resource: Resource, finalizers: &[String]) -> Action {
        let finalizers = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
        self.merge_guarded(resource, "", json!({"metadata": {"finalizers": finalizers}}))
    }

    /// Deletes the object with this uid.
    pub fn delete(&self, resource: Resource, propagation: Option<Propagation>) -> Action {
        self.deletion(resource, None, propagation, None)
    }

    /// Deletes the object if it is still as it was seen.
    pub fn delete_guarded(&self, resource: Resource, propagation: Option<Propagation>) -> Action {
        self.deletion(resource, Some(self.revision), propagation, None)
    }

    /// Deletes the object with this uid, without grace.
    pub fn delete_now(&self, resource: Resource) -> Action {
        self.deletion(resource, None, None, Some(0))
    }

    fn deletion(
        &self,
        resource: Resource,
        revision: Option<Revision>,
        propagation: Option<Propagation>,
        grace_seconds: Option<i64>,
    ) -> Action {
        Action::Delete {
            resource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            revision,
            propagation,
            grace_seconds,
        }
    }
}

/// The object's finalizers without one.
pub(crate) fn finalizers_without(object: &Object, finalizer: &str) -> Vec<String> {
    object.meta().finalizers.iter().filter(|f| &***f != finalizer).map(|f| f.to_string()).collect()
}

/// The object's finalizers and one more.
pub(crate) fn finalizers_with(object: &Object, finalizer: &str) -> Vec<String> {
    let mut all = finalizers_without(object, finalizer);
    all.push(finalizer.to_owned());
    all
}

/// Whether the object has the finalizer.
pub(crate) fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.meta().finalizers.iter().any(|f| &**f == finalizer)
}

/// Replaces the object's status, if it is still as it was seen (`metadata.resourceVersion` in the tree).
pub(crate) fn write_status(resource: Resource, mut object: Value, status: Value) -> Action {
    object["status"] = status;
    Action::Update { resource, subresource: "status", object }
}
