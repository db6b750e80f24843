//! Nodes, namespaces, and what holds for every object.

use std::collections::BTreeSet;

use meta::{ObjectExt, Time, condition};
use serde_json::Value;

use super::{Facts, differs, int, is_active, is_ready, observed, selector, selects, storage};

const NODES: &str = "core/nodes";

/// Owners that are gone take what they own with them, and what is deleted goes.
pub fn owned_or_going(facts: &Facts<'_>, object: &Value) -> Option<String> {
    if object.text(&["kind"]) == "Event" {
        return None;
    }
    if object.is_deleting() {
        return still_there(facts, object);
    }
    let owners = object.owner_references();
    let gone = |owner: &Value| facts.ledger.living(owner.text(&["uid"])).is_none();
    (!owners.is_empty() && owners.iter().all(gone)).then(|| "is there though its owners are gone".to_owned())
}

/// What is deleted goes, unless something that may stay holds it.
pub fn still_there(facts: &Facts<'_>, object: &Value) -> Option<String> {
    (!is_held(facts, object)).then(|| "is still being deleted".to_owned())
}

/// Whether an object that is being deleted is used, or waits (foreground) for one that is: for the claim of a StatefulSet,
/// say, which a pod that the set no longer owns has mounted. Owners may form a cycle, which holds nothing.
fn is_held(facts: &Facts<'_>, object: &Value) -> bool {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![object];
    while let Some(object) = ahead.pop() {
        if storage::is_used(facts, object) || carries_a_count(facts, object) {
            return true;
        }
        if !seen.insert(object.uid()) || !object.finalizers().any(|held| held == "foregroundDeletion") {
            continue;
        }
        let keys = facts.ledger.owned_keys(object.uid());
        let owned = keys.filter_map(|key| facts.ledger.get(key)).map(|kept| &*kept.tree);
        ahead.extend(owned.filter(|owned| owned.is_deleting() && blocks(owned, object.uid())));
    }
    false
}

/// The failed pod of an index stays until the next one carries its count on, and a suspended Job makes none.
fn carries_a_count(facts: &Facts<'_>, pod: &Value) -> bool {
    let is_tracked = pod.finalizers().any(|held| held == "batch.kubernetes.io/job-tracking");
    let owner = pod.controller_ref().filter(|owner| is_tracked && owner.text(&["kind"]) == "Job");
    owner.and_then(|owner| facts.ledger.living(owner.text(&["uid"]))).is_some_and(|job| {
        !job.is_deleting() && job.flag(&["spec", "suspend"]) && job.int(&["spec", "backoffLimitPerIndex"]).is_some()
    })
}

fn blocks(owned: &Value, owner: &str) -> bool {
    let owners = owned.owner_references();
    owners.iter().any(|found| found.text(&["uid"]) == owner && found.flag(&["blockOwnerDeletion"]))
}

/// What is in a namespace goes with it.
pub fn in_a_namespace(facts: &Facts<'_>, object: &Value) -> Option<String> {
    let namespace = object.namespace();
    let outlives = !namespace.is_empty()
        && object.text(&["kind"]) != "Lease"
        && facts.ledger.find("core/namespaces", "", namespace).is_none();
    outlives.then(|| "is there though its namespace is gone".to_owned())
}

/// A pod is bound when a node is there for it.
pub fn bound(facts: &Facts<'_>, pod: &Value) -> Option<String> {
    let waits = || waits_for_claim(facts, pod) || fits_nowhere(facts, pod);
    if !pod.text(&["spec", "nodeName"]).is_empty() || pod.is_deleting() || waits() {
        return None;
    }
    let is_open = |node: &Value| {
        condition::is_true(node, "Ready")
            && !node.flag(&["spec", "unschedulable"])
            && !node.items(&["spec", "taints"]).iter().any(|taint| taint.text(&["effect"]) != "PreferNoSchedule")
    };
    // A pod of a DaemonSet waits for one node only.
    let only = pod.controller_ref().is_some_and(|owner| owner.text(&["kind"]) == "DaemonSet");
    facts
        .ledger
        .list(NODES)
        .any(|node| is_open(node))
        .then_some(())
        .filter(|()| !only)
        .map(|()| "is not bound".to_owned())
}

/// Whether the pod asks for a node with labels that none has.
pub fn fits_nowhere(facts: &Facts<'_>, pod: &Value) -> bool {
    let wanted = pod.map(&["spec", "nodeSelector"]).filter(|wanted| !wanted.is_empty());
    wanted.is_some() && !facts.ledger.list(NODES).any(|node| selects(wanted, node))
}

