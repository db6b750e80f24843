//! NodeRestriction: a node agent changes only itself and its pods, whatever its credential allows.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{ApiError, GroupResource, ObjectExt};
use serde_json::{Map, Value};

use crate::admission::{Case, Effects, Operation};
use crate::csr::{CsrFacts, KUBELET_CLIENT, KUBELET_SERVING};
use crate::pod_refs::{self, MIRROR_ANNOTATION};

const NODE_LEASES: &str = "kube-node-lease";

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let attributes = case.request.attributes;
    let Some(node) = attributes.user.node() else { return Ok(()) };
    if node.is_empty() {
        let why = format!("could not determine node from user {:?}", attributes.user.name);
        return Err(case.forbids(new, why));
    }
    let check = NodeCase { case, node, new };
    let (resource, subresource) = (attributes.resource.as_str(), attributes.subresource.as_str());
    match (attributes.group.as_str(), resource, subresource) {
        ("", "pods", "") => check.pod(),
        ("", "pods", "status") => check.pod_status(),
        ("", "pods", "eviction") => check.eviction(),
        ("", "pods", other) => {
            check.refuse(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
        }
        ("", "nodes", _) => check.node_object(),
        ("", "persistentvolumeclaims", "status") => check.claim_status(),
        ("", "persistentvolumeclaims", _) => check.refuse("may only update PVC status"),
        ("", "serviceaccounts", "token") => check.token(),
        ("coordination.k8s.io", "leases", _) => check.lease(),
        ("storage.k8s.io", "csinodes", _) => check.own_name("CSINode"),
        ("resource.k8s.io", "resourceslices", _) => check.resource_slice(),
        ("certificates.k8s.io", "certificatesigningrequests", _) => check.signing_request(),
        ("certificates.k8s.io", "podcertificaterequests", _) => check.pod_certificate(),
        _ => Ok(()),
    }
}

struct NodeCase<'c> {
    case: &'c Case<'c>,
    node: &'c str,
    new: Option<&'c Value>,
}

type Outcome = Result<(), ApiError>;

