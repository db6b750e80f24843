//! What is as it should be: for each controller, whether its objects are what their specs ask for, from the contracts of
//! the controllers alone. A rule whose controller does not take part is not asked about.

mod cluster;
mod network;
mod storage;
mod workloads;

use std::sync::Arc;

use meta::{ObjectExt, condition};
use serde_json::Value;

use super::ledger::{Kept, Ledger};

/// The world a rule looks at.
pub struct Facts<'l> {
    /// What is.
    pub ledger: &'l Ledger,
    /// The wall clock, in seconds.
    pub now: i64,
}

/// Says what is wrong with an object.
pub type Wrong = fn(&Facts<'_>, &Value) -> Option<String>;

/// What one controller is to bring about for the objects of one collection.
pub struct Rule {
    /// The controller.
    pub controller: &'static str,
    /// Whose objects: `*` for all.
    pub collection: &'static str,
    /// What else of the object's namespace it looks at, beside what the object owns or is owned by.
    pub reach: Reach,
    /// The rule.
    pub wrong: Wrong,
}

/// How far a rule looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The object, its owners and what it owns.
    Family,
    /// Objects of its namespace too.
    Namespace,
    /// All objects of its own collection too.
    Siblings,
    /// The same as `Namespace`, and what is right may become wrong by time alone.
    Time,
}

const fn rule(controller: &'static str, collection: &'static str, reach: Reach, wrong: Wrong) -> Rule {
    Rule { controller, collection, reach, wrong }
}

use Reach::{Family, Namespace, Siblings, Time};

/// Every rule. Nodes are looked at by everything: what changes of a node concerns all.
pub const RULES: &[Rule] = &[
    rule("generic-garbage-collector", "*", Namespace, cluster::owned_or_going),
    rule("namespace", "*", Namespace, cluster::in_a_namespace),
    rule("scheduler", "core/pods", Namespace, cluster::bound),
    rule("simulated-node", "core/pods", Family, cluster::started),
    rule("simulated-node", "core/nodes", Family, cluster::node_ready),
    rule("node", "core/nodes", Family, cluster::tainted),
    rule("node-ipam", "core/nodes", Siblings, cluster::has_range),
    rule("node-routes", "core/nodes", Siblings, cluster::has_route),
    rule("taint-eviction", "core/pods", Time, cluster::tolerates),
    rule("pod-garbage-collector", "core/pods", Family, cluster::has_its_node),
    rule("replicaset", "apps/replicasets", Namespace, workloads::replica_set),
    rule("replication", "core/replicationcontrollers", Namespace, workloads::replica_set),
    rule("deployment", "apps/deployments", Namespace, workloads::deployment),
    rule("statefulset", "apps/statefulsets", Namespace, workloads::stateful_set),
    rule("daemon-set", "apps/daemonsets", Namespace, workloads::daemon_set),
    rule("job", "batch/jobs", Namespace, workloads::job),
    rule("cronjob", "batch/cronjobs", Namespace, workloads::cron_job),
    rule("ttl-after-finished", "batch/jobs", Time, workloads::outlived),
    rule("endpoint", "core/services", Namespace, network::endpoints),
    rule("endpointslice", "core/services", Namespace, network::slices),
    rule("endpointslicemirroring", "core/services", Namespace, network::mirrored),
    rule("endpointslicemirroring", "discovery.k8s.io/endpointslices", Namespace, network::mirrors_something),
    rule("disruption", "policy/poddisruptionbudgets", Namespace, cluster::budget),
    rule("resourcequota", "core/resourcequotas", Namespace, cluster::quota),
    rule("service-account", "core/namespaces", Namespace, cluster::has_account),
    rule("root-ca-cert-publisher", "core/namespaces", Namespace, cluster::has_root_ca),
    rule("crd-naming", DEFINITIONS, Siblings, cluster::established),
    rule("crd-finalizer", WIDGETS, Namespace, cluster::is_defined),
    rule("clusterrole-aggregation", "rbac.authorization.k8s.io/clusterroles", Siblings, cluster::aggregated),
    rule("persistent-volume-binder", storage::CLAIMS, Namespace, storage::claim_bound),
    rule("persistent-volume", storage::VOLUMES, Siblings, storage::volume_phase),
    rule("pvc-protection", storage::CLAIMS, Namespace, storage::claim_held),
    rule("pv-protection", storage::VOLUMES, Siblings, storage::volume_held),
    rule("volumeattributesclass-protection", storage::CLASSES, Siblings, storage::class_held),
];

/// Definitions of custom kinds.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// The custom kind of the workloads.
pub const WIDGETS: &str = "sim.setpoint.dev/widgets";

/// Whether the rule applies to a kept object, and what is wrong.
pub fn judge(rule: &Rule, facts: &Facts<'_>, kept: &Kept) -> Option<String> {
    (rule.wrong)(facts, &kept.tree)
}

pub(super) fn is_controlled_by(object: &Value, uid: &str) -> bool {
    object.controller_ref().is_some_and(|owner| owner.text(&["uid"]) == uid)
}

/// Whether a pod neither has ended nor is being deleted.
pub fn is_active(pod: &Value) -> bool {
    !pod.is_deleting() && !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

pub(super) fn is_ready(pod: &Value) -> bool {
    condition::is_true(pod, "Ready")
}

/// Whether a pod waits for an image that is missing.
pub(super) fn waits(pod: &Value) -> bool {
    is_active(pod)
        && pod.text(&["status", "phase"]) == "Pending"
        && !pod.items(&["status", "containerStatuses"]).is_empty()
}

/// The pods that an object controls.
pub fn pods_of<'l>(ledger: &'l Ledger, owner: &'l Value) -> Vec<&'l Arc<Value>> {
    let uid = owner.uid();
    ledger.owned(uid, "core/pods").filter(|pod| is_controlled_by(pod, uid)).collect()
}

pub(super) fn int(object: &Value, path: &[&str], default: i64) -> i64 {
    object.int(path).unwrap_or(default)
}

pub(super) fn differs(what: &str, is: i64, wanted: i64) -> Option<String> {
    (is != wanted).then(|| format!("{what} is {is} instead of {wanted}"))
}

pub(super) fn observed(object: &Value) -> Option<String> {
    differs("the generation observed", int(object, &["status", "observedGeneration"], 0), object.generation())
}

/// Whether labels carry everything that `selector` (a plain map) asks for; an empty one selects nothing.
pub(super) fn selects(selector: Option<&serde_json::Map<String, Value>>, object: &Value) -> bool {
    let labels = object.map(&["metadata", "labels"]);
    let carries = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
    selector.is_some_and(|selector| !selector.is_empty() && selector.iter().all(carries))
}

pub(super) fn selector(object: &Value) -> Option<&serde_json::Map<String, Value>> {
    object.map(&["spec", "selector", "matchLabels"]).or_else(|| object.map(&["spec", "selector"]))
}
