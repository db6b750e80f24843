//! Where a Service's traffic goes: affinity, traffic policies, load balancers.

use meta::name;

use super::{is_externally_accessible, needs_health_check_port, type_of};
use crate::check::named;
use crate::check::{At, Faults, one_of, optional_name, optional_one_of};

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameNode", "PreferSameZone"];
/// Longest stickiness of a client, in seconds: a day.
const AFFINITY_SECONDS_MAX: i64 = 86_400;

pub(super) fn check_affinity(spec: &At, faults: &mut Faults) {
    one_of(&spec.field("sessionAffinity"), &["ClientIP", "None"], faults);
    let config = spec.field("sessionAffinityConfig");
    match spec.field("sessionAffinity").text() {
        "ClientIP" => check_client_ip(&config, faults),
        "None" if config.is_set() => {
            faults.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

fn check_client_ip(config: &At, faults: &mut Faults) {
    let client = config.field("clientIP");
    let timeout = client.field("timeoutSeconds");
    if !config.is_set() {
        faults.push(config.required("when session affinity type is ClientIP"));
    } else if !client.is_set() {
        faults.push(client.required("when session affinity type is ClientIP"));
    } else if !timeout.is_set() {
        faults.push(timeout.required("when session affinity type is ClientIP"));
    } else if !(1..=AFFINITY_SECONDS_MAX).contains(&timeout.number()) {
        faults.push(timeout.invalid(format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}")));
    }
}

pub(super) fn check_load_balancer(root: &At, spec: &At, faults: &mut Faults) {
    let balanced = type_of(root.value) == "LoadBalancer";
    check_source_ranges(root, spec, balanced, faults);
    let node_ports = spec.field("allocateLoadBalancerNodePorts");
    match (node_ports.is_set(), balanced) {
        (true, false) => faults.push(node_ports.forbidden(ONLY_BALANCED)),
        // Upstream names it without its parent.
        (false, true) => faults.push(root.field("allocateLoadBalancerNodePorts").required("")),
        _ => {}
    }
    check_class(&spec.field("loadBalancerClass"), balanced, faults);
}

fn check_class(class: &At, balanced: bool, faults: &mut Faults) {
    if !class.is_set() {
        return;
    }
    if balanced { named(class, name::qualified_name, faults) } else { faults.push(class.forbidden(ONLY_BALANCED)) }
}

fn check_source_ranges(root: &At, spec: &At, balanced: bool, faults: &mut Faults) {
    let (ranges, meta) = (spec.field("loadBalancerSourceRanges"), root.field("metadata"));
    let annotations = meta.field("annotations");
    let annotation = annotations.entry(SOURCE_RANGES);
    if !ranges.items().is_empty() {
        // Upstream writes this path with a capital.
        let shown = spec.field("LoadBalancerSourceRanges");
        let ranges = shown.with(ranges.value);
        if !balanced {
            faults.push(ranges.forbidden(ONLY_BALANCED));
        }
        ranges.each().for_each(|range| check_range(&range, range.text(), faults));
    } else if annotation.is_set() {
        if !balanced {
            faults.push(annotation.forbidden(ONLY_BALANCED));
        }
        let texts = annotation.text().split(',').filter(|_| !annotation.text().trim().is_empty());
        texts.for_each(|range| check_range(&annotation, range, faults));
    }
}

fn check_range(at: &At, range: &str, faults: &mut Faults) {
    let range = range.trim();
    faults.extend(name::cidr(range).into_iter().map(|fault| at.invalid_as(range, fault)));
}

pub(super) fn check_policies(root: &At, spec: &At, faults: &mut Faults) {
    let external = spec.field("externalTrafficPolicy");
    if is_externally_accessible(root.value) {
        one_of(&external, &["Cluster", "Local"], faults);
    } else if !external.text().is_empty() {
        faults.push(external.invalid("may only be set for externally-accessible services"));
    }
    check_health_port(&spec.field("healthCheckNodePort"), needs_health_check_port(root.value), faults);
    let internal = spec.field("internalTrafficPolicy");
    if !internal.is_set() && super::needs_cluster_ip(root.value) {
        faults.push(internal.required(""));
    }
    optional_one_of(&internal, &["Cluster", "Local"], faults);
    optional_one_of(&spec.field("trafficDistribution"), DISTRIBUTIONS, faults);
}

fn check_health_port(port: &At, needed: bool, faults: &mut Faults) {
    match (needed, port.number()) {
        (false, 0) => {}
        (false, _) => faults
            .push(port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")),
        (true, 0) => faults.push(port.required("")),
        (true, _) => super::ports::check_number(port, faults),
    }
}

/// What stays while the Service stays a load balancer.
pub(super) fn check_change(new: &At, old: &At, faults: &mut Faults) {
    let (spec, old_spec) = (new.field("spec"), old.field("spec"));
    let class = spec.field("loadBalancerClass");
    let both_balanced = [new, old].iter().all(|root| type_of(root.value) == "LoadBalancer");
    if both_balanced && class.value != old_spec.field("loadBalancerClass").value {
        faults.push(class.invalid("may not change once set"));
    }
    let port = spec.field("healthCheckNodePort");
    let both_checked = [new, old].iter().all(|root| needs_health_check_port(root.value));
    if both_checked && port.number() != old_spec.field("healthCheckNodePort").number() {
        faults.push(port.forbidden("field is immutable"));
    }
}

/// The status of a load balancer, of a Service or an Ingress.
pub(crate) fn check_balancer_status(balancer: &At, balanced: bool, faults: &mut Faults) {
    let list = balancer.field("ingress");
    if !balanced && !list.items().is_empty() {
        faults.push(list.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return;
    }
    for ingress in list.each() {
        check_ingress(&ingress, faults);
        let (ip, mode) = (ingress.field("ip"), ingress.field("ipMode"));
        match (mode.is_set(), ip.text().is_empty()) {
            (false, false) => faults.push(mode.required("must be specified when `ip` is set")),
            (true, true) => faults.push(mode.forbidden("may not be specified when `ip` is not set")),
            _ => optional_one_of(&mode, &["Proxy", "VIP"], faults),
        }
    }
}

/// The address and the host name of one entry.
pub(crate) fn check_ingress(ingress: &At, faults: &mut Faults) {
    optional_name(&ingress.field("ip"), name::ip, faults);
    let host = ingress.field("hostname");
    optional_name(&host, name::dns1123_subdomain, faults);
    if host.text().parse::<std::net::IpAddr>().is_ok() {
        faults.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::faults;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn policies() {
        let check = |extra: Value, expected: &[&str]| {
            let mut spec = json!({"ports": [{"port": 80}]});
            spec.as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
            assert_eq!(faults(spec), expected);
        };
        check(json!({"type": "LoadBalancer"}), &[]);
        check(json!({"trafficDistribution": "PreferClose"}), &[]);
        check(
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}),
            &["spec.healthCheckNodePort: Required value"],
        );
        check(
            json!({"externalTrafficPolicy": "Local"}),
            &[
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
            ],
        );
        check(
            json!({"loadBalancerSourceRanges": ["10.0.0.0/8"]}),
            &["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        );
        check(
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": [" 10.0.0.0/8 "], "loadBalancerClass": "a b"}),
            &[
                "spec.loadBalancerClass: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', \
               '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
               '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ],
        );
        check(
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}),
            &["spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and \
               less than 86400"],
        );
    }

    #[test]
    fn balancer_status() {
        let check = |ingress: Value, balanced: bool, expected: &[&str]| {
            let mut faults = Faults::new();
            check_balancer_status(&At::root(&json!({ "ingress": ingress })), balanced, &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!([{"ip": "1.2.3.4", "ipMode": "VIP"}]), true, &[]);
        check(
            json!([{"ip": "1.2.3.4"}]),
            true,
            &["ingress[0].ipMode: Required value: must be specified when `ip` is set"],
        );
        check(
            json!([{"hostname": "1.2.3.4"}]),
            true,
            &["ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"],
        );
        check(
            json!([{"hostname": "a"}]),
            false,
            &["ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        );
    }
}
