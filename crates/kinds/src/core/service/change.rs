//! What an update of a Service carries over: values that the server allocated stay unless the client changes them,
//! and go when the new type has no use for them.

use std::collections::BTreeSet;

use meta::ObjectExt;
use serde_json::Value;

use super::{is_externally_accessible, needs_cluster_ip, needs_health_check_port, needs_node_port, type_of};
use crate::fill;

/// A client that knows only `clusterIP` means the first of `clusterIPs`.
pub(super) fn normalise_new(service: &mut Value) {
    let ip = service.text(&["spec", "clusterIP"]).to_owned();
    if !ip.is_empty() && service.items(&["spec", "clusterIPs"]).is_empty() {
        service.put(&["spec", "clusterIPs"], vec![Value::from(ip)]);
    }
}

/// A client that knows only `clusterIP` and changes it means the list as well.
pub(super) fn normalise(new: &mut Value, old: &Value) {
    let (now, before) = (new.text(&["spec", "clusterIP"]).to_owned(), old.text(&["spec", "clusterIP"]));
    if now == before || !same(new, old, "clusterIPs") {
        return;
    }
    if now.is_empty() {
        new.remove(&["spec", "clusterIPs"]);
    } else {
        new.put(&["spec", "clusterIPs"], vec![Value::from(now)]);
    }
}

/// What a client leaves out of its update, but the server once allocated, stays.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if new.text(&["spec", "clusterIP"]).is_empty() {
            copy(new, old, "clusterIP");
        }
        if new.items(&["spec", "clusterIPs"]).is_empty() && same(new, old, "clusterIP") {
            copy(new, old, "clusterIPs");
        }
    }
    if needs_node_port(old) && needs_node_port(new) {
        keep_node_ports(new, old);
    }
    let missing = new.int(&["spec", "healthCheckNodePort"]).unwrap_or(0) == 0;
    if needs_health_check_port(old) && needs_health_check_port(new) && missing {
        copy(new, old, "healthCheckNodePort");
    }
}

/// A port's node port, found again by protocol and number, unless another port claims it now.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let key = |port: &Value| (port.text(&["protocol"]).to_owned(), port.int(&["port"]));
    let node_port = |port: &Value| port.int(&["nodePort"]).filter(|number| *number != 0);
    let mut used: BTreeSet<i64> = new.items(&["spec", "ports"]).iter().filter_map(node_port).collect();
    let Some(spec) = fill::child(new, "spec") else { return };
    for port in fill::items(spec, "ports").filter(|port| node_port(port).is_none()) {
        let wanted = key(port);
        let before = old.items(&["spec", "ports"]).iter().find(|old| key(old) == wanted).and_then(node_port);
        if let Some(number) = before.filter(|number| used.insert(*number)) {
            port.put(&["nodePort"], number);
        }
    }
}

/// Fields that the old type had and the new one has not go, if the client left them as they were.
pub(super) fn drop_unneeded(new: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        drop_unchanged(new, old, &["clusterIP", "clusterIPs"]);
        drop_unchanged(new, old, &["ipFamilies"]);
        drop_unchanged(new, old, &["ipFamilyPolicy"]);
    }
    if needs_node_port(old) && !needs_node_port(new) && node_ports(new) == node_ports(old) {
        let ports = fill::child(new, "spec").into_iter().flat_map(|spec| fill::items(spec, "ports"));
        ports.for_each(|port| drop(port.remove(&["nodePort"])));
    }
    if needs_health_check_port(old) && !needs_health_check_port(new) {
        drop_unchanged(new, old, &["healthCheckNodePort"]);
    }
    if type_of(old) == "LoadBalancer" && type_of(new) != "LoadBalancer" {
        drop_unchanged(new, old, &["allocateLoadBalancerNodePorts"]);
        drop_unchanged(new, old, &["loadBalancerClass"]);
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) {
        drop_unchanged(new, old, &["externalTrafficPolicy"]);
    }
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"])).collect()
}

fn drop_unchanged(new: &mut Value, old: &Value, fields: &[&str]) {
    if fields.iter().all(|field| same(new, old, field)) {
        fields.iter().for_each(|field| drop(new.remove(&["spec", field])));
    }
}

fn same(new: &Value, old: &Value, field: &str) -> bool {
    let of = |service: &Value| service.at(&["spec", field]).cloned().unwrap_or_default();
    crate::check::same(&of(new), &of(old))
}

fn copy(new: &mut Value, old: &Value, field: &str) {
    if let Some(value) = old.at(&["spec", field]) {
        new.put(&["spec", field], value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::prepare_update;
    use super::*;
    use crate::UpdateOf;
    use serde_json::json;

    #[test]
    fn allocated_values_are_carried_over() {
        let old = json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}});
        let check = |mut new: Value, expected: Value| {
            prepare_update(&mut new, &old, UpdateOf::Main);
            assert_eq!(new["spec"], expected);
        };
        check(json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}}), old["spec"].clone());
        check(
            json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}]}}),
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                "ports": [{"port": 80, "protocol": "TCP"}]}),
        );
        check(
            json!({"spec": {"type": "ExternalName", "externalName": "a", "clusterIP": "10.0.0.1",
                "clusterIPs": ["10.0.0.1"]}}),
            json!({"type": "ExternalName", "externalName": "a"}),
        );
        check(
            json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.1"]}}),
            json!({"type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}),
        );
    }
}
