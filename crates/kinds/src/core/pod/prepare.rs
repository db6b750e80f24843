//! What happens to a pod before it is checked and stored: fields that clients may not write are put back, others are
//! worked out.

use meta::ObjectExt;
use serde_json::{Map, Value, json};

use super::annotations::{APP_ARMOR, app_armor_field};
use super::defaults::CONTAINER_LISTS;
use super::resources::{default_pod_level, qos_class};
use super::security;
use crate::check::{At, Faults, same};
use crate::halves::{keep_all_but, restore, restore_metadata};
use crate::{UpdateOf, fill};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// Annotations of long ago that repeated init containers.
const INIT_ANNOTATIONS: &[&str] = &[
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];
/// Fields of a pod spec whose features are off in v1.37.
const OFF: &[&str] = &["schedulingGroup", "evictionResponders"];

/// Before a pod is created.
pub(crate) fn create(pod: &mut Value) {
    pod.put(&["status"], json!({"phase": "Pending"}));
    drop_disabled(pod);
    if !pod.items(&["spec", "schedulingGates"]).is_empty() {
        let since = pod.at(&["metadata", "creationTimestamp"]).cloned();
        pod.put(&["status", "conditions"], json!([gated(since)]));
    }
    merge_label_keys(pod);
    app_armor(pod);
    if let Some(spec) = fill::child(pod, "spec") {
        default_pod_level(spec);
        let class = qos_class(spec);
        pod.put(&["status", "qosClass"], class);
    }
}

/// The condition of a pod that is held back, since its creation.
fn gated(since: Option<Value>) -> Value {
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    });
    if let Some(since) = since {
        condition.put(&["lastTransitionTime"], since);
    }
    condition
}

/// Drops what belongs to features that are off, as upstream does without a word.
pub(crate) fn drop_disabled(pod: &mut Value) {
    if let Some(annotations) = fill::descend(pod, &["metadata", "annotations"]) {
        INIT_ANNOTATIONS.iter().for_each(|key| _ = annotations.remove(&[key]));
    }
    let Some(spec) = fill::child(pod, "spec") else { return };
    OFF.iter().for_each(|field| _ = spec.remove(&[field]));
    fill::items(spec, "volumes").for_each(volume);
    for list in CONTAINER_LISTS {
        fill::items(spec, list).for_each(container);
    }
}

fn container(container: &mut Value) {
    let signal = container.remove(&["lifecycle", "stopSignal"]);
    if signal.is_some() && container.map(&["lifecycle"]).is_some_and(Map::is_empty) {
        container.remove(&["lifecycle"]);
    }
    for mount in fill::items(container, "volumeMounts") {
        mount.remove(&["bindMountOptions"]);
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.remove(&[probe, "grpc", "mode"]);
        container.remove(&[probe, "httpGet", "protocol"]);
    }
    for hook in ["postStart", "preStop"] {
        container.remove(&["lifecycle", hook, "httpGet", "protocol"]);
    }
}

fn volume(volume: &mut Value) {
    volume.remove(&["emptyDir", "mode"]);
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = fill::child(volume, kind) {
            source.remove(&["defaultUser"]);
            fill::items(source, "items").for_each(|item| _ = item.remove(&["user"]));
            fill::items(source, "sources").for_each(projection);
        }
    }
}

fn projection(source: &mut Value) {
    for kind in ["secret", "configMap", "downwardAPI"] {
        if let Some(inner) = fill::child(source, kind) {
            fill::items(inner, "items").for_each(|item| _ = item.remove(&["user"]));
        }
    }
    for kind in ["serviceAccountToken", "clusterTrustBundle", "podCertificate"] {
        source.remove(&[kind, "user"]);
    }
}

/// Label keys to match become requirements with the pod's own values.
fn merge_label_keys(pod: &mut Value) {
    let Some(labels) = pod.map(&["metadata", "labels"]).cloned() else { return };
    let Some(spec) = fill::child(pod, "spec") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = fill::descend(spec, &["affinity", kind]) else { continue };
        for weighted in fill::items(affinity, PREFERRED) {
            if let Some(term) = fill::child(weighted, "podAffinityTerm") {
                merge_keys(term, &labels);
            }
        }
        fill::items(affinity, REQUIRED).for_each(|term| merge_keys(term, &labels));
    }
    fill::items(spec, "topologySpreadConstraints").for_each(|constraint| merge_keys(constraint, &labels));
}

