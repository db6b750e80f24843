//! Ports of a Service.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use crate::check::{At, Faults, named, one_of};
use crate::core::endpoints::PROTOCOLS;
use crate::fill;

pub(super) fn default(port: &mut Value) {
    fill::zero(port, "protocol", "TCP");
    let target = port.get("targetPort").cloned().unwrap_or_default();
    if target.is_null() || target == json!(0) || target == json!("") {
        let number = port.int(&["port"]).unwrap_or(0);
        port.put(&["targetPort"], number);
    }
}

pub(super) fn check(spec: &At, faults: &mut Faults) {
    let ports = spec.field("ports");
    let several = ports.items().len() > 1;
    let mut names = BTreeSet::new();
    for port in ports.each() {
        check_name(&port.field("name"), several, &mut names, faults);
        check_number(&port.field("port"), faults);
        one_of(&port.field("protocol"), PROTOCOLS, faults);
        check_target(&port.field("targetPort"), faults);
        if port.has("appProtocol") {
            named(&port.field("appProtocol"), name::qualified_name, faults);
        }
    }
}

fn check_name<'v>(at: &At<'v, '_>, required: bool, names: &mut BTreeSet<&'v str>, faults: &mut Faults) {
    if at.text().is_empty() {
        if required {
            faults.push(at.required(""));
        }
        return;
    }
    named(at, name::dns1123_label, faults);
    if !names.insert(at.text()) {
        faults.push(at.duplicate());
    }
}

/// A port number.
pub(crate) fn check_number(at: &At, faults: &mut Faults) {
    faults.extend(name::port_number(at.number()).into_iter().map(|fault| at.invalid_as(at.number(), fault)));
}

/// A port by number or by the name of a container's port.
pub(crate) fn check_target(at: &At, faults: &mut Faults) {
    if at.value.is_string() { named(at, name::port_name, faults) } else { check_number(at, faults) }
}

/// Node ports belong to the types that have them, and no port occurs twice.
pub(super) fn check_unique(spec: &At, faults: &mut Faults) {
    let ports = spec.field("ports");
    if spec.field("type").text() == "ClusterIP" {
        let given = ports.each().filter(|port| port.field("nodePort").number() != 0);
        faults.extend(given.map(|port| port.field("nodePort").forbidden("may not be used when `type` is 'ClusterIP'")));
    }
    let mut seen = BTreeSet::new();
    for port in ports.each() {
        let (protocol, node_port) = (port.field("protocol").text(), port.field("nodePort"));
        if node_port.number() != 0 && !seen.insert((protocol, node_port.number())) {
            faults.push(node_port.duplicate());
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.each() {
        let (protocol, number) = (port.field("protocol").text(), port.field("port").number());
        if !seen.insert((protocol, number)) {
            faults.push(FieldError::duplicate(port.path, json!({"protocol": protocol, "port": number})));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::faults;
    use serde_json::{Value, json};

    #[test]
    fn ports() {
        let check = |ports: Value, expected: &[&str]| assert_eq!(faults(json!({ "ports": ports })), expected);
        check(json!([{"port": 80, "targetPort": "web"}]), &[]);
        check(json!([{"port": 80}, {"port": 81, "name": "b"}]), &["spec.ports[0].name: Required value"]);
        check(
            json!([{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]),
            &["spec.ports[1].name: Duplicate value: \"a\""],
        );
        check(
            json!([{"port": 80, "nodePort": 30000}]),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        );
        check(
            json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
            &["spec.ports[1]: Duplicate value: {\"port\":80,\"protocol\":\"TCP\"}"],
        );
        check(
            json!([{"port": 65536, "protocol": "X", "targetPort": 80}]),
            &[
                "spec.ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        );
    }
}
