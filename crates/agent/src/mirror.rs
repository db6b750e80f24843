//! Mirror pods: what the API shows of pods that a node runs by itself. Level, not edge: what is to be done follows from
//! the pod that runs and from what the API shows under its name. Who changes or deletes a mirror changes nothing of
//! the pod; the mirror is made anew.

use meta::ObjectExt;
use serde_json::{Value, json};

use crate::pod::status_difference;
use crate::static_pod::HASH;

/// On a mirror: the hash of what it mirrors.
pub const MIRROR: &str = admit::pod_refs::MIRROR_ANNOTATION;

/// One effect on the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Makes the mirror.
    Create(Value),
    /// Removes the mirror of this uid at once.
    Remove {
        /// The mirror's own.
        uid: String,
    },
    /// Writes a strategic merge patch of the status of the mirror of this uid.
    Report {
        /// The mirror's own.
        uid: String,
        /// `{"status": {...}}`.
        patch: Value,
    },
}

/// What to do next so that the API shows `pod` (`None`: nothing is to run under this name). `shown` is what it shows
/// under that name, `node` the Node.
pub fn next(pod: Option<&Value>, shown: Option<&Value>, node: &Value) -> Option<Act> {
    match (pod, shown) {
        (None, None) => None,
        (Some(pod), None) => Some(Act::Create(of(pod, node))),
        // Somebody else's: nothing to be done about it.
        (_, Some(shown)) if shown.annotation(MIRROR).is_none() => None,
        (Some(pod), Some(shown)) if mirrors(shown, pod) && !shown.is_deleting() => {
            let patch = status_difference(&shown["status"], &pod["status"])?;
            Some(Act::Report { uid: shown.uid().to_owned(), patch: json!({ "status": patch }) })
        }
        (_, Some(shown)) => Some(Act::Remove { uid: shown.uid().to_owned() }),
    }
}

/// Whether `shown` is the mirror of `pod`.
pub fn mirrors(shown: &Value, pod: &Value) -> bool {
    shown.annotation(MIRROR).is_some_and(|hash| Some(hash) == pod.annotation(HASH))
}

/// The mirror of `pod`.
fn of(pod: &Value, node: &Value) -> Value {
    let mut mirror = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod.name(), "namespace": pod.namespace(),
            "annotations": pod.map(&["metadata", "annotations"]),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid(), "controller": true,
            }],
        },
        "spec": pod["spec"],
    });
    if let Some(labels) = pod.map(&["metadata", "labels"]) {
        mirror.put(&["metadata", "labels"], labels.clone());
    }
    mirror.put(&["metadata", "annotations", MIRROR], pod.annotation(HASH).unwrap_or_default());
    mirror
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(hash: &str, phase: &str) -> Value {
        json!({
            "metadata": {"name": "p-n", "namespace": "d", "uid": hash, "labels": {"a": "b"},
                "annotations": {HASH: hash, "kubernetes.io/config.source": "file"}},
            "spec": {"nodeName": "n"}, "status": {"phase": phase},
        })
    }

    fn mirror(hash: &str, phase: &str) -> Value {
        let mut mirror = pod(hash, phase);
        mirror.put(&["metadata", "uid"], "m");
        mirror.put(&["metadata", "annotations", MIRROR], hash);
        mirror
    }

    #[test]
    fn what_is_to_be_done() {
        let node = json!({"metadata": {"name": "n", "uid": "nu"}});
        let check = |pod: Option<Value>, shown: Option<Value>, expected: &str| {
            let act = next(pod.as_ref(), shown.as_ref(), &node);
            let found = match &act {
                None => "nothing".to_owned(),
                Some(Act::Create(_)) => "create".to_owned(),
                Some(Act::Remove { uid }) => format!("remove {uid}"),
                Some(Act::Report { uid, patch }) => format!("report {uid} {patch}"),
            };
            assert_eq!(found, expected, "{pod:?} {shown:?}");
        };
        let deleting = |mut pod: Value| {
            pod.put(&["metadata", "deletionTimestamp"], "2026-11-30T00:00:00Z");
            pod
        };
        let other = json!({"metadata": {"name": "p-n", "uid": "x"}});
        check(None, None, "nothing");
        check(Some(pod("h", "Running")), None, "create");
        check(Some(pod("h", "Running")), Some(mirror("h", "Running")), "nothing");
        check(Some(pod("h", "Running")), Some(mirror("h", "Pending")), r#"report m {"status":{"phase":"Running"}}"#);
        check(Some(pod("new", "Running")), Some(mirror("old", "Running")), "remove m");
        check(Some(pod("h", "Running")), Some(deleting(mirror("h", "Running"))), "remove m");
        check(None, Some(mirror("h", "Running")), "remove m");
        check(Some(pod("h", "Running")), Some(other.clone()), "nothing");
        check(None, Some(other), "nothing");
    }

    #[test]
    fn a_mirror_belongs_to_its_node() {
        let node = json!({"metadata": {"name": "n", "uid": "nu"}});
        let Some(Act::Create(made)) = next(Some(&pod("h", "Running")), None, &node) else { panic!("none") };
        assert_eq!((made.uid(), made.name(), made.annotation(MIRROR)), ("", "p-n", Some("h")));
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "nu", "controller": true}]);
        assert_eq!(made["metadata"]["ownerReferences"], owner);
        assert_eq!((made.label("a"), made.get("status")), (Some("b"), None));
        assert!(mirrors(&made, &pod("h", "")) && !mirrors(&made, &pod("i", "")));
    }
}
