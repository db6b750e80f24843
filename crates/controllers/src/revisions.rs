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
    /// The label of revisions that holds their hash.
    hash_label: &'static str,
    /// The name that a new revision would get belongs to something else.
    pub name_taken: bool,
}

/// What is done about revisions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Changes a revision's owner.
    Transfer(Transfer),
    /// Stores the current template.
    Create(Value),
    /// Makes an older template the current one again.
    Raise(Target, i64),
    /// Forgets a template.
    Delete(Target),
}

/// The revision of the current template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Current {
    /// It stands, or does so after a step.
    Stands {
        /// Its hash.
        hash: String,
        /// Its name.
        name: String,
        /// What it needs.
        step: Option<Step>,
    },
    /// The name that it would get belongs to something else.
    NameTaken(String),
    /// Whose it would be is being deleted.
    Over,
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
    pub fn observe(
        view: &View,
        owner: &Owner,
        selector: &Selector,
        hash_label: &'static str,
        new_name: &str,
    ) -> History {
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
        History { revisions, transfers: claimed.transfers, hash_label, name_taken }
    }

    /// The revision with this data; a new one gets these annotations.
    pub fn current(&self, owner: &Owner, data: &Value, annotations: &Value, collisions: i64) -> Current {
        if let Some(found) = self.find(data) {
            let step = self.raised(found).map(|number| Step::Raise(found.target.clone(), number));
            return Current::Stands { hash: found.hash.clone(), name: found.target.name.clone(), step };
        }
        // The collector takes the history of a set that is being deleted; making it anew would never end.
        if owner.deleting {
            return Current::Over;
        }
        let (hash, name) = name(owner, data, collisions);
        if self.name_taken {
            return Current::NameTaken(name);
        }
        let mut labels = data.at(&["spec", "template", "metadata", "labels"]).cloned().unwrap_or_default();
        labels.put(&[self.hash_label], &*hash);
        let object = object(owner, &name, labels, annotations.clone(), data.clone(), self.next_number());
        Current::Stands { hash, name, step: Some(Step::Create(object)) }
    }

    /// The newest revision with this data.
    fn find(&self, data: &Value) -> Option<&Revision> {
        self.revisions.iter().rev().find(|revision| revision.data == *data)
    }

    /// The number of the next revision.
    fn next_number(&self) -> i64 {
        self.revisions.last().map_or(0, |newest| newest.number).saturating_add(1)
    }

    /// The number that `revision`, which is the current one, must get because newer ones stand behind it.
    fn raised(&self, revision: &Revision) -> Option<i64> {
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
fn object(owner: &Owner, name: &str, labels: Value, annotations: Value, data: Value, number: i64) -> Value {
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

impl Step {
    pub fn perform(self, namespace: String) -> Action {
        match self {
            Step::Transfer(transfer) => transfer.perform(REVISIONS),
            Step::Create(object) => Action::Create { resource: REVISIONS, namespace, object },
            Step::Raise(target, number) => target.merge_guarded(REVISIONS, "", json!({"revision": number})),
            Step::Delete(target) => target.delete_guarded(REVISIONS, None),
        }
    }
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
