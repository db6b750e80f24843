//! Service: one address for many pods.
//!
//! What the allocator of the API machine must do between `prepare_create`/`prepare_update` and validation: addresses
//! (`clusterIP`, `clusterIPs`, `ipFamilies`, `ipFamilyPolicy`), node ports, and `healthCheckNodePort` where
//! [`needs_health_check_port`]. Validation requires the last one, as upstream does.

mod addresses;
mod change;
mod ports;
pub(crate) mod traffic;

use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use crate::check::{At, Faults, one_of};
use crate::halves::{drop_status, keep_all_but, restore};
use crate::object_meta::check_labels;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
/// Seconds that a client keeps its endpoint unless declared otherwise: three hours, as upstream.
const AFFINITY_SECONDS: i64 = 10_800;
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Service", "services")
        .short("svc")
        .category("all")
        .schema("io.k8s.api.core.v1.Service")
        .with_status()
        .with_subresource("proxy", &["create", "delete", "get", "patch", "update"])
        .columns(columns())
        .selectable("spec.clusterIP")
        .selectable("spec.type")
        .apply_order(apply_order::SERVICE)
        .health(health)
        .named_by(name::dns1123_label)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warnings)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Type", "string", "How it can be reached.", |object, _| type_of(object).into()),
        Column::new("Cluster-IP", "string", "Its address inside the cluster.", |object, _| {
            column::or_none(object.text(&["spec", "clusterIP"])).into()
        }),
        Column::new("External-IP", "string", "Its addresses outside.", |object, _| external_ip(object).into()),
        Column::new("Port(s)", "string", "Ports, with node ports and protocols.", |object, _| {
            ports_text(object).into()
        }),
        column::age(),
        Column::new("Selector", "string", "Labels of the pods behind it.", |object, _| {
            column::label_text(object.map(&["spec", "selector"])).into()
        })
        .wide(),
    ]
}

pub(super) fn type_of(service: &Value) -> &str {
    service.text(&["spec", "type"])
}

