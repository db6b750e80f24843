//! What a node agent may do beyond roles: read what its own pods refer to, keep its own Node, Lease and CSINode.
//!
//! Relations are read from the snapshot when asked for (pods of one namespace that are bound to the node), instead
//! of being kept in a graph: nothing can be stale, and a revoked relation is gone at the same revision.

use std::ops::ControlFlow;

use meta::ObjectExt;
use serde_json::Value;
use store::Snapshot;

use crate::authorizer::Decision;
use crate::pod_refs::{self, MIRROR_ANNOTATION};
use crate::rbac::PolicyRule;
use crate::{Attributes, bootstrap};

const NODE_LEASES: &str = "kube-node-lease";

/// The rules that apply to every node alike.
pub fn static_rules() -> Vec<PolicyRule> {
    bootstrap::cluster_role_rules("system:node")
}

/// Decides on a request of a node agent; has no opinion on anybody else.
pub fn authorize_node(snapshot: &Snapshot, node_rules: &[PolicyRule], asked: &Attributes) -> Decision {
    match asked.user.node() {
        None => no(""),
        Some("") => no(format!("unknown node for user {:?}", asked.user.name)),
        Some(node) => NodeCase { snapshot, node, asked }.decide(node_rules),
    }
}

struct NodeCase<'c> {
    snapshot: &'c Snapshot,
    node: &'c str,
    asked: &'c Attributes,
}

fn yes() -> Decision {
    Decision::Allow { reason: String::new() }
}

fn no(reason: impl Into<String>) -> Decision {
    Decision::NoOpinion { reason: reason.into() }
}