fn merge_keys(term: &mut Value, labels: &Map<String, Value>) {
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.items(&[field]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = fill::child(term, "labelSelector").filter(|_| !expressions.is_empty()) else { return };
    let mut all = selector.items(&["matchExpressions"]).to_vec();
    all.extend(expressions);
    selector.put(&["matchExpressions"], all);
}

/// Old AppArmor annotations become fields of containers that have none.
fn app_armor(pod: &mut Value) {
    if pod.text(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let annotations = pod.map(&["metadata", "annotations"]).cloned().unwrap_or_default();
    let pod_profile = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned().unwrap_or_default();
    let Some(spec) = fill::child(pod, "spec") else { return };
    for list in CONTAINER_LISTS {
        for container in fill::items(spec, list) {
            let key = format!("{APP_ARMOR}{}", container.text(&["name"]));
            let profile = annotations.get(&key).and_then(Value::as_str).and_then(app_armor_field);
            let Some(profile) = profile.filter(|profile| is_sound(profile) && !same(profile, &pod_profile)) else {
                continue;
            };
            if container.at(&["securityContext", "appArmorProfile"]).is_none() {
                container.put(&["securityContext", "appArmorProfile"], profile);
            }
        }
    }
}

fn is_sound(profile: &Value) -> bool {
    let mut faults = Faults::new();
    security::app_armor(&At::root(profile), &mut faults);
    faults.is_empty()
}

/// Before a pod is changed at one of its addresses.
pub(crate) fn update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Status => status(new, old),
        UpdateOf::Other("ephemeralcontainers") => only_ephemeral_containers(new, old),
        UpdateOf::Other("resize") => only_resources(new, old),
        UpdateOf::Main | UpdateOf::Other(_) => {
            restore(new, old, "status");
            keep_pod_resources(new, old);
        }
    }
    drop_disabled(new);
}

/// Clients that do not know the resources of the pod as a whole leave them out without meaning to.
fn keep_pod_resources(new: &mut Value, old: &Value) {
    if let Some(resources) = old.at(&["spec", "resources"])
        && new.at(&["spec", "resources"]).is_none()
    {
        new.put(&["spec", "resources"], resources.clone());
    }
}

fn status(new: &mut Value, old: &Value) {
    keep_all_but(new, old, "status");
    restore_metadata(new, old, &["deletionTimestamp", "ownerReferences"]);
    for field in
        ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"]
    {
        if let Some(value) = old.at(&["status", field])
            && new.at(&["status", field]).is_none()
        {
            new.put(&["status", field], value.clone());
        }
    }
    keep_observed_generations(new, old);
}

/// Older agents do not report the generation they saw; what is known is not forgotten.
fn keep_observed_generations(new: &mut Value, old: &Value) {
    let Some(status) = fill::child(new, "status") else { return };
    if let Some(generation) = old.int(&["status", "observedGeneration"]) {
        fill::zero(status, "observedGeneration", generation);
    }
    let mut known: Vec<&Value> = old.items(&["status", "conditions"]).iter().collect();
    for condition in fill::items(status, "conditions") {
        let kind = condition.text(&["type"]);
        let Some(index) = known.iter().position(|old| old.text(&["type"]) == kind) else { continue };
        let former = known.remove(index);
        if let Some(generation) = former.int(&["observedGeneration"]) {
            fill::zero(condition, "observedGeneration", generation);
        }
    }
}

/// Of the metadata only what says which object and which version is meant counts here.
fn restore_user_metadata(new: &mut Value, old: &Value) {
    restore_metadata(new, old, &["deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences"]);
}

fn only_ephemeral_containers(new: &mut Value, old: &Value) {
    let containers = new.at(&["spec", "ephemeralContainers"]).cloned();
    restore(new, old, "spec");
    restore(new, old, "status");
    restore_user_metadata(new, old);
    match containers {
        Some(containers) => new.put(&["spec", "ephemeralContainers"], containers),
        None => _ = new.remove(&["spec", "ephemeralContainers"]),
    }
}

