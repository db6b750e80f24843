use serde_json::json;

use super::super::testing::{Asked, Scene, create, delete, update};
use super::*;
use crate::UserInfo;

fn node(asked: Asked) -> Asked {
    asked.by(UserInfo::new("system:node:n1", ["system:nodes"]))
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": format!("{name}-uid")},
    "spec": {"nodeName": node, "volumes": [
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
    ]}})
}

fn scene() -> Scene {
    Scene::new(&[
        pod("own", "n1"),
        pod("other", "n2"),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "n1-uid"}}),
    ])
}

fn outcome(asked: Asked, old: Option<Value>, new: Option<Value>) -> Result<(), String> {
    let (scene, asked) = (scene(), node(asked));
    let found = validate(&scene.case(&asked, old.as_ref()), new.as_ref(), &mut Effects::default());
    found.map_err(|error| error.message)
}

fn refused(asked: Asked, old: Option<Value>, new: Option<Value>, why: &str) {
    let message = outcome(asked, old, new).unwrap_err();
    assert!(message.ends_with(why), "{message}");
}

#[test]
fn only_own_pods_are_deleted_and_reported_on() {
    assert_eq!(outcome(delete("", "pods", "d", "own"), None, None), Ok(()));
    refused(
        delete("", "pods", "d", "other"),
        None,
        None,
        "node \"n1\" can only delete pods with spec.nodeName set to itself",
    );
    let status = || update("", "pods/status", "d", "x");
    assert_eq!(outcome(status(), Some(pod("own", "n1")), Some(pod("own", "n1"))), Ok(()));
    refused(
        status(),
        Some(pod("other", "n2")),
        Some(pod("other", "n1")),
        "node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
    );
    let mut labelled = pod("own", "n1");
    labelled.put(&["metadata", "labels", "a"], "b");
    refused(status(), Some(pod("own", "n1")), Some(labelled), "node \"n1\" cannot update labels through pod status");
}

fn mirror(change: impl Fn(&mut Value)) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1-uid", "controller": true});
    let mut pod = json!({
        "metadata": {"name": "m", "annotations": {MIRROR_ANNOTATION: "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    });
    change(&mut pod);
    pod
}

#[test]
fn mirror_pods_reach_nothing() {
    let asked = || create("", "pods", "d", "m");
    assert_eq!(outcome(asked(), None, Some(mirror(|_| {}))), Ok(()));
    let check = |change: &dyn Fn(&mut Value), why: &str| refused(asked(), None, Some(mirror(change)), why);
    check(&|p| drop(p.remove(&["metadata", "annotations"])), "node \"n1\" can only create mirror pods");
    check(&|p| p["spec"]["nodeName"] = json!("n2"), "can only create pods with spec.nodeName set to itself");
    check(
        &|p| p["metadata"]["ownerReferences"] = json!([]),
        "can only create pods with an owner reference set to itself",
    );
    check(
        &|p| p["metadata"]["ownerReferences"][0]["uid"] = json!("old"),
        "node n1 UID mismatch: expected old got n1-uid",
    );
    check(&|p| p["spec"]["serviceAccountName"] = json!("sa"), "can not create pods that reference serviceaccounts");
    check(
        &|p| p["spec"]["resourceClaims"] = json!([{"name": "r"}]),
        "can not create pods that reference resourceclaims",
    );
    for (source, word) in
        [("secret", "secrets (via secret volumes)"), ("persistentVolumeClaim", "persistentvolumeclaims")]
    {
        check(&|p| p["spec"]["volumes"] = json!([{"name": "v", source: {}}]), word);
    }
    for list in pod_refs::CONTAINER_LISTS {
        let env = json!([{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]);
        check(&|p| p["spec"][list] = env.clone(), "can not create pods that reference secrets");
    }
}

#[test]
fn a_node_keeps_its_labels_taints_and_owners() {
    let object = |change: &dyn Fn(&mut Value)| {
        let mut object = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}, "spec": {}});
        change(&mut object);
        Some(object)
    };
    let check = |change: &dyn Fn(&mut Value), why: &str| {
        refused(update("", "nodes", "", "n1"), object(&|_| {}), object(change), why);
    };
    check(&|n| n["spec"]["taints"] = json!([{"key": "x"}]), "node \"n1\" is not allowed to modify taints");
    check(
        &|n| n["metadata"]["ownerReferences"] = json!([{"name": "me"}]),
        "node \"n1\" is not allowed to modify ownerReferences",
    );
    for key in ["node-restriction.kubernetes.io/tier", "x.node-restriction.kubernetes.io/a", "example.k8s.io/a"] {
        let why = format!("is not allowed to modify labels: {key}");
        check(&|n| n.put(&["metadata", "labels", key], "x"), &why);
    }
    for key in ["mine", "example.com/a", "kubelet.kubernetes.io/a", "topology.kubernetes.io/zone"] {
        let new = object(&|n| n.put(&["metadata", "labels", key], "x"));
        assert_eq!(outcome(update("", "nodes", "", "n1"), object(&|_| {}), new), Ok(()), "{key}");
    }
    let other = "node \"n1\" is not allowed to modify node \"n2\"";
    refused(update("", "nodes", "", "n2"), object(&|_| {}), object(&|_| {}), other);
    refused(delete("", "nodes", "", "n2"), None, None, other);
}

#[test]
fn tokens_only_for_own_pods_and_their_audiences() {
    let request = |pod: &str, uid: &str, audience: &str| {
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        Some(json!({"spec": {"audiences": [audience], "boundObjectRef": reference}}))
    };
    let asked = || create("", "serviceaccounts/token", "d", "sa");
    assert_eq!(outcome(asked(), None, request("own", "own-uid", "vault")), Ok(()));
    refused(
        asked(),
        None,
        request("own", "own-uid", "bank"),
        "system:node:n1 is not authorized to request tokens for audience \"bank\"",
    );
    refused(
        asked(),
        None,
        request("other", "other-uid", "vault"),
        "node requested token bound to a pod scheduled on a different node",
    );
    refused(asked(), None, request("own", "", "vault"), "node requested token with a pod binding without a uid");
    refused(asked(), None, Some(json!({"spec": {}})), "node requested token not bound to a pod");
}

#[test]
fn leases_and_slices_are_its_own() {
    let lease = |namespace: &str, name: &str| {
        outcome(update("coordination.k8s.io", "leases", namespace, name), None, Some(json!({}))).is_ok()
    };
    assert!(lease(NODE_LEASES, "n1"));
    assert!(!lease(NODE_LEASES, "n2"));
    assert!(!lease("kube-system", "n1"));
    let slice = |node: &str| {
        let new = json!({"spec": {"nodeName": node}});
        outcome(create("resource.k8s.io", "resourceslices", "", "s"), None, Some(new)).is_ok()
    };
    assert!(slice("n1"));
    assert!(!slice("n2"));
}

#[test]
fn others_are_not_concerned() {
    let (scene, asked) = (scene(), delete("", "pods", "d", "other"));
    assert_eq!(validate(&scene.case(&asked, None), None, &mut Effects::default()), Ok(()));
}
