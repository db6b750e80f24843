//! What is allowed in pods and templates and yet most likely a mistake.

use std::collections::{BTreeMap, BTreeSet};

use meta::{ObjectExt, Quantity, name};
use serde_json::Value;

use super::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, app_armor_field};
use super::each_container;
use crate::check::{At, same};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";
const SECCOMP_FIELD: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR_FIELD: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

const OLD_NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Volume sources that have gone out of use, by field and by the name upstream's warning gives.
const OLD_VOLUMES: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The deprecation of a node label, if it is deprecated.
pub(crate) fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, message)| *message)
}

/// Warnings for a new pod; changes of pods give none.
pub(crate) fn of_pod(pod: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let wrong = name::dns1123_label(pod.name());
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label \
             is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    collect(&At::root(pod), false, &mut warnings);
    warnings
}

/// The warning for a workload whose name becomes part of host names.
pub(crate) fn of_name(object: &Value, warnings: &mut Vec<String>) {
    let wrong = name::dns1123_label(object.name());
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Warnings for a pod template.
pub(crate) fn of_template(template: &At, warnings: &mut Vec<String>) {
    collect(template, true, warnings);
}

/// Warnings of a workload whose template stands at `spec.template`: its name counts when new, its template when new
/// or when the spec changed.
pub(crate) fn of_workload(new: &Value, old: Option<&Value>, with_name: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && with_name {
        of_name(new, &mut warnings);
    }
    if old.is_none_or(|old| !same(&new["spec"], &old["spec"])) {
        let root = At::root(new);
        of_template(&root.field("spec").field("template"), &mut warnings);
    }
    warnings
}

fn collect(root: &At, is_template: bool, out: &mut Vec<String>) {
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    node_labels(&spec, out);
    spreading(&spec, out);
    let annotations = metadata.field("annotations");
    for (key, message) in OLD_ANNOTATIONS.iter().filter(|(key, _)| annotations.has(key)) {
        out.push(format!("{}: {message}", annotations.path.key(key)));
    }
    volumes(&spec.field("volumes"), out);
    overlaps(spec.value.items(&["volumes"]), out);
    repeated(&spec.field("hostAliases"), "ip", out);
    repeated(&spec.field("imagePullSecrets"), "name", out);
    for secret in spec.field("imagePullSecrets").each().filter(|secret| secret.value.text(&["name"]).is_empty()) {
        out.push(format!("{}: invalid empty name \"\"", secret.field("name").path));
    }
    fractions(&spec.field("overhead"), out);
    profiles(&annotations, &spec, is_template, out);
    each_container(&spec, |container| in_container(&container, out));
    ports(&spec, out);
    if let Some(..0) = spec.field("terminationGracePeriodSeconds").int() {
        let at = spec.field("terminationGracePeriodSeconds").path;
        out.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    pod_affinity(&spec.field("affinity"), out);
    addresses(&spec, out);
}

fn node_labels(spec: &At, out: &mut Vec<String>) {
    for (key, entry) in spec.field("nodeSelector").entries() {
        out.extend(old_node_label(key).map(|message| format!("{}: {message}", entry.path)));
    }
    let affinity = spec.field("affinity");
    let affinity = affinity.field("nodeAffinity");
    let required = affinity.field(REQUIRED);
    required.field("nodeSelectorTerms").each().for_each(|term| node_term(&term, false, out));
    for preferred in affinity.field(PREFERRED).each() {
        node_term(&preferred.field("preference"), true, out);
    }
}

/// Warnings for one term of a node selector.
pub(crate) fn node_term(term: &At, check_values: bool, out: &mut Vec<String>) {
    for expression in term.field("matchExpressions").each() {
        let key = expression.field("key");
        out.extend(old_node_label(key.text()).map(|message| format!("{}: {} is {message}", key.path, key.text())));
        if !check_values {
            continue;
        }
        for value in expression.field("values").each() {
            let wrong = name::label_value(value.text()).into_iter();
            out.extend(wrong.map(|fault| format!("{}: {} is invalid, {fault}", value.path, value.text())));
        }
    }
}

fn spreading(spec: &At, out: &mut Vec<String>) {
    for constraint in spec.field("topologySpreadConstraints").each() {
        let key = constraint.field("topologyKey");
        out.extend(old_node_label(key.text()).map(|message| format!("{}: {} is {message}", key.path, key.text())));
        null_selector(&constraint, out);
    }
}

fn null_selector(term: &At, out: &mut Vec<String>) {
    if !term.has("labelSelector") {
        out.push(format!("{}: {NULL_SELECTOR}", term.field("labelSelector").path));
    }
}

fn pod_affinity(affinity: &At, out: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.field(kind);
        terms.field(REQUIRED).each().for_each(|term| null_selector(&term, out));
        for weighted in terms.field(PREFERRED).each() {
            null_selector(&weighted.field("podAffinityTerm"), out);
        }
    }
}

fn volumes(list: &At, out: &mut Vec<String>) {
    for volume in list.each() {
        for (_, shown, message) in OLD_VOLUMES.iter().filter(|(field, ..)| volume.has(field)) {
            out.push(format!("{}: {message}", volume.field(shown).path));
        }
    }
}

fn repeated(list: &At, field: &str, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for item in list.each() {
        let at = item.field(field);
        if !seen.insert(at.text()) {
            out.push(format!("{}: duplicate {field} {:?}", at.path, at.text()));
        }
    }
}

/// Amounts of bytes with a fraction.
fn fractions(list: &At, out: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        let amount = list.entry(name);
        let Ok(quantity) = Quantity::parse(amount.text()) else { continue };
        if quantity.milli() % 1000 != 0 {
            let shown = quantity.to_string();
            out.push(format!("{}: fractional byte value {shown:?} is invalid, must be an integer", amount.path));
        }
    }
}