fn only_resources(new: &mut Value, old: &Value) {
    let count = |pod: &Value, list: &str| pod.items(&["spec", list]).len();
    if ["containers", "initContainers"].iter().all(|list| count(new, list) == count(old, list)) {
        let wanted = new.at(&["spec"]).cloned().unwrap_or_default();
        restore(new, old, "spec");
        restore(new, old, "status");
        restore_user_metadata(new, old);
        take_resources(new, &wanted);
    }
    keep_pod_resources(new, old);
    if let Some(spec) = fill::child(new, "spec") {
        default_pod_level(spec);
    }
}

fn take_resources(new: &mut Value, wanted: &Value) {
    match wanted.get("resources") {
        Some(resources) => new.put(&["spec", "resources"], resources.clone()),
        None => _ = new.remove(&["spec", "resources"]),
    }
    for list in ["containers", "initContainers"] {
        let wanted = wanted.items(&[list]);
        let own: Vec<&str> = new.items(&["spec", list]).iter().map(|c| c.text(&["name"])).collect();
        if !own.iter().copied().eq(wanted.iter().map(|c| c.text(&["name"]))) {
            // Renamed or reordered: left as it is, so that the check can say so.
            new.put(&["spec", list], wanted.to_vec());
            continue;
        }
        let Some(spec) = fill::child(new, "spec") else { return };
        for (container, wanted) in fill::items(spec, list).zip(wanted) {
            for field in ["resources", "resizePolicy"] {
                restore(container, wanted, field);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pod_is_pending() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}],
            "schedulingGates": [{"name": "example.com/g"}], "evictionResponders": [{}]}, "status": {"phase": "Running"}});
        create(&mut pod);
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort", "conditions": [gated(None)]}));
        assert_eq!(pod["spec"].get("evictionResponders"), None);
    }

    #[test]
    fn label_keys_are_merged() {
        let mut pod = json!({"metadata": {"labels": {"app": "a", "rev": "1"}}, "spec": {
            "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["rev", "x"]}]}});
        create(&mut pod);
        assert_eq!(
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
            json!([{"key": "rev", "operator": "In", "values": ["1"]}])
        );
    }

    #[test]
    fn annotations_become_profiles() {
        let mut pod = json!({"metadata": {"annotations": {format!("{APP_ARMOR}c"): "localhost/p"}},
            "spec": {"containers": [{"name": "c"}, {"name": "d"}]}});
        create(&mut pod);
        let expected = json!({"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}});
        assert_eq!(pod["spec"]["containers"][0]["securityContext"], expected);
        assert_eq!(pod["spec"]["containers"][1].get("securityContext"), None);
    }

    #[test]
    fn each_address_writes_its_part() {
        let old = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "qosClass": "Burstable"}});
        let new = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"nodeName": "m", "containers": [{"name": "c",
            "image": "x", "resources": {"requests": {"cpu": "2"}}}], "ephemeralContainers": [{"name": "e"}]},
            "status": {"phase": "Failed"}});
        let check = |what, path: &[&str], expected: Value| {
            let mut value = new.clone();
            update(&mut value, &old, what);
            assert_eq!(value.at(path).cloned().unwrap_or_default(), expected, "{what:?} {path:?}");
        };
        check(UpdateOf::Main, &["status"], old["status"].clone());
        check(UpdateOf::Main, &["spec", "nodeName"], json!("m"));
        check(UpdateOf::Status, &["spec"], old["spec"].clone());
        check(UpdateOf::Status, &["status"], json!({"phase": "Failed", "qosClass": "Burstable"}));
        check(UpdateOf::Status, &["metadata", "labels"], json!({"a": "2"}));
        check(UpdateOf::Other("ephemeralcontainers"), &["spec", "nodeName"], json!("n"));
        check(UpdateOf::Other("ephemeralcontainers"), &["spec", "ephemeralContainers"], json!([{"name": "e"}]));
        check(UpdateOf::Other("ephemeralcontainers"), &["metadata", "labels"], json!({"a": "1"}));
        check(
            UpdateOf::Other("resize"),
            &["spec", "containers"],
            json!([{"name": "c", "resources": {"requests": {"cpu": "2"}}}]),
        );
    }
}
