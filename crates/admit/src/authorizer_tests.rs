use serde_json::json;
use store::{Mem, Store};

use super::*;
use crate::testing::put;

fn asked(user: UserInfo, verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        user: Arc::new(user),
        verb: verb.into(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    }
}

fn node(name: &str) -> UserInfo {
    UserInfo::new(format!("system:node:{name}"), ["system:nodes"])
}

fn world() -> Mem {
    let store = Mem::new();
    put(
        &store,
        &[
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {
                "nodeName": "n1", "serviceAccountName": "sa",
                "volumes": [{"name": "s", "secret": {"secretName": "mine"}},
                            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}}],
            }}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q", "namespace": "d"}, "spec": {
                "nodeName": "n2", "volumes": [{"name": "s", "secret": {"secretName": "others"}}],
            }}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m", "namespace": "d",
                "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {
                "nodeName": "n1", "volumes": [{"name": "s", "secret": {"secretName": "stolen"}}],
            }}),
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
                "claimRef": {"namespace": "d", "name": "claim"},
                "csi": {"nodeStageSecretRef": {"namespace": "sys", "name": "csi"}},
            }}),
        ],
    );
    store
}

#[test]
fn nodes_reach_what_their_own_pods_refer_to() {
    let (snapshot, authorizer) = (world().snapshot(), Authorizer::default());
    let check = |verb: &str, resource: &str, namespace: &str, name: &str, expected: bool| {
        let asked = asked(node("n1"), verb, resource, namespace, name);
        let decision = authorizer.authorize(&snapshot, &asked);
        assert_eq!(decision.is_allowed(), expected, "{verb} {resource} {namespace}/{name}: {decision:?}");
    };
    check("get", "secrets", "d", "mine", true);
    check("get", "secrets", "d", "others", false);
    check("get", "secrets", "d", "stolen", false);
    check("get", "secrets", "other", "mine", false);
    check("list", "secrets", "d", "", false);
    check("update", "secrets", "d", "mine", false);
    check("get", "secrets", "sys", "csi", true);
    check("get", "persistentvolumes", "", "pv", true);
    check("get", "persistentvolumeclaims", "d", "claim", true);
    check("get", "pods", "d", "p", true);
    check("get", "pods", "d", "q", false);
    check("list", "pods", "d", "", false);
    check("get", "nodes", "", "n1", true);
    check("get", "nodes", "", "n2", false);
    check("delete", "nodes", "", "n1", false);
    check("list", "services", "", "", true);
    check("create", "deployments", "d", "", false);
}

#[test]
fn nodes_list_by_their_own_name() {
    let (snapshot, authorizer) = (world().snapshot(), Authorizer::default());
    let selector = |node: &str| meta::fields::FieldSelector {
        requirements: vec![meta::fields::Requirement {
            field: "spec.nodeName".into(),
            equals: true,
            value: node.into(),
        }],
    };
    let list = asked(node("n1"), "list", "pods", "", "");
    let with = |name: &str| Attributes { field_selector: Some(selector(name)), ..list.clone() };
    assert!(authorizer.authorize(&snapshot, &with("n1")).is_allowed());
    let refused = authorizer.authorize(&snapshot, &with("n2"));
    assert_eq!(refused.reason(), "node: can only list/watch pods with spec.nodeName field selector");
}

#[test]
fn tokens_only_for_accounts_of_own_pods() {
    let (snapshot, authorizer) = (world().snapshot(), Authorizer::default());
    let token = |name: &str| Attributes {
        subresource: "token".into(),
        ..asked(node("n1"), "create", "serviceaccounts", "d", name)
    };
    assert!(authorizer.authorize(&snapshot, &token("sa")).is_allowed());
    assert!(!authorizer.authorize(&snapshot, &token("default")).is_allowed());
}

#[test]
fn masters_may_everything_and_nobody_else_unknown_verbs() {
    let (snapshot, authorizer) = (world().snapshot(), Authorizer::default());
    let master = asked(UserInfo::new("root", [MASTERS]), "frobnicate", "x", "", "");
    assert!(authorizer.authorize(&snapshot, &master).is_allowed());
    let nobody = asked(UserInfo::anonymous(), "frobnicate", "x", "", "");
    assert_eq!(authorizer.authorize(&snapshot, &nobody), Decision::NoOpinion { reason: String::new() });
}

#[test]
fn a_change_of_roles_is_seen_at_once() {
    let (store, authorizer) = (Mem::new(), Authorizer::default());
    let ann = asked(UserInfo::new("ann", [""; 0]), "get", "pods", "d", "p");
    assert!(!authorizer.authorize(&store.snapshot(), &ann).is_allowed());
    put(
        &store,
        &[
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                   "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                   "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
                   "subjects": [{"kind": "User", "name": "ann"}]}),
        ],
    );
    assert!(authorizer.authorize(&store.snapshot(), &ann).is_allowed());
    let before = authorizer.view(&store.snapshot());
    put(&store, &[json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "d"}})]);
    assert!(Arc::ptr_eq(&before, &authorizer.view(&store.snapshot())), "other writes keep the index");
}