/// Annotations that fields have replaced.
fn profiles(annotations: &At, spec: &At, is_template: bool, out: &mut Vec<String>) {
    let pod = spec.field("securityContext");
    if annotations.has(SECCOMP_POD) && !pod.has("seccompProfile") {
        out.push(format!("{}: {SECCOMP_FIELD}", annotations.path.key(SECCOMP_POD)));
    }
    each_container(spec, |container| {
        let (name, context) = (container.field("name").text(), container.field("securityContext"));
        let key = format!("{SECCOMP_CONTAINER}{name}");
        if annotations.has(&key) && !context.has("seccompProfile") {
            out.push(format!("{}: {SECCOMP_FIELD}", annotations.path.key(&key)));
        }
        let key = format!("{APP_ARMOR}{name}");
        let Some(text) = annotations.value.get(&key).and_then(Value::as_str) else { return };
        if context.has("appArmorProfile") {
            return;
        }
        let field = app_armor_field(text);
        let pod_profile = pod.field("appArmorProfile");
        let said_by_pod = field.as_ref().is_some_and(|field| pod_profile.is_set() && same(field, pod_profile.value));
        // In pods the annotation becomes the field, which is worth a word unless the pod says the same.
        if !said_by_pod || (!is_template && field.is_none()) {
            out.push(format!("{}: {APP_ARMOR_FIELD}", annotations.path.key(&key)));
        }
    });
}

fn in_container(container: &At, out: &mut Vec<String>) {
    let resources = container.field("resources");
    for name in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let list = resources.field(list);
            let only = list.value.get(name).map(|amount| serde_json::json!({ name: amount })).unwrap_or_default();
            fractions(&list.with(&only), out);
        }
    }
    let mut seen = BTreeSet::new();
    for variable in container.field("env").each() {
        let (name, value) = (variable.value.text(&["name"]), variable.value.text(&["value"]));
        // A variable may be built on its former self, but not on itself alone.
        let reference = format!("$({name})");
        let hides = variable.has("valueFrom") || value == reference || !value.contains(&reference);
        if !seen.insert(name) && hides {
            out.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                variable.path
            ));
        }
    }
}

/// A port as it was first seen: where, which address and port of the node.
struct Seen<'v> {
    path: String,
    host_ip: &'v str,
    host_port: i64,
}

fn ports(spec: &At, out: &mut Vec<String>) {
    let mut by_port: BTreeMap<(i64, &str), Vec<Seen>> = BTreeMap::new();
    let mut names = Vec::new();
    each_container(spec, |container| {
        for port in container.field("ports").each() {
            let value = port.value;
            let key = (value.int(&["containerPort"]).unwrap_or(0), value.text(&["protocol"]));
            let seen = Seen {
                path: port.path.to_string(),
                host_ip: value.text(&["hostIP"]),
                host_port: value.int(&["hostPort"]).unwrap_or(0),
            };
            if !seen.host_ip.is_empty() && seen.host_port == 0 {
                out.push(format!("{}: hostIP set without hostPort: {}", seen.path, go_port(value)));
            }
            let others = by_port.entry(key).or_default();
            out.extend(others.iter().filter_map(|other| port_clash(&seen, other)));
            names.push((value.text(&["name"]), seen.path.clone()));
            others.push(seen);
        }
    });
    port_names(names, out);
}

/// A port as Go prints it.
fn go_port(port: &Value) -> String {
    let (text, number) = (|field: &str| port.text(&[field]), |field: &str| port.int(&[field]).unwrap_or(0));
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        text("name"),
        number("hostPort"),
        number("containerPort"),
        text("protocol"),
        text("hostIP")
    )
}

