//! Pods that a node runs by itself, from manifests on its disk: no API server is needed for them. What a manifest
//! says is completed and checked as the API would; its hash is the pod's identity, so that another content is
//! another pod.

use std::sync::LazyLock;

use kinds::{Catalog, KindDef, Rules};
use meta::{Gvk, ObjectExt};
use serde_json::{Value, json};
use stdx::Time;

/// What the pod was made of.
pub const HASH: &str = "kubernetes.io/config.hash";
/// Where it comes from: `file`.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// When it was seen first.
const SEEN: &str = "kubernetes.io/config.seen";

/// The pod that `written` asks for, as `node` runs it; `file` is the manifest's name.
pub fn pod(written: Value, file: &str, node: &str, now: Time) -> Result<Value, String> {
    let kind = definition(&written)?;
    let conformed = schema::conform(kind.schema.get(), written).map_err(|error| error.to_string())?;
    let mut pod = conformed.value;
    place(&mut pod, file, node, now);
    let Rules::BuiltIn(rules) = &kind.rules else { return Err("pods are not built in".to_owned()) };
    (rules.default)(&mut pod);
    (rules.prepare_create)(&mut pod);
    let mut faults = kinds::object_meta::validate_object_meta(&kind, &pod);
    faults.extend((rules.validate)(&pod));
    if !faults.is_empty() {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(format!("invalid pod: [{}]", all.join(", ")));
    }
    match admit::pod_refs::api_reference(&pod) {
        Some(resource) => Err(format!("static pods may not reference {resource}")),
        None => Ok(pod),
    }
}

/// The pod with what `patch` (`{"status": {...}}`) says of it.
pub fn with_status(pod: &Value, patch: &Value) -> Value {
    static POD: LazyLock<Option<std::sync::Arc<KindDef>>> = LazyLock::new(|| definition_of(&Gvk::new("", "v1", "Pod")));
    let merged = POD.as_ref().and_then(|kind| merge::strategic::apply(kind.schema.get(), pod.clone(), patch).ok());
    // The patch is the agent's own.
    merged.unwrap_or_else(|| pod.clone())
}

/// Whether a node has made the pod itself.
pub fn is_static(pod: &Value) -> bool {
    pod.annotation(SOURCE) == Some("file")
}

fn definition_of(gvk: &Gvk) -> Option<std::sync::Arc<KindDef>> {
    Catalog::built_in().kind(gvk).cloned()
}

fn definition(written: &Value) -> Result<std::sync::Arc<KindDef>, String> {
    match (written.text(&["apiVersion"]), written.text(&["kind"])) {
        ("v1", "Pod") => definition_of(&Gvk::new("", "v1", "Pod")).ok_or_else(|| "pods are not built in".to_owned()),
        ("", _) | (_, "") => Err("Object 'Kind' or 'apiVersion' is missing".to_owned()),
        (version, kind) => Err(format!("invalid pod: {version}, Kind={kind}")),
    }
}

/// Gives the pod its identity and its place.
fn place(pod: &mut Value, file: &str, node: &str, now: Time) {
    if pod.uid().is_empty() {
        let uid = identity(pod, file, node);
        pod.put(&["metadata", "uid"], uid);
    }
    let uid = pod.uid().to_owned();
    let name = format!("{}-{}", pod.name(), node.to_lowercase());
    pod.put(&["metadata", "name"], name);
    if pod.namespace().is_empty() {
        pod.put(&["metadata", "namespace"], "default");
    }
    for (key, value) in [(HASH, uid), (SOURCE, "file".to_owned()), (SEEN, now.to_rfc3339())] {
        pod.put(&["metadata", "annotations", key], value);
    }
    pod.put(&["spec", "nodeName"], node);
    // Trouble of the node is no reason to go.
    let mut tolerations = pod.items(&["spec", "tolerations"]).to_vec();
    let always = json!({"operator": "Exists", "effect": "NoExecute"});
    if !tolerations.contains(&always) {
        tolerations.push(always);
    }
    pod.put(&["spec", "tolerations"], tolerations);
}

/// 32 hexadecimal digits, by content.
fn identity(pod: &Value, file: &str, node: &str) -> String {
    let text = pod.to_string();
    let half = |salt: &str| brain::fingerprint([salt, node, file, text.as_str()]);
    half("first") + &half("second")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "image": "box"}]},
        });
        change(&mut pod);
        pod
    }

    fn made(written: Value) -> Result<Value, String> {
        pod(written, "web.yaml", "n1", Time::from_secs(5))
    }

    #[test]
    fn a_manifest_becomes_a_pod_of_the_node() {
        let pod = made(written(|_| ())).expect("a pod");
        assert_eq!((pod.name(), pod.namespace(), pod.text(&["spec", "nodeName"])), ("web-n1", "default", "n1"));
        assert_eq!((pod.uid().len(), pod.annotation(HASH)), (32, Some(pod.uid())));
        assert!(is_static(&pod));
        assert_eq!(pod.text(&["spec", "restartPolicy"]), "Always");
        assert_eq!((pod.text(&["status", "phase"]), pod.text(&["status", "qosClass"])), ("Pending", "BestEffort"));
        assert_eq!(pod["spec"]["tolerations"], json!([{"operator": "Exists", "effect": "NoExecute"}]));
    }

    #[test]
    fn another_content_is_another_pod() {
        let uid = |pod: Value, file: &str, second: i64| {
            super::pod(pod, file, "n", Time::from_secs(second)).expect("a pod").uid().to_owned()
        };
        let first = uid(written(|_| ()), "a", 1);
        assert_eq!(uid(written(|_| ()), "a", 2), first);
        assert_ne!(uid(written(|_| ()), "b", 1), first);
        assert_ne!(uid(written(|pod| pod.put(&["spec", "hostNetwork"], true)), "a", 1), first);
        assert_eq!(uid(written(|pod| pod.put(&["metadata", "uid"], "own")), "a", 1), "own");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let check = |change: &dyn Fn(&mut Value), expected: &str| {
            let refused = made(written(change)).expect_err("refused");
            assert!(refused.contains(expected), "{refused}");
        };
        check(&|pod| pod.put(&["kind"], "Deployment"), "invalid pod: v1, Kind=Deployment");
        check(&|pod| drop(pod.remove(&["apiVersion"])), "'apiVersion' is missing");
        check(&|pod| pod.put(&["spec", "containers"], json!([])), "spec.containers: Required value");
        check(&|pod| pod.put(&["spec", "containers"], "x"), "containers");
        check(&|pod| pod.put(&["metadata", "name"], "No_Name"), "metadata.name: Invalid value");
        check(&|pod| pod.put(&["spec", "serviceAccountName"], "x"), "static pods may not reference serviceaccounts");
        let volume = json!([{"name": "v", "configMap": {"name": "c"}}]);
        check(&|pod| pod.put(&["spec", "volumes"], volume.clone()), "static pods may not reference configmaps");
    }

    #[test]
    fn a_status_is_merged() {
        let pod = made(written(|_| ())).expect("a pod");
        let said = |pod: &Value, status: Value| with_status(pod, &json!({ "status": status }));
        let pod =
            said(&pod, json!({"phase": "Running", "conditions": [{"type": "A", "status": "True"}], "reason": "x"}));
        let pod = said(&pod, json!({"conditions": [{"type": "B", "status": "True"}], "reason": null}));
        assert_eq!(pod.text(&["status", "phase"]), "Running");
        assert_eq!(pod.items(&["status", "conditions"]).len(), 2);
        assert_eq!(pod.at(&["status", "reason"]), None);
    }
}
