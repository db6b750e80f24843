//! E7: what each controller may write, whatever it believes. One table; every committed write is held against it.

use store::{Change, Event};

use meta::ObjectExt;
use serde_json::Value;

use super::Author;

/// What one controller may do to the objects of one collection.
struct Right {
    room: &'static str,
    /// `*` for all.
    collection: &'static str,
    create: bool,
    delete: bool,
    /// Fields it may change: the beginning of their paths.
    fields: &'static [&'static str],
}

const fn right(
    room: &'static str,
    collection: &'static str,
    create: bool,
    delete: bool,
    fields: &'static [&'static str],
) -> Right {
    Right { room, collection, create, delete, fields }
}

const OWNERS: &str = "metadata.ownerReferences";
const FINALIZERS: &str = "metadata.finalizers";

const TABLE: &[Right] = &[
    right(
        "deployment",
        "apps/deployments",
        false,
        false,
        &["status", "metadata.annotations.deployment.kubernetes.io/revision"],
    ),
    right(
        "deployment",
        "apps/replicasets",
        true,
        true,
        &[OWNERS, "spec.replicas", "spec.minReadySeconds", "metadata.annotations"],
    ),
    right("replicaset", "apps/replicasets", false, false, &["status"]),
    right("replicaset", "core/pods", true, true, &[OWNERS]),
    right("replication", "core/replicationcontrollers", false, false, &["status"]),
    right("replication", "core/pods", true, true, &[OWNERS]),
    right("statefulset", "apps/statefulsets", false, false, &["status"]),
    right("statefulset", "core/pods", true, true, &[OWNERS, "metadata.labels"]),
    right("statefulset", "core/persistentvolumeclaims", true, false, &[OWNERS]),
    right("statefulset", "apps/controllerrevisions", true, true, &[OWNERS, "revision"]),
    right("daemon-set", "apps/daemonsets", false, false, &["status"]),
    right("daemon-set", "core/pods", true, true, &[OWNERS]),
    right("daemon-set", "apps/controllerrevisions", true, true, &[OWNERS, "revision", "metadata.labels"]),
    right("job", "batch/jobs", false, false, &["status"]),
    right("job", "core/pods", true, true, &[OWNERS, FINALIZERS]),
    right("cronjob", "batch/cronjobs", false, false, &["status"]),
    right("cronjob", "batch/jobs", true, true, &[]),
    right("endpoint", "core/endpoints", true, true, &["subsets", "metadata.labels", "metadata.annotations"]),
    right(
        "endpointslice",
        "discovery.k8s.io/endpointslices",
        true,
        true,
        &["endpoints", "ports", "metadata.labels", "metadata.annotations", OWNERS],
    ),
    right(
        "endpointslicemirroring",
        "discovery.k8s.io/endpointslices",
        true,
        true,
        &["endpoints", "ports", "metadata.labels", "metadata.annotations", OWNERS],
    ),
    right("service-account", "core/serviceaccounts", true, false, &[]),
    right("root-ca-cert-publisher", "core/configmaps", true, false, &["data", "binaryData", "metadata.annotations"]),
    right("namespace", "core/namespaces", false, true, &["status", "spec.finalizers"]),
    right("namespace", "*", false, true, &[]),
    right("crd-naming", "apiextensions.k8s.io/customresourcedefinitions", false, false, &["status"]),
    right("crd-finalizer", "apiextensions.k8s.io/customresourcedefinitions", false, true, &["status", FINALIZERS]),
    right("crd-finalizer", "*", false, true, &[]),
    right("generic-garbage-collector", "*", false, true, &[OWNERS, FINALIZERS]),
    right("disruption", "policy/poddisruptionbudgets", false, false, &["status"]),
    right("disruption", "core/pods", false, false, &["status.conditions"]),
    right("pod-garbage-collector", "core/pods", false, true, &["status"]),
    right("ttl-after-finished", "batch/jobs", false, true, &[]),
    right("node-routes", "core/configmaps", true, false, &["data", "binaryData"]),
    right("node-ipam", "core/nodes", false, false, &["spec.podCIDR", "spec.podCIDRs"]),
    right("node", "coordination.k8s.io/leases", true, false, &[]),
    right("node", "core/nodes", false, false, &["status.conditions", "spec.taints", "metadata.labels"]),
    right("node", "core/pods", false, true, &["status.conditions"]),
    right("clusterrole-aggregation", "rbac.authorization.k8s.io/clusterroles", false, false, &["rules"]),
    right("resourcequota", "core/resourcequotas", false, false, &["status"]),
    right(
        "persistent-volume-binder",
        "core/persistentvolumes",
        false,
        false,
        &["spec.claimRef", "metadata.annotations", "status"],
    ),
    right(
        "persistent-volume-binder",
        "core/persistentvolumeclaims",
        false,
        false,
        &["spec.volumeName", "metadata.annotations", "status"],
    ),
    right(
        "persistent-volume",
        "core/persistentvolumes",
        false,
        false,
        &["spec.claimRef", "metadata.annotations", "status"],
    ),
    right("pvc-protection", "core/persistentvolumeclaims", false, false, &[FINALIZERS]),
    right("pv-protection", "core/persistentvolumes", false, false, &[FINALIZERS]),
    right("volumeattributesclass-protection", "storage.k8s.io/volumeattributesclasses", false, false, &[FINALIZERS]),
    right("taint-eviction", "core/pods", false, true, &["status.conditions"]),
    right("scheduler", "core/pods", false, false, &["spec.nodeName", "status.conditions", "status.nominatedNodeName"]),
    right("simulated-node", "core/nodes", false, false, &["status"]),
    right("simulated-node", "coordination.k8s.io/leases", true, false, &["spec"]),
    right("simulated-node", "core/pods", false, true, &["status"]),
];