fn port_clash(port: &Seen, other: &Seen) -> Option<String> {
    let noun = if port.host_ip == other.host_ip && port.host_port == other.host_port {
        "duplicate"
    } else if port.host_port == 0 || other.host_port == 0 {
        "overlapping"
    } else if port.host_port == other.host_port && port.host_ip.is_empty() != other.host_ip.is_empty() {
        "dangerously ambiguous"
    } else {
        return None;
    };
    Some(format!("{}: {noun} port definition with {}", port.path, other.path))
}

fn port_names(names: Vec<(&str, String)>, out: &mut Vec<String>) {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    for (name, path) in names.into_iter().filter(|(name, _)| !name.is_empty()) {
        match first.get(name) {
            Some(other) => out.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name \
                 will use {other}"
            )),
            None => _ = first.insert(name, path),
        }
    }
}

fn addresses(spec: &At, out: &mut Vec<String>) {
    let mut check = |at: At| {
        if let Ok(address) = at.text().parse::<std::net::Ipv6Addr>()
            && address.to_string() != at.text()
        {
            out.push(format!(
                "{}: IPv6 address {:?} should be in RFC 5952 canonical format ({:?})",
                at.path,
                at.text(),
                address.to_string()
            ));
        }
    };
    let config = spec.field("dnsConfig");
    config.field("nameservers").each().for_each(&mut check);
    spec.field("hostAliases").each().for_each(|alias| check(alias.field("ip")));
}

/// A path in a volume and what puts something there.
#[derive(Clone, PartialEq)]
struct Placed<'v> {
    path: &'v str,
    source: String,
}

impl Placed<'_> {
    fn shown(&self) -> String {
        if self.source.is_empty() { format!("{:?}", self.path) } else { format!("{:?} ({})", self.path, self.source) }
    }

    fn collides(&self, other: &Placed) -> bool {
        let within = |inner: &str, outer: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (within(self.path, other.path) || within(other.path, self.path))
    }
}

/// Files of one volume that are in one another's way.
fn overlaps(volumes: &[Value], out: &mut Vec<String>) {
    for volume in volumes {
        let name = volume.text(&["name"]);
        let plain = [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")];
        for (field, noun, reference) in plain.into_iter().filter(|(field, ..)| volume.at(&[field, "items"]).is_some()) {
            let described = format!("{noun} {:?}", volume.text(&[field, reference]));
            collisions(name, &described, &item_paths(&volume[field], ""), out);
        }
        if volume.at(&["downwardAPI", "items"]).is_some() {
            collisions(name, "DownwardAPI", &item_paths(&volume["downwardAPI"], ""), out);
        }
        let mut placed = Vec::new();
        for source in volume.items(&["projected", "sources"]) {
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                out.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            placed.extend(projected_paths(source));
        }
        collisions(name, "Projected", &placed, out);
    }
}

fn item_paths<'v>(source: &'v Value, described: &str) -> Vec<Placed<'v>> {
    let placed = |item: &'v Value| Placed { path: item.text(&["path"]), source: described.to_owned() };
    source.items(&["items"]).iter().map(placed).collect()
}

fn projected_paths(source: &Value) -> Vec<Placed<'_>> {
    let of = |field: &str| source.get(field);
    let one = |path, source: String| Placed { path, source };
    if let Some(map) = of("configMap").filter(|map| map.get("items").is_some()) {
        return item_paths(map, &format!("ConfigMap {:?}", map.text(&["name"])));
    }
    if let Some(secret) = of("secret").filter(|secret| secret.get("items").is_some()) {
        return item_paths(secret, &format!("Secret {:?}", secret.text(&["name"])));
    }
    if let Some(downward) = of("downwardAPI").filter(|downward| downward.get("items").is_some()) {
        return item_paths(downward, "DownwardAPI");
    }
    if let Some(token) = of("serviceAccountToken") {
        return vec![one(token.text(&["path"]), "ServiceAccountToken".to_owned())];
    }
    if let Some(bundle) = of("clusterTrustBundle") {
        let name = if bundle.get("name").is_some() { bundle.text(&["name"]) } else { bundle.text(&["signerName"]) };
        return vec![one(bundle.text(&["path"]), format!("ClusterTrustBundle {name:?}"))];
    }
    let Some(certificate) = of("podCertificate") else { return Vec::new() };
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.iter().filter(|(field, _)| !certificate.text(&[field]).is_empty());
    given.map(|(field, noun)| one(certificate.text(&[field]), (*noun).to_owned())).collect()
}

fn collisions(volume: &str, described: &str, placed: &[Placed], out: &mut Vec<String>) {
    let trimmed: Vec<Placed> = placed
        .iter()
        .map(|place| Placed { path: place.path.trim_end_matches('/'), source: place.source.clone() })
        .collect();
    for (index, place) in trimmed.iter().enumerate() {
        for other in trimmed.iter().take(index).filter(|other| place.collides(other)) {
            out.push(format!(
                "volume {volume:?} ({described}): overlapping paths: {} with {}",
                place.shown(),
                other.shown()
            ));
        }
    }
}