fn waits_for_claim(facts: &Facts<'_>, pod: &Value) -> bool {
    let names = pod.items(&["spec", "volumes"]).iter().map(|v| v.text(&["persistentVolumeClaim", "claimName"]));
    let mut names = names.filter(|name| !name.is_empty());
    names.any(|name| {
        let claim = facts.ledger.find(storage::CLAIMS, pod.namespace(), name);
        claim.is_none_or(|claim| claim.is_deleting() || claim.text(&["status", "phase"]) != "Bound")
    })
}

/// A bound pod has been started by its node.
pub fn started(facts: &Facts<'_>, pod: &Value) -> Option<String> {
    if pod.is_deleting() {
        return still_there(facts, pod);
    }
    let waits = !pod.text(&["spec", "nodeName"]).is_empty() && pod.items(&["status", "containerStatuses"]).is_empty();
    (waits && is_active(pod)).then(|| "has not been started".to_owned())
}

/// A node that is there says so.
pub fn node_ready(_: &Facts<'_>, node: &Value) -> Option<String> {
    (!condition::is_true(node, "Ready")).then(|| "is not ready".to_owned())
}

/// A node has a range of addresses that no other node has.
pub fn has_range(facts: &Facts<'_>, node: &Value) -> Option<String> {
    let range = node.text(&["spec", "podCIDR"]);
    if range.is_empty() {
        return (!node.is_deleting()).then(|| "has no range of addresses".to_owned());
    }
    let twin =
        facts.ledger.list(NODES).find(|other| other.name() != node.name() && other.text(&["spec", "podCIDR"]) == range);
    twin.map(|twin| format!("has the range {range}, and so has {}", twin.name()))
}

/// Where a node's pods are is told to the others, if it has an address.
pub fn has_route(facts: &Facts<'_>, node: &Value) -> Option<String> {
    let addresses = node.items(&["status", "addresses"]);
    let internal = addresses.iter().find(|address| address.text(&["type"]) == "InternalIP")?;
    let wanted = format!("{} {}", node.text(&["spec", "podCIDR"]), internal.text(&["address"]));
    let map = facts.ledger.find("core/configmaps", "kube-system", "node-routes");
    let told = map.map_or("", |map| map.text(&["data", node.name()]));
    (told != wanted && !wanted.starts_with(' ') && !node.is_deleting()).then(|| format!("is said to be at {told:?}"))
}

/// A node's taints say what its conditions say.
pub fn tainted(_: &Facts<'_>, node: &Value) -> Option<String> {
    let ready = condition::find(node, "Ready").map_or("", |found| found.text(&["status"]));
    let wanted = [("node.kubernetes.io/not-ready", "False"), ("node.kubernetes.io/unreachable", "Unknown")];
    wanted.into_iter().find_map(|(key, status)| {
        let has = node.items(&["spec", "taints"]).iter().any(|taint| taint.text(&["key"]) == key);
        (has != (ready == status) && !ready.is_empty()).then(|| format!("is {ready:?}, and its taint {key}: {has}"))
    })
}

/// A pod tolerates its node.
pub fn tolerates(facts: &Facts<'_>, pod: &Value) -> Option<String> {
    if pod.is_deleting() || !is_active(pod) {
        return None;
    }
    let node = facts.ledger.find(NODES, "", pod.text(&["spec", "nodeName"]))?;
    let taints = node.items(&["spec", "taints"]).iter().filter(|taint| taint.text(&["effect"]) == "NoExecute");
    let made = Time::parse(pod.text(&["metadata", "creationTimestamp"])).map_or(0, |made| made.as_secs());
    taints.into_iter().find_map(|taint| {
        let since = Time::parse(taint.text(&["timeAdded"])).map_or(made, |added| added.as_secs()).max(made);
        let spans: Vec<i64> = pod.items(&["spec", "tolerations"]).iter().filter_map(|t| tolerated(t, taint)).collect();
        let until = spans.iter().min().map_or(0, |span| since.saturating_add(*span));
        (until < facts.now).then(|| format!("does not tolerate {} of its node", taint.text(&["key"])))
    })
}

/// For how many seconds a toleration tolerates a taint.
fn tolerated(toleration: &Value, taint: &Value) -> Option<i64> {
    let any = |field: &str| toleration.text(&[field]).is_empty();
    let same = |field: &str| toleration.text(&[field]) == taint.text(&[field]);
    let exists = toleration.text(&["operator"]) == "Exists";
    let matches =
        (any("effect") || same("effect")) && (same("key") || (any("key") && exists)) && (exists || same("value"));
    matches.then(|| toleration.int(&["tolerationSeconds"]).map_or(i64::MAX / 2, |span| span.max(0)))
}

