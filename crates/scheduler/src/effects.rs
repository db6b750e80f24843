//! Verdicts as requests and sentences, as upstream writes them.

use brain::{Action, Effect, Note, Patch, Resource};
use meta::ObjectExt;
use serde_json::{Map, Value, json};
use stdx::Time;

use crate::ask::{Ask, PODS};
use crate::cache::Cache;
use crate::decide::Diagnosis;
use crate::preempt::DISRUPTION_REASON;
use crate::volumes::{CLAIMS, Prepare, SELECTED_NODE, VOLUMES};

/// Binds a pod.
pub fn bind(ask: &Ask, node: &str) -> Effect {
    let (namespace, name) = (ask.namespace(), ask.pod.name());
    let action = Action::Bind {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: ask.pod.uid().to_owned(),
        node: node.to_owned(),
    };
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    Effect { action, note: Some(Note::normal("Scheduled", message)) }
}

/// The event about a pod that goes nowhere.
pub fn failed_scheduling(diagnosis: &Diagnosis) -> Note {
    Note::warning("FailedScheduling", diagnosis.message())
}

/// Writes the condition of a pod that goes nowhere, and the node that room is being made on (empty for none), where
/// they differ.
pub fn unschedulable(ask: &Ask, message: &str, node: &str, now: Time) -> Option<Effect> {
    let tree = ask.pod.object.tree();
    let mut status = Map::new();
    let wanted = [("status", "False"), ("reason", "Unschedulable"), ("message", message)];
    let old = condition(&tree, "PodScheduled");
    if !old.is_some_and(|old| wanted.iter().all(|(field, value)| old.text(&[field]) == *value)) {
        status.insert("conditions".to_owned(), json!([changed(&tree, old, "PodScheduled", &wanted, now)]));
    }
    if tree.text(&["status", "nominatedNodeName"]) != node {
        let node = if node.is_empty() { Value::Null } else { json!(node) };
        status.insert("nominatedNodeName".to_owned(), node);
    }
    (!status.is_empty()).then(|| Effect { action: patch_status(ask, Value::Object(status)), note: None })
}

fn condition<'t>(tree: &'t Value, type_: &str) -> Option<&'t Value> {
    tree.items(&["status", "conditions"]).iter().find(|condition| condition.text(&["type"]) == type_)
}

fn changed(tree: &Value, old: Option<&Value>, type_: &str, wanted: &[(&str, &str); 3], now: Time) -> Value {
    let stands = old.filter(|old| old.text(&["status"]) == wanted[0].1);
    let since = stands.map_or_else(|| now.to_rfc3339(), |old| old.text(&["lastTransitionTime"]).to_owned());
    let mut condition = json!({"type": type_, "lastProbeTime": null, "lastTransitionTime": since});
    for (field, value) in wanted {
        condition[*field] = json!(value);
    }
    if let Some(generation) = tree.int(&["metadata", "generation"]) {
        condition["observedGeneration"] = json!(generation);
    }
    condition
}

fn patch_status(ask: &Ask, status: Value) -> Action {
    Action::Patch {
        resource: PODS,
        subresource: "status",
        namespace: ask.namespace().to_owned(),
        name: ask.pod.name().to_owned(),
        uid: ask.pod.uid().to_owned(),
        patch: Patch::Strategic(json!({"status": status})),
    }
}

/// Makes a pod leave for a more important one; one that is leaving already is left alone.
pub fn evict(victim: &Ask, preemptor: &Ask, node: &str, now: Time) -> Vec<Effect> {
    if victim.pod.is_deleting() {
        return Vec::new();
    }
    let tree = victim.pod.object.tree();
    let message = "default-scheduler: preempting to accommodate a higher priority pod";
    let wanted = [("status", "True"), ("reason", DISRUPTION_REASON), ("message", message)];
    let old = condition(&tree, "DisruptionTarget");
    let mark = json!({"conditions": [changed(&tree, old, "DisruptionTarget", &wanted, now)]});
    let told = format!("Preempted by pod {} on node {node}", preemptor.pod.uid());
    let delete = Action::Delete {
        resource: PODS,
        namespace: victim.namespace().to_owned(),
        name: victim.pod.name().to_owned(),
        uid: victim.pod.uid().to_owned(),
        revision: None,
        propagation: None,
        grace_seconds: None,
    };
    vec![
        Effect { action: patch_status(victim, mark), note: None },
        Effect { action: delete, note: Some(Note::normal("Preempted", told)) },
    ]
}

/// Takes back the nomination of a pod that a more important one has displaced.
pub fn denominate(ask: &Ask) -> Option<Effect> {
    let is_nominated = !ask.pod.facts.status.nominated_node_name.is_empty();
    is_nominated.then(|| Effect { action: patch_status(ask, json!({"nominatedNodeName": null})), note: None })
}

/// Reserves or asks for a volume; `None` when the object is gone.
pub fn prepare(cache: &Cache, step: &Prepare, node: &str) -> Option<Effect> {
    let action = match step {
        Prepare::Reserve { volume, claim } => {
            let (found, claim) = (cache.volumes.volume(volume)?, cache.volumes.claim(claim)?);
            let meta = claim.meta();
            let reference = json!({
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": &*meta.namespace,
                "name": &*meta.name, "uid": &*meta.uid, "resourceVersion": claim.revision().to_string(),
            });
            let patch = json!({
                "metadata": {
                    "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
                    "resourceVersion": found.revision().to_string(),
                },
                "spec": {"claimRef": reference},
            });
            merge(VOLUMES, found.meta(), patch)
        }
        Prepare::Make { claim } => {
            let claim = cache.volumes.claim(claim)?;
            merge(CLAIMS, claim.meta(), json!({"metadata": {"annotations": {SELECTED_NODE: node}}}))
        }
    };
    Some(Effect { action, note: None })
}

fn merge(resource: Resource, meta: &brain::Meta, patch: Value) -> Action {
    Action::Patch {
        resource,
        subresource: "",
        namespace: meta.namespace.to_string(),
        name: meta.name.to_string(),
        uid: meta.uid.to_string(),
        patch: Patch::Merge(patch),
    }
}