/// Fields that change with every write or with the beginning of a deletion.
const ALWAYS: &[&str] = &[
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.deletionTimestamp",
    "metadata.deletionGracePeriodSeconds",
];
/// Collections that anybody may write: what is said about things.
const ANYBODYS: &[&str] = &["core/events", "events.k8s.io/events"];
/// What a controller creates there belongs to somebody, or nobody would ever remove it.
const OWNED: &[&str] =
    &["core/pods", "apps/replicasets", "apps/controllerrevisions", "batch/jobs", "discovery.k8s.io/endpointslices"];
/// How deep fields are told apart.
const DEPTH_MAX: usize = 3;

/// Admission charges quotas in the name of whoever creates.
const CHARGES: Right = right("", "core/resourcequotas", false, false, &["status.used"]);

/// Whether a write is one that its author may make; the error says what it changed.
pub fn check(author: &Author, event: &Event, old: Option<&Value>, new: Option<&Value>) -> Result<(), String> {
    if author.who.starts_with("user") || ANYBODYS.contains(&&*event.key.collection) {
        return Ok(());
    }
    let about = |right: &&Right| {
        author.is(right.room) && (right.collection == "*" || *right.collection == *event.key.collection)
    };
    let charges = (*event.key.collection == *CHARGES.collection).then_some(&CHARGES);
    let rights: Vec<&Right> = TABLE.iter().filter(about).chain(charges).collect();
    let refuse = |what: &str| Err(format!("{} may not {what} {}", author.who, event.key));
    match event.change {
        Change::Created if rights.iter().any(|right| right.create) => {
            let owned = new.is_some_and(has_controller);
            if OWNED.contains(&&*event.key.collection) && !owned { refuse("create without an owner") } else { Ok(()) }
        }
        Change::Created => refuse("create"),
        // A last finalizer taken off removes the object: that is a change of finalizers.
        Change::Deleted if rights.iter().any(|right| right.delete || right.fields.contains(&FINALIZERS)) => Ok(()),
        Change::Deleted => refuse("delete"),
        Change::Modified => {
            let begins = new.is_some_and(Value::is_object)
                && old.is_some_and(|old| !old.is_deleting())
                && new.is_some_and(|new| new.is_deleting());
            if begins && !rights.iter().any(|right| right.delete) {
                return refuse("delete");
            }
            let mut changed = Vec::new();
            changes("", old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), DEPTH_MAX, &mut changed);
            let covers = |path: &String, field: &&str| path.starts_with(*field) || field.starts_with(path.as_str());
            let may = |path: &&String| {
                ALWAYS.iter().any(|field| covers(path, field))
                    || rights.iter().flat_map(|right| right.fields).any(|field| covers(path, field))
                    || (begins && (**path == FINALIZERS || path.starts_with("status")))
            };
            match changed.iter().find(|path| !may(path)) {
                Some(path) => refuse(&format!("change {path} of")),
                None => Ok(()),
            }
        }
    }
}

fn has_controller(object: &Value) -> bool {
    object.items(&["metadata", "ownerReferences"]).iter().any(|owner| owner.flag(&["controller"]))
}

/// The paths of fields that differ, down to a depth.
fn changes(path: &str, old: &Value, new: &Value, depth: usize, into: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old.as_object(), new.as_object()) {
        (Some(old), Some(new)) if depth > 0 => {
            let fields: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for field in fields {
                let (old, new) = (old.get(field).unwrap_or(&Value::Null), new.get(field).unwrap_or(&Value::Null));
                let inner = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                changes(&inner, old, new, depth - 1, into);
            }
        }
        _ => into.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_controller_is_bound_to_something() {
        for controller in controllers::all() {
            assert!(TABLE.iter().any(|right| right.room == controller.def.name), "{}", controller.def.name);
        }
    }

    #[test]
    fn changes_are_named_by_their_paths() {
        let (old, new) = (json!({"a": {"b": 1, "c": 2}, "d": 3}), json!({"a": {"b": 1, "c": 4}, "e": 5}));
        let mut found = Vec::new();
        changes("", &old, &new, DEPTH_MAX, &mut found);
        assert_eq!(found, ["a.c", "d", "e"]);
    }
}