/// A pod's node exists.
pub fn has_its_node(facts: &Facts<'_>, pod: &Value) -> Option<String> {
    let node = pod.text(&["spec", "nodeName"]);
    let is_lost = !node.is_empty() && facts.ledger.find(NODES, "", node).is_none();
    is_lost.then(|| format!("is bound to {node}, which is no node"))
}

/// A budget counts the healthy pods it selects, and what may be disrupted.
pub fn budget(facts: &Facts<'_>, budget: &Value) -> Option<String> {
    if budget.is_deleting() {
        return Some("is still being deleted".to_owned());
    }
    let pods = facts.ledger.list_in("core/pods", budget.namespace());
    let pods = pods.filter(|pod| selects(selector(budget), pod));
    let healthy = pods.filter(|pod| is_active(pod) && is_ready(pod)).count() as i64;
    let status = |field: &str| int(budget, &["status", field], 0);
    // Where nobody says how many there should be, none may go.
    let is_known = status("expectedPods") > 0;
    let allowed = if is_known { (healthy - status("desiredHealthy")).max(0) } else { 0 };
    observed(budget)
        .or_else(|| differs("status.currentHealthy", status("currentHealthy"), healthy))
        .or_else(|| differs("status.disruptionsAllowed", status("disruptionsAllowed"), allowed))
}

/// A quota says what it limits, and how much of it is used.
pub fn quota(facts: &Facts<'_>, quota: &Value) -> Option<String> {
    let (hard, told) = (quota.at(&["spec", "hard"]), quota.at(&["status", "hard"]));
    if hard != told {
        return Some(format!("limits {told:?} instead of {hard:?}"));
    }
    hard.and_then(|hard| hard.get("pods"))?;
    let pods = facts.ledger.list_in("core/pods", quota.namespace());
    let pods = pods.filter(|pod| !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")).count();
    let used = quota.text(&["status", "used", "pods"]);
    (used != pods.to_string()).then(|| format!("says that {used} pods are there, not {pods}"))
}

/// A namespace has its account.
pub fn has_account(facts: &Facts<'_>, namespace: &Value) -> Option<String> {
    let missing = facts.ledger.find("core/serviceaccounts", namespace.name(), "default").is_none();
    (missing && !namespace.is_deleting()).then(|| "has no default service account".to_owned())
}

/// A namespace has the root certificate.
pub fn has_root_ca(facts: &Facts<'_>, namespace: &Value) -> Option<String> {
    let map = facts.ledger.find("core/configmaps", namespace.name(), "kube-root-ca.crt");
    let told = map.is_some_and(|map| map.text(&["data", "ca.crt"]) == "the authority");
    (!told && !namespace.is_deleting()).then(|| "has no root certificate".to_owned())
}

/// A definition is established.
pub fn established(_: &Facts<'_>, definition: &Value) -> Option<String> {
    (!condition::is_true(definition, "Established")).then(|| "is not established".to_owned())
}

/// An object of a custom kind has a definition.
pub fn is_defined(facts: &Facts<'_>, widget: &Value) -> Option<String> {
    let missing = facts.ledger.find(super::DEFINITIONS, "", "widgets.sim.setpoint.dev").is_none();
    missing.then(|| format!("{} is there though its definition is gone", widget.name()))
}

/// A role that aggregates has the rules of those it selects.
pub fn aggregated(facts: &Facts<'_>, role: &Value) -> Option<String> {
    let selectors = role.items(&["aggregationRule", "clusterRoleSelectors"]);
    if selectors.is_empty() {
        return None;
    }
    let is_selected = |other: &Value| {
        other.name() != role.name() && selectors.iter().any(|one| selects(one.map(&["matchLabels"]), other))
    };
    let rules = |object: &Value| object.items(&["rules"]).iter().map(Value::to_string).collect::<Vec<_>>();
    let roles = facts.ledger.list("rbac.authorization.k8s.io/clusterroles").filter(|other| is_selected(other));
    let wanted: BTreeSet<String> = roles.flat_map(|other| rules(other)).collect();
    let has: BTreeSet<String> = rules(role).into_iter().collect();
    (wanted != has).then(|| format!("has {} rules instead of {}", has.len(), wanted.len()))
}