impl NodeCase<'_> {
    fn decide(&self, node_rules: &[PolicyRule]) -> Decision {
        let asked = self.asked;
        match (asked.group.as_str(), asked.resource.as_str(), asked.subresource.as_str()) {
            ("", "secrets" | "configmaps", _) => self.read_named(),
            ("", "persistentvolumeclaims", "status") => match self.verb() {
                "update" | "patch" => self.related(),
                _ => no("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims" | "persistentvolumes", _)
            | ("resource.k8s.io", "resourceclaims", _)
            | ("storage.k8s.io", "volumeattachments", _) => self.get_named(),
            ("", "serviceaccounts", _) => self.service_account(),
            ("coordination.k8s.io", "leases", _) => self.lease(),
            ("storage.k8s.io", "csinodes", _) => self.csi_node(),
            ("resource.k8s.io", "resourceslices", _) => self.resource_slice(),
            ("", "nodes", _) => self.node_object(),
            ("", "pods", _) => self.pod(),
            ("certificates.k8s.io", "podcertificaterequests", _) => self.pod_certificate_request(),
            _ if node_rules.iter().any(|rule| rule.allows(asked)) => yes(),
            _ => no(""),
        }
    }

    fn verb(&self) -> &str {
        &self.asked.verb
    }

    fn related(&self) -> Decision {
        if self.asked.name.is_empty() {
            return no("No Object name found");
        }
        match self.is_related() {
            true => yes(),
            false => no(format!("no relationship found between node '{}' and this object", self.node)),
        }
    }

    fn read_named(&self) -> Decision {
        match self.verb() {
            "get" | "list" | "watch" if !self.asked.subresource.is_empty() => no("cannot read subresource"),
            "get" | "list" | "watch" if self.asked.namespace.is_empty() => {
                no("can only read namespaced object of this type")
            }
            "get" | "list" | "watch" => self.related(),
            _ => no("can only read resources of this type"),
        }
    }

    fn get_named(&self) -> Decision {
        match self.verb() {
            "get" if self.asked.subresource.is_empty() => self.related(),
            "get" => no("cannot get subresource"),
            _ => no("can only get individual resources of this type"),
        }
    }

    fn service_account(&self) -> Decision {
        match (self.verb(), self.asked.subresource.as_str()) {
            ("get", "") => self.read_named(),
            ("create", "token") if !self.asked.name.is_empty() => self.related(),
            ("create", _) if !self.asked.name.is_empty() => no("can only create token subresource of serviceaccount"),
            _ => no("can only create tokens for individual service accounts"),
        }
    }

    /// The name is not known on create: the NodeRestriction admission step checks it there.
    fn lease(&self) -> Decision {
        match self.verb() {
            "get" | "create" | "update" | "patch" | "delete" => {}
            _ => return no("can only get, create, update, patch, or delete a node lease"),
        }
        if self.asked.namespace != NODE_LEASES {
            return no(format!("can only access leases in the {NODE_LEASES:?} system namespace"));
        }
        if self.verb() != "create" && self.asked.name != self.node {
            return no("can only access node lease with the same name as the requesting node");
        }
        yes()
    }

    fn csi_node(&self) -> Decision {
        match self.verb() {
            _ if !self.asked.subresource.is_empty() => no("cannot authorize CSINode subresources"),
            "create" => yes(),
            "get" | "update" | "patch" | "delete" if self.asked.name == self.node => yes(),
            "get" | "update" | "patch" | "delete" => {
                no("can only access CSINode with the same name as the requesting node")
            }
            _ => no("can only get, create, update, patch, or delete a CSINode"),
        }
    }

    fn resource_slice(&self) -> Decision {
        match self.verb() {
            _ if !self.asked.subresource.is_empty() => no("cannot authorize ResourceSlice subresources"),
            "create" => yes(),
            "get" | "update" | "patch" | "delete" => self.related(),
            "watch" | "list" | "deletecollection" if self.selects_own("spec.nodeName") => yes(),
            "watch" | "list" | "deletecollection" => {
                no("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, \
                     patch, delete, deletecollection"),
        }
    }

    fn pod_certificate_request(&self) -> Decision {
        match self.verb() {
            _ if !self.asked.subresource.is_empty() => {
                no("nodes may not access the status subresource of PodCertificateRequests")
            }
            "create" => yes(),
            "get" => self.related(),
            "list" | "watch" if self.selects_own("spec.nodeName") => yes(),
            "list" | "watch" => no("can only list/watch podcertificaterequests with nodeName field selector"),
            verb => no(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn node_object(&self) -> Decision {
        let (node, name) = (self.node, self.asked.name.as_str());
        match (self.asked.subresource.as_str(), self.verb()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => yes(),
            ("", "get" | "list" | "watch") if name == node => yes(),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                no(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                no(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => no(""),
        }
    }

    fn pod(&self) -> Decision {
        match (self.asked.subresource.as_str(), self.verb()) {
            ("", "get") => self.related(),
            ("", "list" | "watch") if self.selects_own("spec.nodeName") => yes(),
            ("", "list" | "watch") if !self.asked.name.is_empty() => self.related(),
            ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => yes(),
            _ => no(""),
        }
    }

    fn selects_own(&self, field: &str) -> bool {
        self.asked.field_selector.as_ref().is_some_and(|selector| selector.exact(field) == Some(self.node))
    }

    fn is_related(&self) -> bool {
        let (namespace, name) = (self.asked.namespace.as_str(), self.asked.name.as_str());
        match self.asked.resource.as_str() {
            "secrets" => {
                self.own_pod(namespace, |pod| pod_refs::secret_names(pod).contains(&name))
                    || self.volume_secret(namespace, name)
            }
            "configmaps" => self.own_pod(namespace, |pod| pod_refs::config_map_names(pod).contains(&name)),
            "persistentvolumeclaims" => self.own_pod(namespace, |pod| pod_refs::uses_claim(pod, name)),
            "persistentvolumes" => {
                self.read("core/persistentvolumes", name).is_some_and(|volume| self.claim_of(&volume))
            }
            "resourceclaims" => self.own_pod(namespace, |pod| pod_refs::uses_resource_claim(pod, name)),
            "serviceaccounts" => self.own_pod(namespace, |pod| pod.text(&["spec", "serviceAccountName"]) == name),
            "volumeattachments" => self.names_own("storage.k8s.io/volumeattachments", name),
            "resourceslices" => self.names_own("resource.k8s.io/resourceslices", name),
            "podcertificaterequests" => {
                self.names_own("certificates.k8s.io/podcertificaterequests", &format!("{namespace}/{name}"))
            }
            "pods" => self.names_own("core/pods", &format!("{namespace}/{name}")),
            _ => false,
        }
    }

    fn names_own(&self, collection: &str, item: &str) -> bool {
        self.read(collection, item).is_some_and(|object| object.text(&["spec", "nodeName"]) == self.node)
    }

    fn read(&self, collection: &str, item: &str) -> Option<Value> {
        serde_json::from_slice(&self.snapshot.get(collection, item)?.value).ok()
    }

    /// Whether a pod that is bound to the node, and is no mirror pod (which the node made itself), fits.
    fn own_pod(&self, namespace: &str, fits: impl Fn(&Value) -> bool) -> bool {
        // Stored bytes are canonical, so a cheap search for the field spares parsing the pods of other nodes.
        let Ok(bound) = serde_json::to_string(self.node).map(|node| format!("\"nodeName\":{node}")) else {
            return false;
        };
        let prefix = format!("{namespace}/");
        let found = self.snapshot.range("core/pods", &prefix, "").try_for_each(|(_, entry)| {
            let text = std::str::from_utf8(&entry.value).unwrap_or("");
            if !text.contains(&bound) {
                return ControlFlow::Continue(());
            }
            let pod: Value = serde_json::from_str(text).unwrap_or(Value::Null);
            let own = pod.text(&["spec", "nodeName"]) == self.node && pod.annotation(MIRROR_ANNOTATION).is_none();
            if own && fits(&pod) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found.is_break()
    }

    fn claim_of(&self, volume: &Value) -> bool {
        let claim = |field| volume.text(&["spec", "claimRef", field]);
        !claim("name").is_empty() && self.own_pod(claim("namespace"), |pod| pod_refs::uses_claim(pod, claim("name")))
    }

    fn volume_secret(&self, namespace: &str, name: &str) -> bool {
        let quoted = format!("{name:?}");
        self.snapshot.range("core/persistentvolumes", "", "").any(|(_, entry)| {
            let text = std::str::from_utf8(&entry.value).unwrap_or("");
            text.contains(&quoted)
                && serde_json::from_str::<Value>(text).is_ok_and(|volume| {
                    pod_refs::volume_uses_secret(&volume, namespace, name) && self.claim_of(&volume)
                })
        })
    }
}
