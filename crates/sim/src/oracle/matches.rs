//! What is as it should be: for each kind, whether its objects are what their specs ask for, from the contracts of the
//! controllers alone. A kind whose controller does not take part is not asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meta::{ObjectExt, condition};
use serde_json::Value;

use super::ledger::Ledger;

/// Everything that is not as it should be: the kind it is about, and what is wrong.
pub fn problems(ledger: &Ledger, present: &BTreeSet<&'static str>) -> Vec<(&'static str, String)> {
    let mut found = Problems { found: Vec::new() };
    let has = |name: &str| present.contains(name);
    found.pods(ledger);
    if has("generic-garbage-collector") {
        found.owners(ledger);
    }
    if has("replicaset") {
        found.replica_sets(ledger, "ReplicaSet", "apps/replicasets");
    }
    if has("replication") {
        found.replica_sets(ledger, "ReplicationController", "core/replicationcontrollers");
    }
    if has("deployment") {
        found.each(ledger, "Deployment", "apps/deployments", deployment);
    }
    if has("statefulset") {
        found.each(ledger, "StatefulSet", "apps/statefulsets", stateful_set);
    }
    if has("daemon-set") {
        found.each(ledger, "DaemonSet", "apps/daemonsets", daemon_set);
    }
    if has("job") {
        found.each(ledger, "Job", "batch/jobs", job);
    }
    if has("cronjob") {
        found.each(ledger, "CronJob", "batch/cronjobs", cron_job);
    }
    if has("namespace") {
        found.each(ledger, "Namespace", "core/namespaces", |_, _| None);
    }
    if has("service-account") {
        found.each(ledger, "ServiceAccount", "core/namespaces", |ledger, object| {
            let missing = ledger.find("core/serviceaccounts", object.name(), "default").is_none();
            missing.then(|| "has no default service account".to_owned())
        });
    }
    if has("root-ca-cert-publisher") {
        found.each(ledger, "RootCA", "core/namespaces", |ledger, object| {
            let map = ledger.find("core/configmaps", object.name(), "kube-root-ca.crt");
            let told = map.is_some_and(|map| map.text(&["data", "ca.crt"]) == "the authority");
            (!told).then(|| "has no root certificate".to_owned())
        });
    }
    if has("endpoint") {
        found.each(ledger, "Endpoints", "core/services", endpoints);
    }
    if has("endpointslice") {
        found.each(ledger, "EndpointSlice", "core/services", slices);
    }
    if has("disruption") {
        found.each(ledger, "PodDisruptionBudget", "policy/poddisruptionbudgets", budget);
    }
    if has("crd-naming") {
        let definitions = "apiextensions.k8s.io/customresourcedefinitions";
        found.each(ledger, "CustomResourceDefinition", definitions, |_, object| {
            (!condition::is_true(object, "Established")).then(|| "is not established".to_owned())
        });
    }
    found.found
}

struct Problems {
    found: Vec<(&'static str, String)>,
}

impl Problems {
    fn each(
        &mut self,
        ledger: &Ledger,
        kind: &'static str,
        collection: &str,
        problem: fn(&Ledger, &Value) -> Option<String>,
    ) {
        for object in ledger.list(collection) {
            let problem =
                if object.is_deleting() { Some("is still being deleted".into()) } else { problem(ledger, object) };
            self.found.extend(problem.map(|problem| (kind, format!("{collection} {} {problem}", name(object)))));
        }
    }

    fn pods(&mut self, ledger: &Ledger) {
        let has_node = ledger.list("core/nodes").any(|node| condition::is_true(node, "Ready"));
        for pod in ledger.list("core/pods") {
            let bound = !pod.text(&["spec", "nodeName"]).is_empty();
            let problem = if pod.is_deleting() {
                "is still being deleted"
            } else if !bound && has_node {
                "is not bound"
            } else if bound && pod.items(&["status", "containerStatuses"]).is_empty() {
                "has not been started"
            } else {
                continue;
            };
            self.found.push(("Pod", format!("pod {} {problem}", name(pod))));
        }
    }

    /// Owners that are gone take what they own with them, and what is deleted goes.
    fn owners(&mut self, ledger: &Ledger) {
        for (key, kept) in ledger.all() {
            let owners = kept.tree.owner_references();
            let gone = |owner: &Value| ledger.living(owner.text(&["uid"])).is_none();
            let orphaned = !owners.is_empty() && owners.iter().all(gone);
            if (orphaned && &*key.collection != "core/events") || (kept.tree.is_deleting() && kept.durable) {
                let what = if orphaned { "is there though its owners are gone" } else { "is still being deleted" };
                self.found.push(("GarbageCollector", format!("{key} {what}")));
            }
        }
    }

