//! Ingress: leads HTTP from outside to Services, by host and path.

use std::net::IpAddr;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, named, optional_name, required, required_name};
use crate::core::service::load_balancer_addresses;
use crate::core::service::traffic::check_ingress;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
/// Hosts that a table shows at most.
const HOSTS_SHOWN_MAX: usize = 3;
const EXAMPLE: &str = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
    "metadata": {"name": "shop", "namespace": "default"}, "spec": {"ingressClassName": "edge",
        "rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "Ingress", "ingresses")
        .short("ing")
        .schema("io.k8s.api.networking.v1.Ingress")
        .with_status()
        .counts_generation()
        .columns(columns())
        .apply_order(apply_order::ROUTE)
        .health(health)
        .validates(validate_new)
        .validates_update(validate_update)
        .warns(warnings)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Class", "string", "The class that serves it.", |ingress, _| class(ingress).into()),
        Column::new("Hosts", "string", "Hosts that it answers for.", |ingress, _| hosts(ingress).into()),
        Column::new("Address", "string", "Where it is reached.", |ingress, _| {
            load_balancer_addresses(&ingress["status"]["loadBalancer"]).join(",").into()
        }),
        Column::new("Ports", "string", "Ports that are open.", |ingress, _| {
            if ingress.items(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" }.into()
        }),
        column::age(),
    ]
}

fn class(ingress: &Value) -> &str {
    match ingress.text(&["spec", "ingressClassName"]) {
        "" => ingress.annotation(CLASS_ANNOTATION).unwrap_or(column::NONE),
        class => class,
    }
}

fn hosts(ingress: &Value) -> String {
    let rules = ingress.items(&["spec", "rules"]);
    let shown = rules.iter().take(HOSTS_SHOWN_MAX).map(|rule| rule.text(&["host"])).filter(|host| !host.is_empty());
    let shown = shown.collect::<Vec<_>>().join(",");
    match (shown.as_str(), rules.len().saturating_sub(HOSTS_SHOWN_MAX)) {
        ("", _) => "*".to_owned(),
        (_, 0) => shown,
        (_, more) => format!("{shown} + {more} more..."),
    }
}

fn health(ingress: &Value) -> Converged {
    if ingress.items(&["status", "loadBalancer", "ingress"]).is_empty() {
        return Converged::Progressing("waits for an address".to_owned());
    }
    Converged::Yes
}

fn validate_new(ingress: &Value) -> Vec<FieldError> {
    let mut faults = validate(ingress);
    let root = At::root(ingress);
    let (meta, class) = (root.field("metadata"), ingress.text(&["spec", "ingressClassName"]));
    let annotations = meta.field("annotations");
    // Upstream writes this key like a field.
    let annotated = annotations.field(CLASS_ANNOTATION);
    if annotated.is_set() && !class.is_empty() && annotated.text() != class {
        faults.push(annotated.invalid("must match `ingressClassName` when both are specified"));
    }
    faults
}

fn validate(ingress: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(ingress);
    let spec = root.field("spec");
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.items().is_empty() && !backend.is_set() {
        faults.push(spec.invalid_as(rules.items().to_vec(), "either `defaultBackend` or `rules` must be specified"));
    }
    if backend.is_set() {
        check_backend(&backend, &mut faults);
    }
    for rule in rules.each() {
        check_host(&rule.field("host"), &mut faults);
        check_http(&rules, &rule, &mut faults);
    }
    for tls in spec.field("tls").each() {
        tls.field("hosts").each().for_each(|host| check_name(&host, &mut faults));
        optional_name(&tls.field("secretName"), name::dns1123_subdomain, &mut faults);
    }
    if spec.has("ingressClassName") {
        named(&spec.field("ingressClassName"), name::dns1123_subdomain, &mut faults);
    }
    faults
}

fn check_host(host: &At, faults: &mut Faults) {
    if host.text().is_empty() {
        return;
    }
    if host.text().parse::<IpAddr>().is_ok() {
        faults.push(host.invalid("must be a DNS name, not an IP address"));
    }
    check_name(host, faults);
}

fn check_name(host: &At, faults: &mut Faults) {
    let wild = host.text().contains('*');
    named(host, if wild { name::wildcard_dns1123_subdomain } else { name::dns1123_subdomain }, faults);
}