/// Whether the Service gets an address of its own (`None` included).
pub fn needs_cluster_ip(service: &Value) -> bool {
    matches!(type_of(service), "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Whether its ports get node ports.
pub fn needs_node_port(service: &Value) -> bool {
    let declined = service.at(&["spec", "allocateLoadBalancerNodePorts"]) == Some(&json!(false));
    type_of(service) == "NodePort" || (type_of(service) == "LoadBalancer" && !declined)
}

/// Whether it gets a node port for health checks.
pub fn needs_health_check_port(service: &Value) -> bool {
    type_of(service) == "LoadBalancer" && service.text(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// Whether traffic from outside can reach it.
pub fn is_externally_accessible(service: &Value) -> bool {
    match type_of(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !service.items(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Whether it has no address on purpose.
pub fn is_headless(service: &Value) -> bool {
    matches!(service.items(&["spec", "clusterIPs"]), [only] if only == "None")
}

fn external_ip(service: &Value) -> String {
    let own = service.items(&["spec", "externalIPs"]).iter().filter_map(Value::as_str);
    match type_of(service) {
        "ClusterIP" | "NodePort" => column::or_none(own.collect::<Vec<_>>().join(",")),
        "LoadBalancer" => {
            let given = load_balancer_addresses(&service["status"]["loadBalancer"]);
            let all: Vec<&str> = given.into_iter().chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => service.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses (or else the host names) of a load balancer, sorted, each once.
pub(crate) fn load_balancer_addresses(load_balancer: &Value) -> Vec<&str> {
    let ingresses = load_balancer.items(&["ingress"]).iter();
    let mut all: Vec<&str> = ingresses.filter_map(|ingress| first_given(ingress, &["ip", "hostname"])).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The first of these fields that is not empty.
fn first_given<'v>(value: &'v Value, fields: &[&str]) -> Option<&'v str> {
    fields.iter().map(|field| value.text(&[field])).find(|text| !text.is_empty())
}

fn ports_text(service: &Value) -> String {
    let text = |port: &Value| {
        let (number, node_port) = (port.int(&["port"]).unwrap_or(0), port.int(&["nodePort"]).unwrap_or(0));
        let node_port = if node_port > 0 { format!(":{node_port}") } else { String::new() };
        format!("{number}{node_port}/{}", port.text(&["protocol"]))
    };
    column::or_none(service.items(&["spec", "ports"]).iter().map(text).collect::<Vec<_>>().join(","))
}

fn health(service: &Value) -> Converged {
    let waiting =
        type_of(service) == "LoadBalancer" && service.items(&["status", "loadBalancer", "ingress"]).is_empty();
    if waiting {
        Converged::Progressing("waits for the address of its load balancer".to_owned())
    } else {
        Converged::Yes
    }
}

fn default(object: &mut Value) {
    if let Some(spec) = fill::made(object, "spec") {
        default_affinity(spec);
        fill::zero(spec, "type", "ClusterIP");
        fill::items(spec, "ports").for_each(ports::default);
    }
    let (external, has_address) = (is_externally_accessible(object), needs_cluster_ip(object));
    let balanced = type_of(object) == "LoadBalancer";
    let Some(spec) = fill::child(object, "spec") else { return };
    if external {
        fill::zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if has_address {
        fill::absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill::absent(spec, "allocateLoadBalancerNodePorts", true);
        default_ip_mode(object);
    }
}

fn default_affinity(spec: &mut Value) {
    fill::zero(spec, "sessionAffinity", "None");
    match spec.text(&["sessionAffinity"]) {
        "None" => drop(spec.remove(&["sessionAffinityConfig"])),
        "ClientIP" if spec.int(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]).is_none() => {
            spec.put(&["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}));
        }
        _ => {}
    }
}

fn default_ip_mode(object: &mut Value) {
    let Some(balancer) = fill::descend(object, &["status", "loadBalancer"]) else { return };
    for ingress in fill::items(balancer, "ingress").filter(|ingress| !ingress.text(&["ip"]).is_empty()) {
        fill::absent(ingress, "ipMode", "VIP");
    }
}

fn prepare_create(object: &mut Value) {
    drop_status(object);
    change::normalise_new(object);
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => {
            restore(new, old, "status");
            change::keep_allocated(new, old);
            change::normalise(new, old);
            change::drop_unneeded(new, old);
        }
        UpdateOf::Status => keep_all_but(new, old, "status"),
        UpdateOf::Other(_) => {}
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    check_topology(&root, &mut faults);
    let spec = root.field("spec");
    check_by_type(&root, &spec, &mut faults);
    ports::check(&spec, &mut faults);
    check_labels(&spec.field("selector"), &mut faults);
    traffic::check_affinity(&spec, &mut faults);
    addresses::check(&root, &spec, &mut faults);
    one_of(&spec.field("type"), TYPES, &mut faults);
    ports::check_unique(&spec, &mut faults);
    traffic::check_load_balancer(&root, &spec, &mut faults);
    traffic::check_policies(&root, &spec, &mut faults);
    faults
}

fn check_topology(root: &At, faults: &mut Faults) {
    let meta = root.field("metadata");
    let annotations = meta.field("annotations");
    let (mode, hints) = (annotations.entry(MODE), annotations.entry(HINTS));
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        faults.push(mode.invalid(format!("must match annotations[{HINTS}] when both are specified")));
    }
}

fn check_by_type(root: &At, spec: &At, faults: &mut Faults) {
    let (kind, headless) = (spec.field("type").text(), is_headless(root.value));
    let ports = spec.field("ports");
    if ports.items().is_empty() && !headless && kind != "ExternalName" {
        faults.push(ports.required(""));
    }
    match kind {
        "LoadBalancer" => {
            for port in ports.each().filter(|port| port.field("port").int() == Some(10250)) {
                faults.push(port.invalid_as(10250, "may not expose port 10250 externally since it is used by kubelet"));
            }
            check_not_headless(spec, headless, kind, faults);
        }
        "NodePort" => check_not_headless(spec, headless, kind, faults),
        "ExternalName" => check_external_name(spec, faults),
        _ => {}
    }
}

fn check_not_headless(spec: &At, headless: bool, kind: &str, faults: &mut Faults) {
    if headless {
        let list = spec.field("clusterIPs");
        let detail = format!("may not be set to 'None' for {kind} services");
        faults.extend(list.each().take(1).map(|first| first.invalid(detail.clone())));
    }
}

fn check_external_name(spec: &At, faults: &mut Faults) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let at = spec.field(field);
        if at.is_set() && at.value.as_array().is_none_or(|list| !list.is_empty()) {
            faults.push(at.forbidden("may not be set for ExternalName services"));
        }
    }
    let target = spec.field("externalName");
    // A trailing dot says that the name is fully qualified.
    match target.text().strip_suffix('.').unwrap_or(target.text()) {
        "" => faults.push(target.required("")),
        host => faults.extend(name::dns1123_subdomain(host).into_iter().map(|fault| target.invalid_as(host, fault))),
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        let status = root.field("status");
        let balanced = type_of(new) == "LoadBalancer";
        traffic::check_balancer_status(&status.field("loadBalancer"), balanced, &mut faults);
        return faults;
    }
    addresses::check_change(&root, &old_root, &mut faults);
    traffic::check_change(&root, &old_root, &mut faults);
    faults.extend(validate(new));
    faults
}

fn warnings(new: &Value, _: Option<&Value>) -> Vec<String> {
    let spec = &new["spec"];
    let given = |field: &str| !spec.text(&[field]).is_empty();
    let (external_ips, name_only) = (!spec.items(&["externalIPs"]).is_empty(), type_of(new) == "ExternalName");
    let headless = is_headless(new);
    let affine = !matches!(spec.text(&["sessionAffinity"]), "" | "None");
    let cases = [
        (headless && given("loadBalancerIP"), "spec.loadBalancerIP is ignored for headless services"),
        (headless && external_ips, "spec.externalIPs is ignored for headless services"),
        (headless && affine, "spec.SessionAffinity is ignored for headless services"),
        (name_only && external_ips, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (!name_only && given("externalName"), "spec.externalName is ignored when spec.type is not \"ExternalName\""),
    ];
    let mut warnings: Vec<String> =
        cases.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text.to_owned()).collect();
    if new.annotation(HINTS).is_some() {
        warnings.push(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn faults(spec: Value) -> Vec<String> {
        let mut object = json!({ "spec": spec });
        default(&mut object);
        prepare_create(&mut object);
        validate(&object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults() {
        let mut object = json!({"spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}});
        default(&mut object);
        let expected = json!({"spec": {
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP",
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
            "internalTrafficPolicy": "Cluster"}});
        assert_eq!(object, expected);
        let mut again = object.clone();
        default(&mut again);
        assert_eq!(again, object);
    }

    #[test]
    fn types() {
        let check = |spec: Value, expected: &[&str]| assert_eq!(faults(spec), expected);
        check(json!({"ports": [{"port": 80}]}), &[]);
        check(json!({}), &["spec.ports: Required value"]);
        check(json!({"clusterIP": "None"}), &[]);
        check(json!({"type": "ExternalName", "externalName": "a.b."}), &[]);
        check(json!({"type": "ExternalName"}), &["spec.externalName: Required value"]);
        check(
            json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}),
            &["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        );
        check(
            json!({"type": "X", "ports": [{"port": 80}]}),
            &["spec.type: Unsupported value: \"X\": supported values: \"ClusterIP\", \"ExternalName\", \
               \"LoadBalancer\", \"NodePort\""],
        );
    }

    #[test]
    fn cells() {
        let object =
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000, "protocol": "TCP"}]}});
        assert_eq!(external_ip(&object), "<pending>");
        assert_eq!(ports_text(&object), "80:30000/TCP");
    }
}