    fn replica_sets(&mut self, ledger: &Ledger, kind: &'static str, collection: &str) {
        for set in ledger.list(collection) {
            if let Some(problem) = replica_set(ledger, set) {
                self.found.push((kind, format!("{collection} {} {problem}", name(set))));
            }
        }
    }
}

fn name(object: &Value) -> String {
    format!("{}/{}", object.namespace(), object.name())
}

fn is_controlled_by(object: &Value, uid: &str) -> bool {
    object.controller_ref().is_some_and(|owner| owner.text(&["uid"]) == uid)
}

/// Whether a pod neither has ended nor is being deleted.
pub fn is_active(pod: &Value) -> bool {
    !pod.is_deleting() && !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

fn is_ready(pod: &Value) -> bool {
    condition::is_true(pod, "Ready")
}

/// Whether a pod waits for an image that is missing.
fn waits(pod: &Value) -> bool {
    is_active(pod)
        && pod.text(&["status", "phase"]) == "Pending"
        && !pod.items(&["status", "containerStatuses"]).is_empty()
}

/// The pods that an object controls.
pub fn pods_of<'l>(ledger: &'l Ledger, owner: &'l Value) -> Vec<&'l Arc<Value>> {
    let uid = owner.uid();
    ledger.owned(uid, "core/pods").filter(|pod| is_controlled_by(pod, uid)).collect()
}

fn int(object: &Value, path: &[&str], default: i64) -> i64 {
    object.int(path).unwrap_or(default)
}

fn differs(what: &str, is: i64, wanted: i64) -> Option<String> {
    (is != wanted).then(|| format!("{what} is {is} instead of {wanted}"))
}

fn observed(object: &Value) -> Option<String> {
    differs("the generation observed", int(object, &["status", "observedGeneration"], 0), object.generation())
}

/// Whether labels carry everything that `selector` (a plain map) asks for; an empty one selects nothing.
fn selects(selector: Option<&serde_json::Map<String, Value>>, object: &Value) -> bool {
    let labels = object.map(&["metadata", "labels"]);
    let carries = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
    selector.is_some_and(|selector| !selector.is_empty() && selector.iter().all(carries))
}

fn selector(object: &Value) -> Option<&serde_json::Map<String, Value>> {
    object.map(&["spec", "selector", "matchLabels"]).or_else(|| object.map(&["spec", "selector"]))
}

fn replica_set(ledger: &Ledger, set: &Value) -> Option<String> {
    if set.is_deleting() {
        return Some("is still being deleted".to_owned());
    }
    let pods = pods_of(ledger, set);
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    let wanted = int(set, &["spec", "replicas"], 1);
    let status = |field: &str| int(set, &["status", field], 0);
    let ready = active.iter().filter(|pod| is_ready(pod)).count() as i64;
    let stray = ledger.list("core/pods").find(|pod| {
        pod.controller_ref().is_none()
            && is_active(pod)
            && pod.namespace() == set.namespace()
            && selects(selector(set), pod)
    });
    if condition::is_true(set, "ReplicaFailure") {
        return differs("status.replicas", status("replicas"), active.len() as i64);
    }
    observed(set)
        .or_else(|| differs("the number of pods", active.len() as i64, wanted))
        .or_else(|| differs("status.replicas", status("replicas"), wanted))
        .or_else(|| differs("status.readyReplicas", status("readyReplicas"), ready))
        .or_else(|| differs("status.availableReplicas", status("availableReplicas"), ready))
        .or_else(|| stray.map(|pod| format!("does not adopt pod {}", pod.name())))
}

/// The template without the label that tells its ReplicaSets apart.
fn template(object: &Value) -> Value {
    let mut template = object.at(&["spec", "template"]).cloned().unwrap_or_default();
    template.remove(&["metadata", "labels", "pod-template-hash"]);
    template
}

fn deployment(ledger: &Ledger, object: &Value) -> Option<String> {
    if let Some(problem) = observed(object) {
        return Some(problem);
    }
    let sets: Vec<_> =
        ledger.owned(object.uid(), "apps/replicasets").filter(|set| is_controlled_by(set, object.uid())).collect();
    let replicas = |set: &Value| int(set, &["spec", "replicas"], 1);
    let sum = |field: &str| sets.iter().map(|set| int(set, &["status", field], 0)).sum::<i64>();
    let status = |field: &str| int(object, &["status", field], 0);
    let told = || {
        differs("status.replicas", status("replicas"), sum("replicas"))
            .or_else(|| differs("status.readyReplicas", status("readyReplicas"), sum("readyReplicas")))
    };
    if object.flag(&["spec", "paused"]) {
        return told();
    }
    let wanted = int(object, &["spec", "replicas"], 1);
    let current = template(object);
    let Some(new) = sets.iter().find(|set| template(set) == current) else {
        return Some("has no ReplicaSet of its template".to_owned());
    };
    let is_stuck = condition::find(object, "Progressing").is_some_and(|found| found.text(&["status"]) == "False");
    // Pods whose image is missing wait for ever; those that a quota keeps out are missing for as long as it does.
    let waiting = sets.iter().flat_map(|set| pods_of(ledger, set)).any(|pod| waits(pod));
    if is_stuck || waiting || condition::is_true(object, "ReplicaFailure") {
        return told();
    }
    let old = sets.iter().filter(|set| set.uid() != new.uid());
    let left: i64 = old.clone().map(|set| replicas(set)).sum();
    let history = int(object, &["spec", "revisionHistoryLimit"], 10);
    differs("the size of the new ReplicaSet", replicas(new), wanted)
        .or_else(|| differs("the size of old ReplicaSets", left, 0))
        .or_else(|| differs("status.updatedReplicas", status("updatedReplicas"), wanted))
        .or_else(|| differs("status.availableReplicas", status("availableReplicas"), wanted))
        .or_else(told)
        .or_else(|| {
            let kept = old.count() as i64;
            (kept > history).then(|| format!("keeps {kept} old ReplicaSets, more than {history}"))
        })
}

fn stateful_set(ledger: &Ledger, set: &Value) -> Option<String> {
    let pods = pods_of(ledger, set);
    let wanted = int(set, &["spec", "replicas"], 1);
    let start = int(set, &["spec", "ordinals", "start"], 0);
    let status = |field: &str| int(set, &["status", field], 0);
    let told = observed(set).or_else(|| differs("status.replicas", status("replicas"), pods.len() as i64));
    let unready = pods.iter().any(|pod| !is_ready(pod));
    if told.is_some() || unready {
        return told;
    }
    let names: BTreeSet<String> = pods.iter().map(|pod| pod.name().to_owned()).collect();
    let expected: BTreeSet<String> =
        (start..start + wanted).map(|ordinal| format!("{}-{ordinal}", set.name())).collect();
    // A pod of that name which belongs to somebody else stands in the way, and is the user's.
    let in_the_way = |name: &String| ledger.find("core/pods", set.namespace(), name).is_some();
    let kept_out = has_quota(ledger, set) && names.is_subset(&expected);
    if kept_out || expected.difference(&names).any(in_the_way) {
        return None;
    }
    if names != expected {
        return Some(format!("has the pods {names:?} instead of {expected:?}"));
    }
    let update = set.text(&["status", "updateRevision"]);
    let on_delete = set.text(&["spec", "updateStrategy", "type"]) == "OnDelete";
    let old = pods.iter().find(|pod| pod.label("controller-revision-hash") != Some(update));
    match old.filter(|_| !on_delete) {
        Some(pod) => Some(format!("keeps pod {} of an old revision", pod.name())),
        None => differs("status.readyReplicas", status("readyReplicas"), wanted),
    }
}

fn daemon_set(ledger: &Ledger, set: &Value) -> Option<String> {
    if let Some(problem) = observed(set) {
        return Some(problem);
    }
    let pods = pods_of(ledger, set);
    let mut on: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_active(pod)) {
        *on.entry(pod.text(&["spec", "nodeName"])).or_default() += 1;
    }
    for node in ledger.list("core/nodes").filter(|node| !node.flag(&["spec", "unschedulable"])) {
        match on.remove(node.name()).unwrap_or(0) {
            1 => {}
            0 if !node.items(&["spec", "taints"]).is_empty() || has_quota(ledger, set) => {}
            count => return Some(format!("has {count} pods on node {}", node.name())),
        }
    }
    if let Some((node, _)) = on.iter().next() {
        return Some(format!("has a pod on {node:?}, which is no node"));
    }
    let ready = pods.iter().filter(|pod| is_active(pod) && is_ready(pod)).count() as i64;
    differs("status.numberReady", int(set, &["status", "numberReady"], 0), ready)
}

/// Whether something may keep pods out of the object's namespace.
fn has_quota(ledger: &Ledger, object: &Value) -> bool {
    ledger.list("core/resourcequotas").any(|quota| quota.namespace() == object.namespace())
}

fn is_finished(job: &Value) -> bool {
    condition::is_true(job, "Complete") || condition::is_true(job, "Failed")
}

fn job(ledger: &Ledger, job: &Value) -> Option<String> {
    const TRACKING: &str = "batch.kubernetes.io/job-tracking";
    let pods = pods_of(ledger, job);
    let active = pods.iter().filter(|pod| is_active(pod)).count() as i64;
    if is_finished(job) {
        let tracked = pods.iter().any(|pod| pod.finalizers().any(|finalizer| finalizer == TRACKING));
        let tracked = tracked.then(|| "is finished and tracks pods".to_owned());
        return differs("the number of active pods", active, 0).or(tracked);
    }
    if job.flag(&["spec", "suspend"]) {
        return differs("the number of active pods", active, 0);
    }
    let waits = pods.iter().any(|pod| waits(pod));
    if active == 0 && !has_quota(ledger, job) {
        return Some("is not finished and has no active pods".to_owned());
    }
    if active > 0
        && !waits
        && pods
            .iter()
            .filter(|pod| is_active(pod))
            .all(|pod| pod.annotation("simulated.setpoint.dev/finish-after").is_none())
    {
        return Some("is not finished though nothing is in the way".to_owned());
    }
    differs("status.active", int(job, &["status", "active"], 0), active)
}

fn cron_job(ledger: &Ledger, cron: &Value) -> Option<String> {
    let jobs: Vec<_> = ledger.owned(cron.uid(), "batch/jobs").collect();
    let complete = jobs.iter().filter(|job| condition::is_true(job, "Complete")).count() as i64;
    let failed = jobs.iter().filter(|job| condition::is_true(job, "Failed")).count() as i64;
    let limit = |field: &str, default| int(cron, &["spec", field], default);
    let listed: BTreeSet<&str> = cron.items(&["status", "active"]).iter().map(|job| job.text(&["uid"])).collect();
    let running: BTreeSet<&str> = jobs.iter().filter(|job| !is_finished(job)).map(|job| job.uid()).collect();
    if complete > limit("successfulJobsHistoryLimit", 3) {
        return Some(format!("keeps {complete} complete jobs"));
    }
    if failed > limit("failedJobsHistoryLimit", 1) {
        return Some(format!("keeps {failed} failed jobs"));
    }
    (listed != running).then(|| format!("lists {} active jobs of {}", listed.len(), running.len()))
}

/// The addresses of the pods that a service sends to.
fn backends(ledger: &Ledger, service: &Value) -> BTreeSet<String> {
    let selected = |pod: &&Arc<Value>| {
        pod.namespace() == service.namespace() && selects(service.map(&["spec", "selector"]), pod) && is_active(pod)
    };
    let ready = ledger.list("core/pods").filter(selected).filter(|pod| is_ready(pod));
    ready.map(|pod| pod.text(&["status", "podIP"]).to_owned()).filter(|ip| !ip.is_empty()).collect()
}

fn has_selector(service: &Value) -> bool {
    service.map(&["spec", "selector"]).is_some_and(|selector| !selector.is_empty())
}

fn endpoints(ledger: &Ledger, service: &Value) -> Option<String> {
    if !has_selector(service) {
        return None;
    }
    let Some(object) = ledger.find("core/endpoints", service.namespace(), service.name()) else {
        return Some("has no endpoints".to_owned());
    };
    let subsets = object.items(&["subsets"]).iter().flat_map(|subset| subset.items(&["addresses"]));
    let listed: BTreeSet<String> = subsets.map(|address| address.text(&["ip"]).to_owned()).collect();
    compare(&listed, &backends(ledger, service))
}

fn slices(ledger: &Ledger, service: &Value) -> Option<String> {
    if !has_selector(service) {
        return None;
    }
    let mut listed = BTreeSet::new();
    for slice in ledger.owned(service.uid(), "discovery.k8s.io/endpointslices") {
        for endpoint in slice.items(&["endpoints"]).iter().filter(|e| e.flag(&["conditions", "ready"])) {
            for address in endpoint.items(&["addresses"]).iter().filter_map(Value::as_str) {
                if !listed.insert(address.to_owned()) {
                    return Some(format!("lists {address} twice"));
                }
            }
        }
    }
    compare(&listed, &backends(ledger, service))
}

fn compare(listed: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Option<String> {
    (listed != wanted).then(|| format!("lists {listed:?} instead of {wanted:?}"))
}

fn budget(ledger: &Ledger, budget: &Value) -> Option<String> {
    let selected = |pod: &&Arc<Value>| pod.namespace() == budget.namespace() && selects(selector(budget), pod);
    let healthy =
        ledger.list("core/pods").filter(selected).filter(|pod| is_active(pod) && is_ready(pod)).count() as i64;
    observed(budget)
        .or_else(|| differs("status.currentHealthy", int(budget, &["status", "currentHealthy"], 0), healthy))
}