fn check_http(rules: &At, rule: &At, faults: &mut Faults) {
    if !rule.has("http") {
        return;
    }
    // Whatever the rule, upstream's path names the first one.
    let first = At { value: rule.value, path: rules.path.index(0) };
    let http = first.field("http");
    let paths = http.field("paths");
    if paths.items().is_empty() {
        faults.push(paths.required(""));
    }
    paths.each().for_each(|path| check_path(&path, faults));
}

fn check_path(entry: &At, faults: &mut Faults) {
    let (kind, path) = (entry.field("pathType"), entry.field("path"));
    if !kind.is_set() {
        faults.push(kind.required("pathType must be specified"));
        return;
    }
    match kind.text() {
        "Exact" | "Prefix" => check_exact(&path, faults),
        "ImplementationSpecific" if path.text().is_empty() => {}
        "ImplementationSpecific" => check_absolute(&path, faults),
        _ => faults.push(kind.unsupported(PATH_TYPES)),
    }
    check_backend(&entry.field("backend"), faults);
}

fn check_absolute(path: &At, faults: &mut Faults) {
    if !path.text().starts_with('/') {
        faults.push(path.invalid_as(path.text(), "must be an absolute path"));
    }
}

fn check_exact(path: &At, faults: &mut Faults) {
    check_absolute(path, faults);
    for part in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|part| path.text().contains(**part)) {
        faults.push(path.invalid(format!("must not contain '{part}'")));
    }
    for end in ["/..", "/."].iter().filter(|end| path.text().ends_with(**end)) {
        faults.push(path.invalid(format!("cannot end with '{end}'")));
    }
}

fn check_backend(backend: &At, faults: &mut Faults) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => faults.push(backend.invalid_as("", "cannot set both resource and service backends")),
        (true, false) => check_resource(&resource, faults),
        (false, true) => check_service(backend, &service, faults),
        (false, false) => faults.push(backend.invalid_as("", "resource or service backend is required")),
    }
}

fn check_resource(resource: &At, faults: &mut Faults) {
    let (group, kind) = (resource.field("apiGroup"), resource.field("kind"));
    if group.is_set() && !group.text().is_empty() {
        named(&group, name::dns1123_subdomain, faults);
    }
    required_name(&kind, name::path_segment, faults);
    required_name(&resource.field("name"), name::path_segment, faults);
}

fn check_service(backend: &At, service: &At, faults: &mut Faults) {
    required_name(&service.field("name"), name::dns1123_label, faults);
    let port = service.field("port");
    let (own, number) = (port.field("name"), port.field("number"));
    match (own.text().is_empty(), number.number()) {
        (false, 0) => named(&own, name::port_name, faults),
        (false, _) => faults.push(backend.invalid_as("", "cannot set both port name & port number")),
        (true, 0) => faults.push(backend.required("port name or number is required")),
        (true, value) => {
            faults.extend(name::port_number(value).into_iter().map(|fault| number.invalid(fault)));
        }
    }
}

fn validate_update(new: &Value, _: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what != UpdateOf::Status {
        return validate(new);
    }
    let mut faults = Faults::new();
    let root = At::root(new);
    let status = root.field("status");
    let balancer = status.field("loadBalancer");
    balancer.field("ingress").each().for_each(|ingress| check_ingress(&ingress, &mut faults));
    for ingress in balancer.field("ingress").each() {
        for port in ingress.field("ports").each() {
            required(&port.field("protocol"), &mut faults);
        }
    }
    faults
}

fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_none() && new.annotation(CLASS_ANNOTATION).is_some() {
        let text =
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
        return vec![text.to_owned()];
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let check = |spec: Value, expected: &[&str]| {
            let texts: Vec<String> = validate_new(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        check(json!({ "defaultBackend": backend }), &[]);
        check(json!({}), &["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"]);
        check(
            json!({"rules": [{"host": "1.2.3.4", "http": {"paths": [{"path": "a//b", "pathType": "Exact", "backend": {}}]}}]}),
            &[
                "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path",
                "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'",
                "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
            ],
        );
        check(
            json!({"defaultBackend": {"service": {"name": "web"}}}),
            &["spec.defaultBackend: Required value: port name or number is required"],
        );
        check(json!({"rules": [{"host": "*.example.com"}]}), &[]);
    }

    #[test]
    fn cells() {
        let rules: Vec<Value> = (0..4).map(|n| json!({"host": format!("h{n}")})).collect();
        assert_eq!(hosts(&json!({"spec": {"rules": rules}})), "h0,h1,h2 + 1 more...");
        assert_eq!(hosts(&json!({"spec": {"rules": [{}]}})), "*");
    }
}