impl NodeCase<'_> {
    fn refuse(&self, why: impl std::fmt::Display) -> Outcome {
        Err(self.case.forbids(self.new, why))
    }

    fn operation(&self) -> Operation {
        self.case.request.operation
    }

    fn name(&self) -> &str {
        match self.case.request.attributes.name.as_str() {
            "" => self.new.map_or("", |new| new.name()),
            name => name,
        }
    }

    fn old(&self) -> &Value {
        self.case.old.unwrap_or(&Value::Null)
    }

    fn object(&self) -> &Value {
        self.new.unwrap_or(&Value::Null)
    }

    fn read_pod(&self, name: &str) -> Result<Value, ApiError> {
        let pod = self.case.world.read_in("core/pods", self.case.namespace(), name);
        pod.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "pods"), name))
    }

    fn is_own(&self, pod: &Value) -> bool {
        pod.text(&["spec", "nodeName"]) == self.node
    }

    fn pod(&self) -> Outcome {
        let node = self.node;
        match self.operation() {
            Operation::Create => self.mirror_pod(),
            Operation::Delete if self.is_own(&self.read_pod(self.name())?) => Ok(()),
            Operation::Delete => {
                self.refuse(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
            }
            other => self.refuse(format!(
                "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                other.as_str()
            )),
        }
    }

    fn mirror_pod(&self) -> Outcome {
        let (node, pod) = (self.node, self.object());
        if pod.annotation(MIRROR_ANNOTATION).is_none() {
            return self.refuse(format!(
                "pod does not have {MIRROR_ANNOTATION:?} annotation, node {node:?} can only create mirror pods"
            ));
        }
        if !self.is_own(pod) {
            return self.refuse(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
        }
        self.mirror_owner(pod)?;
        match pod_refs::api_reference(pod) {
            Some(resource) => self.refuse(format!("node {node:?} can not create pods that reference {resource}")),
            None => Ok(()),
        }
    }

    fn mirror_owner(&self, pod: &Value) -> Outcome {
        let node = self.node;
        let owner = match pod.owner_references() {
            [owner] => owner,
            [] => return self.refuse(self.needs("an owner reference set to itself")),
            _ => return self.refuse(self.needs("a single owner reference set to itself")),
        };
        let is_node = owner.text(&["apiVersion"]) == "v1" && owner.text(&["kind"]) == "Node";
        if !is_node || owner.text(&["name"]) != node {
            return self.refuse(self.needs("an owner reference set to itself"));
        }
        if !owner.flag(&["controller"]) {
            return self.refuse(self.needs("a controller owner reference set to itself"));
        }
        if owner.flag(&["blockOwnerDeletion"]) {
            return self.refuse(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
        }
        let stored = self.case.world.read("core/nodes", node);
        let stored = stored.ok_or_else(|| ApiError::not_found(&GroupResource::new("", "nodes"), node))?;
        let (given, actual) = (owner.text(&["uid"]), stored.uid());
        if given != actual {
            return self.refuse(format!("node {node} UID mismatch: expected {given} got {actual}"));
        }
        Ok(())
    }

    fn needs(&self, what: &str) -> String {
        format!("node {:?} can only create pods with {what}", self.node)
    }

    fn pod_status(&self) -> Outcome {
        let (node, old, new) = (self.node, self.old(), self.object());
        if self.operation() != Operation::Update {
            return self.refuse(format!("unexpected operation {:?}", self.operation().as_str()));
        }
        if !self.is_own(old) {
            return self
                .refuse(format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself"));
        }
        if labels(old) != labels(new) {
            return self.refuse(format!("node {node:?} cannot update labels through pod status"));
        }
        let frozen = [
            ("resourceClaimStatuses", "resource claim statues"),
            ("extendedResourceClaimStatus", "extended resource claim status"),
            ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
        ];
        let changed = frozen.iter().find(|(field, _)| old.at(&["status", field]) != new.at(&["status", field]));
        match changed {
            Some((_, words)) => self.refuse(format!("node {node:?} cannot update {words}")),
            None => Ok(()),
        }
    }

    fn eviction(&self) -> Outcome {
        if self.operation() != Operation::Create {
            return self.refuse(format!("unexpected operation {}", self.operation()));
        }
        if self.name().is_empty() {
            return self.refuse("could not determine pod from request data");
        }
        if self.is_own(&self.read_pod(self.name())?) {
            return Ok(());
        }
        self.refuse(format!("node {} can only evict pods with spec.nodeName set to itself", self.node))
    }

    fn node_object(&self) -> Outcome {
        let (node, old, new) = (self.node, self.old(), self.object());
        if self.name() != node {
            return self.refuse(format!("node {node:?} is not allowed to modify node {:?}", self.name()));
        }
        match self.operation() {
            Operation::Create => {
                let forbidden = forbidden_labels(None, labels(new));
                if forbidden.is_empty() {
                    return Ok(());
                }
                self.refuse(format!("node {node:?} is not allowed to set the following labels: {forbidden}"))
            }
            Operation::Update => {
                if new.items(&["spec", "taints"]) != old.items(&["spec", "taints"]) {
                    return self.refuse(format!("node {node:?} is not allowed to modify taints"));
                }
                if new.owner_references() != old.owner_references() {
                    return self.refuse(format!("node {node:?} is not allowed to modify ownerReferences"));
                }
                let forbidden = forbidden_labels(labels(old), labels(new));
                if forbidden.is_empty() {
                    return Ok(());
                }
                self.refuse(format!("is not allowed to modify labels: {forbidden}"))
            }
            _ => Ok(()),
        }
    }

    fn claim_status(&self) -> Outcome {
        if self.operation() != Operation::Update {
            return self.refuse(format!("unexpected operation {:?}", self.operation().as_str()));
        }
        let rest = |claim: &Value| {
            let mut claim = claim.clone();
            for path in [
                &["metadata", "resourceVersion"][..],
                &["metadata", "managedFields"],
                &["status", "capacity"],
                &["status", "conditions"],
                &["status", "allocatedResourceStatuses"],
                &["status", "allocatedResources"],
            ] {
                claim.remove(path);
            }
            claim
        };
        if rest(self.old()) == rest(self.object()) {
            return Ok(());
        }
        let node = self.node;
        self.refuse(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions"
        ))
    }

    fn token(&self) -> Outcome {
        if self.operation() != Operation::Create {
            return Ok(());
        }
        let reference = self.object().at(&["spec", "boundObjectRef"]).unwrap_or(&Value::Null);
        let is_pod = reference.text(&["apiVersion"]) == "v1" && reference.text(&["kind"]) == "Pod";
        let (name, uid) = (reference.text(&["name"]), reference.text(&["uid"]));
        if !is_pod || name.is_empty() {
            return self.refuse("node requested token not bound to a pod");
        }
        if uid.is_empty() {
            return self.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.read_pod(name)?;
        if pod.uid() != uid {
            return self.refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            ));
        }
        if !self.is_own(&pod) {
            return self.refuse("node requested token bound to a pod scheduled on a different node");
        }
        self.audience(&pod)
    }

    /// A node gets tokens only for audiences that a volume of the pod names, or that it is granted.
    fn audience(&self, pod: &Value) -> Outcome {
        let audience = match self.object().items(&["spec", "audiences"]) {
            [] => "",
            [one] => one.as_str().unwrap_or(""),
            _ => return self.refuse("node may only request 0 or 1 audiences"),
        };
        if pod_refs::volumes(pod).iter().any(|volume| self.volume_names(pod, volume, audience)) {
            return Ok(());
        }
        let attributes = self.case.request.attributes;
        let verb = "request-serviceaccounts-token-audience";
        let asked = attributes.on_the_side(verb, "", audience, &attributes.namespace, &attributes.name);
        if (self.case.world.may)(&asked) {
            return Ok(());
        }
        let user = &attributes.user.name;
        self.refuse(format!("{user} is not authorized to request tokens for audience {audience:?}"))
    }

    fn volume_names(&self, pod: &Value, volume: &Value, audience: &str) -> bool {
        let sources = volume.items(&["projected", "sources"]);
        let token = |source: &Value| {
            source.get("serviceAccountToken").is_some_and(|token| token.text(&["audience"]) == audience)
        };
        sources.iter().any(token)
            || self.driver_of(pod, volume).is_some_and(|driver| self.driver_names(&driver, audience))
    }

    fn driver_of(&self, pod: &Value, volume: &Value) -> Option<String> {
        let claim = match volume.text(&["persistentVolumeClaim", "claimName"]) {
            "" if volume.get("ephemeral").is_some() => format!("{}-{}", pod.name(), volume.text(&["name"])),
            "" => return volume.at(&["csi", "driver"]).and_then(Value::as_str).map(str::to_owned),
            claim => claim.to_owned(),
        };
        let claim = self.case.world.read_in("core/persistentvolumeclaims", self.case.namespace(), &claim)?;
        let volume = self.case.world.read("core/persistentvolumes", claim.text(&["spec", "volumeName"]))?;
        volume.at(&["spec", "csi", "driver"]).and_then(Value::as_str).map(str::to_owned)
    }

    fn driver_names(&self, driver: &str, audience: &str) -> bool {
        let driver = self.case.world.read("storage.k8s.io/csidrivers", driver);
        driver.is_some_and(|driver| {
            driver.items(&["spec", "tokenRequests"]).iter().any(|request| request.text(&["audience"]) == audience)
        })
    }

    fn lease(&self) -> Outcome {
        if self.case.namespace() != NODE_LEASES {
            return self.refuse(format!("can only access leases in the {NODE_LEASES:?} system namespace"));
        }
        self.own_name("node lease")
    }

    fn own_name(&self, what: &str) -> Outcome {
        if self.name() == self.node {
            return Ok(());
        }
        self.refuse(format!("can only access {what} with the same name as the requesting node"))
    }

    fn resource_slice(&self) -> Outcome {
        let creates = self.operation() == Operation::Create;
        if creates && self.object().text(&["spec", "nodeName"]) != self.node {
            return self.refuse("can only create ResourceSlice with the same NodeName as the requesting node");
        }
        Ok(())
    }

    /// A node may ask only for its own certificate.
    fn signing_request(&self) -> Outcome {
        let request = self.object();
        let signer = request.text(&["spec", "signerName"]);
        let own = self.case.is_for("certificates.k8s.io", "certificatesigningrequests", "");
        if self.operation() != Operation::Create || !own || ![KUBELET_CLIENT, KUBELET_SERVING].contains(&signer) {
            return Ok(());
        }
        let pem = STANDARD.decode(request.text(&["spec", "request"]));
        let facts = pem.map_err(|error| error.to_string()).and_then(|pem| CsrFacts::parse(&pem));
        let facts = match facts {
            Ok(facts) => facts,
            Err(why) => return self.refuse(format!("unable to parse csr: {why}")),
        };
        if facts.common_name == format!("system:node:{}", self.node) {
            return Ok(());
        }
        self.refuse(format!("can only create a node CSR with CN=system:node:{}", self.node))
    }

    fn pod_certificate(&self) -> Outcome {
        if self.operation() != Operation::Create || !self.case.request.attributes.subresource.is_empty() {
            return self.refuse(format!("unexpected operation {}", self.operation()));
        }
        let (request, node) = (self.object(), self.node);
        let spec = |field: &str| request.text(&["spec", field]);
        let given = spec("nodeName");
        if given != node {
            let why =
                format!("PodCertificateRequest.Spec.NodeName={given:?}, which is not the requesting node {node:?}");
            return self.refuse(why);
        }
        let pod = self.read_pod(spec("podName"))?;
        let path = format!("{}/{}", self.case.namespace(), spec("podName"));
        if pod.uid() != spec("podUID") || pod.text(&["spec", "serviceAccountName"]) != spec("serviceAccountName") {
            return self.refuse(format!("PodCertificateRequest for pod {path:?} differs from the running pod"));
        }
        if !self.is_own(&pod) {
            return self
                .refuse(format!("pod {path:?} is not running on node {given:?} named in the PodCertificateRequest"));
        }
        if pod.annotation(MIRROR_ANNOTATION).is_some() {
            return self.refuse(format!("pod {path:?} is a mirror pod"));
        }
        let signer = spec("signerName");
        let sources = pod_refs::volumes(&pod).iter().flat_map(|volume| volume.items(&["projected", "sources"]));
        if sources.into_iter().any(|source| source.text(&["podCertificate", "signerName"]) == signer) {
            return Ok(());
        }
        self.refuse(format!("pod {path:?} does not mount a podCertificate projected volume for signer {signer:?}"))
    }
}

fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.map(&["metadata", "labels"]).filter(|labels| !labels.is_empty())
}

/// Labels in Kubernetes' own domains that node agents may set on themselves.
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

fn forbidden_labels(old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> String {
    let keys = old.into_iter().chain(new).flat_map(Map::keys);
    let value = |labels: Option<&Map<String, Value>>, key: &str| labels.and_then(|labels| labels.get(key)).cloned();
    let changed: BTreeSet<&String> = keys.filter(|key| value(old, key) != value(new, key)).collect();
    let forbidden: Vec<&str> = changed.into_iter().map(String::as_str).filter(|key| is_forbidden(key)).collect();
    forbidden.join(", ")
}

fn is_forbidden(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let under = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    let own = OWN_LABELS.contains(&key) || under("kubelet.kubernetes.io") || under("node.kubernetes.io");
    under("node-restriction.kubernetes.io") || ((under("kubernetes.io") || under("k8s.io")) && !own)
}

#[cfg(test)]
#[path = "node_restriction_tests.rs"]
mod tests;
