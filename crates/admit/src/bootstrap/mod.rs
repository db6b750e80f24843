//! The objects a cluster starts with: roles and bindings, namespaces, priority classes, flow control. A plain list;
//! writing what is missing is somebody else's task.

mod flow_control;
mod roles;

use serde_json::{Value, json};

pub use roles::{cluster_role_rules, controller_account, roles};

/// The namespaces that always exist.
pub const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Every object of the list, namespaces first, each before what needs it.
pub fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    all.extend(priority_classes());
    all.extend(flow_control::objects());
    all.extend(roles());
    all
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn priority_classes() -> Vec<Value> {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "globalDefault": false,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    let node = "Used for system critical pods that must not be moved from their current node.";
    let cluster = "Used for system critical pods that must run in the cluster, but can be moved to another node if \
                   necessary.";
    vec![class("system-node-critical", 2_000_001_000, node), class("system-cluster-critical", 2_000_000_000, cluster)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::ObjectExt;
    use std::collections::BTreeSet;

    #[test]
    fn objects_are_complete_and_unique() {
        let all = objects();
        let names: BTreeSet<String> =
            all.iter().map(|o| format!("{} {}/{}", o.text(&["kind"]), o.namespace(), o.name())).collect();
        assert_eq!(names.len(), all.len());
        for wanted in [
            "Namespace /kube-node-lease",
            "ClusterRole /cluster-admin",
            "ClusterRole /system:controller:deployment-controller",
            "ClusterRoleBinding /system:controller:deployment-controller",
            "ClusterRole /system:auth-delegator",
            "Role kube-system/extension-apiserver-authentication-reader",
            "RoleBinding kube-system/system::leader-locking-kube-scheduler",
            "PriorityClass /system-node-critical",
            "FlowSchema /catch-all",
            "PriorityLevelConfiguration /exempt",
        ] {
            assert!(names.contains(wanted), "{wanted}");
        }
        assert!(all.iter().all(|object| object.gvk().is_some()));
    }
}
