//! Endpoints: the addresses behind a Service, in the old form that holds all of them in one object.

use meta::name;
use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::address::{check_ip, check_not_special};
use crate::check::{At, Faults, named, one_of, optional_name};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// Upstream shows no more addresses than this in a table.
pub(crate) const SHOWN_MAX: usize = 3;
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": "default"},
    "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Endpoints", "endpoints")
        .short("ep")
        .schema("io.k8s.api.core.v1.Endpoints")
        .columns(vec![
            column::name(),
            Column::new("Endpoints", "string", "Ready addresses with their ports.", |object, _| shown(object).into()),
            column::age(),
        ])
        .apply_order(apply_order::SERVICE)
        .defaults(default)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        .example(EXAMPLE)
}

fn default(object: &mut Value) {
    for subset in fill::items(object, "subsets") {
        for port in fill::items(subset, "ports") {
            fill::zero(port, "protocol", "TCP");
        }
    }
}

fn shown(object: &Value) -> String {
    let subsets = object.items(&["subsets"]);
    let pairs = subsets.iter().flat_map(|subset| {
        let ports = subset.items(&["ports"]).iter();
        ports.flat_map(|port| subset.items(&["addresses"]).iter().map(move |address| (address, port)))
    });
    let all: Vec<String> =
        pairs.map(|(address, port)| join_host_port(address.text(&["ip"]), port.int(&["port"]).unwrap_or(0))).collect();
    if subsets.is_empty() { column::NONE.to_owned() } else { some_of(&all) }
}

/// The first few, and how many more there are.
pub(crate) fn some_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn join_host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    for subset in root.field("subsets").each() {
        check_subset(&subset, &mut faults);
    }
    faults
}

fn check_subset(subset: &At, faults: &mut Faults) {
    let (ready, unready, ports) = (subset.field("addresses"), subset.field("notReadyAddresses"), subset.field("ports"));
    if ready.items().is_empty() && unready.items().is_empty() {
        faults.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
    ready.each().for_each(|address| check_address(&address, faults));
    unready.each().for_each(|address| check_address(&address, faults));
    let several = ports.items().len() > 1;
    ports.each().for_each(|port| check_port(&port, several, faults));
}

fn check_address(address: &At, faults: &mut Faults) {
    let ip = address.field("ip");
    check_ip(&ip, faults);
    optional_name(&address.field("hostname"), name::dns1123_label, faults);
    if address.has("nodeName") {
        named(&address.field("nodeName"), name::dns1123_subdomain, faults);
    }
    check_not_special(&ip, faults);
}

fn check_port(port: &At, needs_name: bool, faults: &mut Faults) {
    let (given, number) = (port.field("name"), port.field("port"));
    if needs_name && given.text().is_empty() {
        faults.push(given.required(""));
    } else {
        optional_name(&given, name::dns1123_label, faults);
    }
    faults.extend(name::port_number(number.number()).into_iter().map(|f| number.invalid_as(number.number(), f)));
    one_of(&port.field("protocol"), PROTOCOLS, faults);
    if port.has("appProtocol") {
        named(&port.field("appProtocol"), name::qualified_name, faults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let address = |n: u8| json!({"ip": format!("10.0.0.{n}")});
        let object = json!({"subsets": [{"addresses": (1..=4).map(address).collect::<Vec<_>>(),
            "ports": [{"port": 80}]}]});
        assert_eq!(shown(&object), "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more...");
        assert_eq!(shown(&json!({})), "<none>");
        assert_eq!(join_host_port("::1", 1), "[::1]:1");
    }

    #[test]
    fn faults() {
        let check = |subset: Value, expected: &[&str]| {
            let mut object = json!({"subsets": [subset]});
            default(&mut object);
            let texts: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}), &[]);
        check(
            json!({"ports": [{"port": 0}, {"port": 1, "name": "a"}]}),
            &[
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        );
        check(
            json!({"addresses": [{"ip": "127.0.0.1"}]}),
            &["subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range \
               (127.0.0.0/8, ::1/128)"],
        );
    }
}
