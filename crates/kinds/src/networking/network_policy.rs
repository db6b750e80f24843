//! NetworkPolicy: which traffic the pods it selects let through.

use std::net::IpAddr;

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, named, optional_one_of, supported_text};
use crate::core::endpoints::PROTOCOLS;
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

const EXAMPLE: &str = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
    "metadata": {"name": "web", "namespace": "default"}, "spec": {"podSelector": {"matchLabels": {"app": "web"}},
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "front"}}}], "ports": [{"port": 80}]}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "NetworkPolicy", "networkpolicies")
        .short("netpol")
        .schema("io.k8s.api.networking.v1.NetworkPolicy")
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("Pod-Selector", "string", "The pods it is for.", |policy, _| {
                column::selector_text(policy.at(&["spec", "podSelector"])).into()
            }),
            column::age(),
        ])
        .apply_order(apply_order::BOUND)
        .defaults(default)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn default(policy: &mut Value) {
    let Some(spec) = fill::child(policy, "spec") else { return };
    for direction in ["ingress", "egress"] {
        for rule in fill::items(spec, direction) {
            fill::items(rule, "ports").for_each(|port| fill::absent(port, "protocol", "TCP"));
        }
    }
    if spec.items(&["policyTypes"]).is_empty() {
        let mut types = vec!["Ingress"];
        if !spec.items(&["egress"]).is_empty() {
            types.push("Egress");
        }
        spec.put(&["policyTypes"], types);
    }
}

fn validate(policy: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(policy);
    let spec = root.field("spec");
    check_selector(&spec.field("podSelector"), &mut faults);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(direction).each() {
            rule.field("ports").each().for_each(|port| check_port(&port, &mut faults));
            rule.field(peers).each().for_each(|peer| check_peer(&peer, &mut faults));
        }
    }
    let types = spec.field("policyTypes");
    if types.items().len() > 2 {
        faults.push(types.invalid("may not specify more than two policyTypes"));
        return faults;
    }
    types.each().for_each(|kind| supported_text(&kind, &["Egress", "Ingress"], &mut faults));
    faults
}

fn check_selector(selector: &At, faults: &mut Faults) {
    if selector.is_set() {
        faults.extend(Selector::validate(selector.value, &selector.path));
    }
}

fn check_port(entry: &At, faults: &mut Faults) {
    optional_one_of(&entry.field("protocol"), PROTOCOLS, faults);
    let (port, end) = (entry.field("port"), entry.field("endPort"));
    let in_range = |at: &At, faults: &mut Faults| {
        faults.extend(name::port_number(at.number()).into_iter().map(|fault| at.invalid(fault)));
    };
    if !port.is_set() {
        if end.is_set() {
            faults.push(end.invalid("may not be specified when `port` is not specified"));
        }
        return;
    }
    let Some(number) = port.int() else {
        if end.is_set() {
            faults.push(end.invalid("may not be specified when `port` is non-numeric"));
        }
        named(&port, name::port_name, faults);
        return;
    };
    in_range(&port, faults);
    if end.is_set() {
        if end.number() < number {
            faults.push(end.invalid_as(number, "must be greater than or equal to `port`"));
        }
        in_range(&end, faults);
    }
}

fn check_peer(peer: &At, faults: &mut Faults) {
    let (pods, namespaces, block) = (peer.field("podSelector"), peer.field("namespaceSelector"), peer.field("ipBlock"));
    check_selector(&pods, faults);
    check_selector(&namespaces, faults);
    if block.is_set() {
        check_block(&block, faults);
    }
    match (block.is_set(), pods.is_set() || namespaces.is_set()) {
        (false, false) => faults.push(peer.required("must specify a peer")),
        (true, true) => faults.push(peer.forbidden("may not specify both ipBlock and another peer")),
        _ => {}
    }
}

fn check_block(block: &At, faults: &mut Faults) {
    let cidr = block.field("cidr");
    if cidr.text().is_empty() {
        faults.push(cidr.required(""));
        return;
    }
    let broken = name::cidr(cidr.text());
    if !broken.is_empty() {
        faults.extend(broken.into_iter().map(|fault| cidr.invalid(fault)));
        return;
    }
    for except in block.field("except").each() {
        let broken = name::cidr(except.text());
        if !broken.is_empty() {
            faults.extend(broken.into_iter().map(|fault| except.invalid(fault)));
        } else if !is_strictly_within(except.text(), cidr.text()) {
            faults.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

fn is_strictly_within(inner: &str, outer: &str) -> bool {
    let (Some((inner, narrow)), Some((outer, wide))) = (network(inner), network(outer)) else { return false };
    let (bits, of, width) = match (inner, outer) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    // Shifting by all bits (prefix 0) leaves nothing to compare.
    narrow > wide && wide <= width && (bits ^ of).checked_shr(width - wide).unwrap_or(0) == 0
}

fn network(cidr: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = cidr.split_once('/')?;
    Some((address.parse().ok()?, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn networks() {
        let check = |inner: &str, outer: &str, expected: bool| {
            assert_eq!(is_strictly_within(inner, outer), expected, "{inner} {outer}");
        };
        check("10.1.0.0/16", "10.0.0.0/8", true);
        check("10.0.0.0/8", "10.0.0.0/8", false);
        check("11.0.0.0/16", "10.0.0.0/8", false);
        check("10.0.0.0/8", "0.0.0.0/0", true);
        check("fd00::/64", "::/0", true);
        check("fd00::/64", "10.0.0.0/8", false);
    }

    #[test]
    fn faults() {
        let check = |rule: Value, expected: &[&str]| {
            let mut policy = json!({"spec": {"podSelector": {}, "ingress": [rule]}});
            default(&mut policy);
            assert_eq!(validate(&policy).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}), &[]);
        check(json!({"from": [{}]}), &["spec.ingress[0].from[0]: Required value: must specify a peer"]);
        check(
            json!({"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}]}),
            &[
                "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
            ],
        );
        check(
            json!({"ports": [{"port": 80, "endPort": 79}, {"port": "web", "endPort": 80}, {"endPort": 80}]}),
            &[
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[2].endPort: Invalid value: 80: may not be specified when `port` is not specified",
            ],
        );
    }

    #[test]
    fn types_follow_from_the_rules() {
        let mut policy = json!({"spec": {"egress": [{}]}});
        default(&mut policy);
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    }
}
