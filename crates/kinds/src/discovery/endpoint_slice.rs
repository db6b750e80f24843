//! EndpointSlice: some of the addresses behind a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, immutable, named, one_of, optional_name};
use crate::core::address::check_not_special;
use crate::core::endpoints::{PROTOCOLS, some_of};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// Upstream's limits: a slice stays small enough to be sent whole on every change.
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;
const ADDRESSES_MAX: usize = 100;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;
const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const EXAMPLE: &str = r#"{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
    "metadata": {"name": "web-1", "namespace": "default"}, "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
        .schema("io.k8s.api.discovery.v1.EndpointSlice")
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("AddressType", "string", "The family of the addresses.", |slice, _| {
                slice.text(&["addressType"]).into()
            }),
            Column::new("Ports", "string", "The ports of every endpoint.", |slice, _| ports(slice).into()),
            Column::new("Endpoints", "string", "Addresses.", |slice, _| addresses(slice).into()),
            column::age(),
        ])
        .apply_order(apply_order::SERVICE)
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn default(slice: &mut Value) {
    for port in fill::items(slice, "ports") {
        fill::absent(port, "name", "");
        fill::absent(port, "protocol", "TCP");
    }
}

fn ports(slice: &Value) -> String {
    let text = |port: &Value| match (port.int(&["port"]), port.text(&["name"])) {
        (Some(number), _) => number.to_string(),
        (None, "") => "*".to_owned(),
        (None, name) => name.to_owned(),
    };
    or_unset(slice.items(&["ports"]).iter().map(text).collect())
}

fn addresses(slice: &Value) -> String {
    let all = slice.items(&["endpoints"]).iter().flat_map(|endpoint| endpoint.items(&["addresses"]));
    or_unset(all.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn or_unset(all: Vec<String>) -> String {
    if all.is_empty() { "<unset>".to_owned() } else { some_of(&all) }
}

fn validate(slice: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(slice);
    let kind = root.field("addressType");
    one_of(&kind, ADDRESS_TYPES, &mut faults);
    let endpoints = root.field("endpoints");
    if !is_too_many(&endpoints, ENDPOINTS_MAX, &mut faults) {
        endpoints.each().for_each(|endpoint| check_endpoint(&endpoint, kind.text(), &mut faults));
    }
    check_ports(&root.field("ports"), &mut faults);
    faults
}

/// Whether the list is longer than `max`; then its items are not looked at.
fn is_too_many(list: &At, max: usize, faults: &mut Faults) -> bool {
    let count = list.items().len();
    if count > max {
        faults.push(FieldError::too_many(list.path, count, max));
    }
    count > max
}

fn check_endpoint(endpoint: &At, kind: &str, faults: &mut Faults) {
    let list = endpoint.field("addresses");
    if list.items().is_empty() {
        faults.push(list.required("must contain at least 1 address"));
    } else if !is_too_many(&list, ADDRESSES_MAX, faults) {
        list.each().for_each(|address| check_address(&address, kind, faults));
    }
    if endpoint.has("nodeName") {
        named(&endpoint.field("nodeName"), name::dns1123_subdomain, faults);
    }
    check_topology(&endpoint.field("deprecatedTopology"), faults);
    if endpoint.has("hostname") {
        named(&endpoint.field("hostname"), name::dns1123_label, faults);
    }
    let hints = endpoint.field("hints");
    for list in ["forZones", "forNodes"] {
        check_hints(&hints.field(list), list == "forNodes", faults);
    }
}

fn check_address(address: &At, kind: &str, faults: &mut Faults) {
    let ip = address.text().parse::<IpAddr>();
    match kind {
        "IPv4" | "IPv6" => {
            let fits = ip.is_ok_and(|ip| ip.is_ipv4() == (kind == "IPv4"));
            if fits {
                check_not_special(address, faults);
            } else {
                faults.push(address.invalid(format!("must be a valid {kind} address")));
            }
        }
        "FQDN" => check_domain(address, faults),
        _ => {}
    }
}

/// A fully qualified domain name, with or without the final dot.
fn check_domain(address: &At, faults: &mut Faults) {
    let text = address.text();
    let labels = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        faults.push(address.required(""));
    } else if labels.contains('.') {
        faults.extend(name::dns1123_subdomain(labels).into_iter().map(|fault| address.invalid_as(labels, fault)));
    } else {
        faults.push(address.invalid("should be a domain with at least two segments separated by dots"));
    }
}

fn check_topology(topology: &At, faults: &mut Faults) {
    let count = topology.value.as_object().map_or(0, serde_json::Map::len);
    if count > TOPOLOGY_MAX {
        faults.push(FieldError::too_many(topology.path, count, TOPOLOGY_MAX));
    }
    crate::object_meta::check_labels(topology, faults);
}

fn check_hints(list: &At, are_nodes: bool, faults: &mut Faults) {
    if is_too_many(list, HINTS_MAX, faults) {
        return;
    }
    let mut seen = BTreeSet::new();
    for hint in list.each() {
        let given = hint.field("name");
        if !seen.insert(given.text()) {
            faults.push(given.duplicate());
        }
        named(&given, if are_nodes { name::dns1123_subdomain } else { name::label_value }, faults);
    }
}

fn check_ports(list: &At, faults: &mut Faults) {
    if is_too_many(list, PORTS_MAX, faults) {
        return;
    }
    let mut names = BTreeSet::new();
    for port in list.each() {
        let (given, number) = (port.field("name"), port.field("port"));
        if !names.insert(given.text()) {
            faults.push(FieldError::duplicate(given.path, given.text()));
        }
        optional_name(&given, name::dns1123_label, faults);
        one_of(&port.field("protocol"), PROTOCOLS, faults);
        if let Some(value) = number.int() {
            faults.extend(name::port_number(value).into_iter().map(|fault| number.invalid(fault)));
        }
        if port.has("appProtocol") {
            named(&port.field("appProtocol"), name::qualified_name, faults);
        }
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    immutable(&At::root(new).field("addressType"), &At::root(old).field("addressType"), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let slice = json!({"ports": [{"port": 80}, {"name": "a"}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}]});
        assert_eq!(ports(&slice), "80,a,*");
        assert_eq!(addresses(&slice), "10.0.0.1");
        assert_eq!(ports(&json!({})), "<unset>");
    }

    #[test]
    fn faults() {
        let check = |slice: Value, expected: &[&str]| {
            let mut slice = slice;
            default(&mut slice);
            assert_eq!(validate(&slice).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        let with =
            |kind: &str, addresses: Value| json!({"addressType": kind, "endpoints": [{ "addresses": addresses }]});
        check(with("IPv4", json!(["10.0.0.1"])), &[]);
        check(with("FQDN", json!(["a.example.com."])), &[]);
        check(
            with("IPv4", json!(["fd00::1"])),
            &["endpoints[0].addresses[0]: Invalid value: \"fd00::1\": must be a valid IPv4 address"],
        );
        check(with("IPv6", json!([])), &["endpoints[0].addresses: Required value: must contain at least 1 address"]);
        check(
            json!({"addressType": "IPv4", "ports": [{}, {"port": 0}]}),
            &[
                "ports[1].name: Duplicate value: \"\"",
                "ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        );
        let many = vec![json!({"addresses": ["10.0.0.1"]}); ENDPOINTS_MAX + 1];
        check(
            json!({"addressType": "IPv4", "endpoints": many}),
            &["endpoints: Too many: 1001: must have at most 1000 items"],
        );
    }
}
