//! ControllerRevisions: the templates that a StatefulSet or DaemonSet had, each an object of its own.
//!
//! The newest one is the current template. A template that comes back is not stored twice: its revision becomes the
//! newest again. Ones that no pod needs go beyond a limit, the oldest first.

use std::collections::BTreeSet;

use brain::{Action, Resource, View};
use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use crate::claim::{Owner, Transfer, claim};
use crate::target::Target;
use crate::template_hash::template_hash;

/// Where ControllerRevisions are served.
pub(crate) const REVISIONS: Resource = Resource::new("apps", "v1", "controllerrevisions");
/// Where ControllerRevisions are stored.
pub(crate) const COLLECTION: &str = "apps/controllerrevisions";
/// The label by which pods name their revision.
pub(crate) const POD_LABEL: &str = "controller-revision-hash";

/// One revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Revision {
    pub target: Target,
    pub created: Time,
    /// The larger, the newer.
    pub number: i64,
    pub data: Value,
    /// What the pods of a DaemonSet have in their label.
    pub hash: String,
}

/// The revisions of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The oldest first.
    pub revisions: Vec<Revision>,
    pub transfers: Vec<Transfer>,
    /// The name that a new revision would get belongs to something else.
    pub name_taken: bool,
}

/// What a revision stores of a template: a patch that brings it back.
pub(crate) fn data(template: &Value) -> Value {
    let mut template = template.clone();
    template.put(&["$patch"], "replace");
    json!({"spec": {"template": template}})
}

/// The template that a revision stores.
pub(crate) fn template(data: &Value) -> Value {
    let mut template = data.at(&["spec", "template"]).cloned().unwrap_or_default();
    template.remove(&["$patch"]);
    template
}

/// Hash and name of a new revision.
pub(crate) fn name(owner: &Owner, data: &Value, collisions: i64) -> (String, String) {
    /// A name has 253 characters; the hash and its dash need up to eleven, and upstream leaves some more.
    const PREFIX_MAX: usize = 223;
    let hash = template_hash(data, collisions);
    let prefix: String = owner.target.name.chars().take(PREFIX_MAX).collect();
    let name = format!("{prefix}-{hash}");
    (hash, name)
}

impl History {
    /// Those of `owner`; `new_name` is what a new one would be called.
    pub fn observe(view: &View, owner: &Owner, selector: &Selector, hash_label: &str, new_name: &str) -> History {
        let claimed = claim(view, COLLECTION, owner, selector, |_| true);
        let read = |object: &brain::Object| {
            let tree = object.tree();
            Revision {
                target: Target::of(object),
                created: object.meta().creation_timestamp,
                number: tree.int(&["revision"]).unwrap_or(0),
                data: tree.get("data").cloned().unwrap_or_default(),
                hash: tree.label(hash_label).unwrap_or_default().to_owned(),
            }
        };
        let mut revisions: Vec<Revision> = claimed.mine.iter().map(read).collect();
        revisions.sort_by(|a, b| (a.number, a.created, &a.target.name).cmp(&(b.number, b.created, &b.target.name)));
        let name_taken = view.get(COLLECTION, &owner.target.namespace, new_name).is_some();
        History { revisions, transfers: claimed.transfers, name_taken }
    }

    /// The newest revision with this data.
    pub fn find(&self, data: &Value) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.data == *data)
    }

    /// The number of the next revision.
    pub fn next_number(&self) -> i64 {
        self.revisions.last().map_or(0, |newest| newest.number).saturating_add(1)
    }

    /// The number that `revision`, which is the current one, must get because newer ones stand behind it.
    pub fn raised(&self, revision: &Revision) -> Option<i64> {
        let newest = self.revisions.last()?;
        (newest.data != revision.data).then(|| self.next_number())
    }

    /// The revisions beyond `limit` that are not among the names in use, the oldest first.
    pub fn surplus(&self, in_use: &BTreeSet<&str>, limit: usize) -> Vec<Target> {
        let unused: Vec<&Revision> =
            self.revisions.iter().filter(|revision| !in_use.contains(&*revision.target.name)).collect();
        let surplus = unused.len().saturating_sub(limit);
        unused.into_iter().take(surplus).map(|revision| revision.target.clone()).collect()
    }
}

/// A new revision.
pub(crate) fn object(owner: &Owner, name: &str, labels: Value, annotations: Value, data: Value, number: i64) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": owner.target.namespace, "labels": labels,
            "ownerReferences": [owner.reference()]},
        "data": data, "revision": number,
    });
    if annotations.as_object().is_some_and(|map| !map.is_empty()) {
        object.put(&["metadata", "annotations"], annotations);
    }
    object
}

/// Makes a revision the newest again.
pub(crate) fn raise(target: Target, number: i64) -> Action {
    target.merge_guarded(REVISIONS, "", json!({"revision": number}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_brings_the_template_back() {
        let written = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}});
        let stored = data(&written);
        assert_eq!(stored["spec"]["template"]["$patch"], "replace");
        assert_eq!(template(&stored), written);
    }

    #[test]
    fn a_template_that_comes_back_becomes_the_newest() {
        let revision = |name: &str, number: i64| Revision {
            target: Target { name: name.into(), ..Target::default() },
            number,
            data: json!(name),
            ..Revision::default()
        };
        let history =
            History { revisions: vec![revision("a", 1), revision("b", 2), revision("c", 3)], ..History::default() };
        let raised = |name: &str| history.find(&json!(name)).map(|found| history.raised(found));
        assert_eq!((raised("c"), raised("a"), raised("d")), (Some(None), Some(Some(4)), None));
        let names = |limit, used: &[&str]| -> Vec<String> {
            history.surplus(&used.iter().copied().collect(), limit).into_iter().map(|target| target.name).collect()
        };
        assert_eq!(names(1, &["c"]), ["a"]);
        assert_eq!(names(0, &["a", "c"]), ["b"]);
        assert_eq!(names(10, &[]), Vec::<String>::new());
    }
}
