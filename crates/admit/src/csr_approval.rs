//! Which requests for certificates of nodes are approved without a person: those that the asker is allowed to have
//! approved, and that ask for nothing else than a node's certificates are.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::ObjectExt;
use serde_json::Value;

use crate::csr::{CsrFacts, KUBELET_CLIENT, KUBELET_SERVING, check_signer};
use crate::{Attributes, UserInfo};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const NODE_PREFIX: &str = "system:node:";

/// The world as far as a decision needs it.
pub struct Surroundings<'w> {
    /// Whether somebody may do something.
    pub may: &'w dyn Fn(&Attributes) -> bool,
    /// Whether there is a Node of this name.
    pub has_node: &'w dyn Fn(&str) -> bool,
    /// Whether a name is the API server's own: nobody else may serve by it.
    pub is_reserved: &'w dyn Fn(&str) -> bool,
}

/// Why a pending request is approved, in upstream's words where it has some; `None` leaves it to people.
pub fn approval(request: &Value, around: &Surroundings<'_>) -> Option<&'static str> {
    let pem = STANDARD.decode(request.text(&["spec", "request"])).ok()?;
    let facts = CsrFacts::parse(&pem).ok()?;
    let texts = request.items(&["spec", "usages"]).iter().filter_map(Value::as_str);
    let usages: Vec<String> = texts.map(str::to_owned).collect();
    let signer = request.text(&["spec", "signerName"]);
    if facts.unusual_subject || check_signer(signer, &facts, &usages) != Ok(true) {
        return None;
    }
    let asker = asker(request);
    let is_own = asker.name == facts.common_name;
    let may = |subresource: &str| (around.may)(&asked(&asker, subresource));
    let node =
        facts.common_name.strip_prefix(NODE_PREFIX).filter(|name| meta::name::dns1123_subdomain(name).is_empty())?;
    match signer {
        KUBELET_CLIENT if is_own && may("selfnodeclient") => {
            Some("Auto approving self kubelet client certificate after SubjectAccessReview.")
        }
        // Whoever holds a token may become a new node, but not one that there is.
        KUBELET_CLIENT if !is_own && may("nodeclient") && !(around.has_node)(node) => {
            Some("Auto approving kubelet client certificate after SubjectAccessReview.")
        }
        KUBELET_SERVING if is_own && asker.node() == Some(node) && serves_as(node, &facts, around) => {
            Some("Auto approving kubelet serving certificate: its only name is the node's own.")
        }
        _ => None,
    }
}

/// Whether a node would serve by its own name and nothing else. Addresses are what a node says of itself; with the API
/// server's among them its certificate would be good for playing the API server.
fn serves_as(node: &str, facts: &CsrFacts, around: &Surroundings<'_>) -> bool {
    facts.dns_names == [node] && facts.ip_addresses.is_empty() && !(around.is_reserved)(node)
}

fn asker(request: &Value) -> UserInfo {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = request.map(&["spec", "extra"]).into_iter().flatten();
    let extra: BTreeMap<String, Vec<String>> = extra.map(|(key, value)| (key.clone(), texts(value))).collect();
    UserInfo {
        name: request.text(&["spec", "username"]).to_owned(),
        uid: request.text(&["spec", "uid"]).to_owned(),
        groups: request.at(&["spec", "groups"]).map(texts).unwrap_or_default(),
        extra,
    }
}

fn asked(asker: &UserInfo, subresource: &str) -> Attributes {
    Attributes {
        user: Arc::new(asker.clone()),
        verb: "create".to_owned(),
        group: GROUP.to_owned(),
        version: "*".to_owned(),
        resource: REQUESTS.to_owned(),
        subresource: subresource.to_owned(),
        ..Attributes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_asker_is_who_the_server_wrote_down() {
        let request = json!({"spec": {"username": "system:node:a", "groups": ["system:nodes"], "extra": {"k": ["v"]}}});
        let found = asker(&request);
        assert_eq!((found.node(), found.extra["k"].as_slice()), (Some("a"), &["v".to_owned()][..]));
    }

    #[test]
    fn a_node_serves_by_its_own_name_alone() {
        let around =
            Surroundings { may: &|_| true, has_node: &|_| true, is_reserved: &|name| name == "kubernetes.default.svc" };
        let check = |node: &str, dns: &[&str], ips: &[&str], expected: bool| {
            let facts = CsrFacts {
                dns_names: dns.iter().map(|name| (*name).to_owned()).collect(),
                ip_addresses: ips.iter().map(|ip| ip.parse().expect("an address")).collect(),
                ..CsrFacts::default()
            };
            assert_eq!(serves_as(node, &facts, &around), expected, "{node} {dns:?} {ips:?}");
        };
        check("a", &["a"], &[], true);
        check("a", &["a"], &["10.96.0.1"], false);
        check("a", &["b"], &[], false);
        check("a", &["a", "kubernetes"], &[], false);
        check("kubernetes.default.svc", &["kubernetes.default.svc"], &[], false);
    }

    #[test]
    fn what_cannot_be_read_is_left_to_people() {
        let around = Surroundings { may: &|_| true, has_node: &|_| false, is_reserved: &|_| false };
        assert_eq!(approval(&json!({"spec": {"request": "x", "signerName": KUBELET_CLIENT}}), &around), None);
    }
}
