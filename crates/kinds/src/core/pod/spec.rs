//! The spec of a pod, as pods and pod templates share it.

use std::collections::BTreeSet;

use meta::labels::validate_labels;
use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::annotations::MIRROR;
use super::{Context, affinity, container, resources, security, volume, windows};
use crate::check::{At, Faults, in_range, named, one_of, optional_name, optional_one_of, required_name};

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
/// What resolvers take: see resolv.conf(5).
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LIST_MAX: usize = 2048;

/// Whose spec it is: some checks differ.
#[derive(Clone, Copy)]
pub(crate) enum Owner<'v> {
    /// A pod, with its metadata.
    Pod(&'v Value),
    /// A template of pods.
    Template,
}

/// Checks a pod spec.
pub(crate) fn check(spec: &At, owner: Owner, faults: &mut Faults) {
    if !spec.has("terminationGracePeriodSeconds") {
        faults.push(spec.field("terminationGracePeriodSeconds").required(""));
    }
    let metadata = match owner {
        Owner::Pod(metadata) => metadata,
        Owner::Template => &Value::Null,
    };
    let volumes = volume::check(&spec.field("volumes"), metadata.text(&["name"]), faults);
    resource_claims(&spec.field("resourceClaims"), metadata, faults);
    let context = Context::new(spec.value, volumes);
    container::regular(&spec.field("containers"), &context, faults);
    container::init(&spec.field("initContainers"), &context, faults);
    container::ephemeral(&spec.field("ephemeralContainers"), &context, faults);
    resources::pod_level(spec, &context.claims, faults);
    host_network_ports(spec, matches!(owner, Owner::Pod(_)), faults);
    one_of(&spec.field("restartPolicy"), &["Always", "OnFailure", "Never"], faults);
    one_of(&spec.field("dnsPolicy"), DNS_POLICIES, faults);
    let selector = spec.field("nodeSelector");
    faults.extend(selector.value.as_object().map(|map| validate_labels(map, &selector.path)).unwrap_or_default());
    security::pod(spec, faults);
    share_process_namespace(spec, faults);
    affinity::check(&spec.field("affinity"), faults);
    dns_config(spec, faults);
    gates(spec, faults);
    affinity::spread(&spec.field("topologySpreadConstraints"), faults);
    windows::host_process(spec, faults);
    security::host_users(spec, faults);
    security::host_name(spec, faults);
    names(spec, faults);
    affinity::tolerations(&spec.field("tolerations"), faults);
    host_aliases(&spec.field("hostAliases"), faults);
    classes(spec, faults);
    windows::system(spec, faults);
    file_key_volumes(spec, faults);
}

fn resource_claims(list: &At, metadata: &Value, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for claim in list.each() {
        if metadata.at(&["annotations", MIRROR]).is_some() {
            faults.push(FieldError::forbidden("[]", "static pods do not support resource claims"));
            continue;
        }
        let name = claim.field("name");
        if names.insert(name.text()) || name.text().is_empty() {
            required_name(&name, name::dns1123_label, faults);
        } else {
            faults.push(name.duplicate());
        }
        claim_source(&claim, faults);
    }
}

fn claim_source(claim: &At, faults: &mut Faults) {
    match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
        (true, true) => {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            faults.push(claim.invalid(detail));
        }
        (false, false) => {
            let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            faults.push(claim.invalid(detail));
        }
        _ => {}
    }
    for field in ["resourceClaimName", "resourceClaimTemplateName"] {
        let name = claim.field(field);
        if name.is_set() {
            named(&name, name::dns1123_subdomain, faults);
        }
    }
}

/// On the node's network a container's port is the node's.
fn host_network_ports(spec: &At, is_pod: bool, faults: &mut Faults) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for container in spec.field("containers").each() {
        for port in container.field("ports").each() {
            let host = port.field("hostPort");
            let (own, taken) = (port.field("containerPort").number(), host.number());
            if (is_pod || taken != 0) && taken != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                faults.push(host.invalid_as(taken, detail));
            }
        }
    }
}

fn share_process_namespace(spec: &At, faults: &mut Faults) {
    let share = spec.field("shareProcessNamespace");
    if share.is_true() && spec.field("hostPID").is_true() {
        faults.push(share.invalid("ShareProcessNamespace and HostPID cannot both be enabled"));
    }
}

fn dns_config(spec: &At, faults: &mut Faults) {
    let config = spec.field("dnsConfig");
    let (servers, searches) = (config.field("nameservers"), config.field("searches"));
    if spec.field("dnsPolicy").text() == "None" {
        if !config.is_set() {
            return faults.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        if servers.items().is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return faults.push(servers.required(detail));
        }
    }
    if servers.items().len() > NAMESERVERS_MAX {
        faults.push(servers.invalid(format!("must not have more than {NAMESERVERS_MAX} nameservers")));
    }
    servers.each().for_each(|server| named(&server, name::ip, faults));
    search_list(&searches, faults);
    for option in config.field("options").each() {
        if option.field("name").text().is_empty() {
            faults.push(option.required("must not be empty"));
        }
    }
}

fn search_list(searches: &At, faults: &mut Faults) {
    let list: Vec<&str> = searches.items().iter().filter_map(Value::as_str).collect();
    if list.len() > SEARCHES_MAX {
        faults.push(searches.invalid(format!("must not have more than {SEARCHES_MAX} search paths")));
    }
    if list.join(" ").len() > SEARCH_LIST_MAX {
        let detail =
            format!("must not have more than {SEARCH_LIST_MAX} characters (including spaces) in the search list");
        faults.push(searches.invalid(detail));
    }
    for search in searches.each().filter(|search| search.text() != ".") {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        faults.extend(search_domain(text).into_iter().map(|fault| search.invalid_as(text, fault)));
    }
}

/// A DNS name whose labels may contain underscores.
fn search_domain(text: &str) -> Vec<String> {
    const LABEL: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    const MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
                           '-' or '.', and must start and end with an alphanumeric character";
    let mut faults = Vec::new();
    if text.len() > name::SUBDOMAIN_MAX {
        faults.push(format!("must be no more than {} characters", name::SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_search_label) {
        faults.push(name::regex_error(MESSAGE, &format!("{LABEL}(\\.{LABEL})*"), &["example.com"]));
    }
    faults
}

fn is_search_label(label: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
    bytes.first().copied().is_some_and(word)
        && bytes.last().copied().is_some_and(word)
        && bytes.iter().all(|b| word(*b) || matches!(b, b'-' | b'_'))
}

/// What holds a pod back: from being ready, from being scheduled.
fn gates(spec: &At, faults: &mut Faults) {
    for gate in spec.field("readinessGates").each() {
        named(&gate.field("conditionType"), name::qualified_name, faults);
    }
    let mut seen = BTreeSet::new();
    for gate in spec.field("schedulingGates").each() {
        let name = gate.field("name").text();
        let wrong = name::qualified_name(name).into_iter();
        faults.extend(wrong.map(|fault| gate.invalid_as(name, fault)));
        if !seen.insert(name) {
            faults.push(FieldError::duplicate(gate.path, name));
        }
    }
}

fn names(spec: &At, faults: &mut Faults) {
    optional_name(&spec.field("serviceAccountName"), name::dns1123_subdomain, faults);
    let (account, old) = (spec.field("serviceAccountName").text(), spec.field("serviceAccount").text());
    if account != old {
        let detail = format!("must be the same as serviceAccountName: {account:?}");
        faults.push(spec.field("deprecatedServiceAccount").invalid_as(old, detail));
    }
    optional_name(&spec.field("nodeName"), name::dns1123_subdomain, faults);
    in_range(&spec.field("activeDeadlineSeconds"), 1, i64::from(i32::MAX), faults);
    optional_name(&spec.field("hostname"), name::dns1123_label, faults);
    optional_name(&spec.field("subdomain"), name::dns1123_label, faults);
}

fn host_aliases(list: &At, faults: &mut Faults) {
    for alias in list.each() {
        named(&alias.field("ip"), name::ip, faults);
        alias.field("hostnames").each().for_each(|host| named(&host, name::dns1123_subdomain, faults));
    }
}

fn classes(spec: &At, faults: &mut Faults) {
    optional_name(&spec.field("priorityClassName"), name::dns1123_subdomain, faults);
    let runtime = spec.field("runtimeClassName");
    if runtime.is_set() {
        named(&runtime, name::dns1123_subdomain, faults);
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.is_set() && preemption.text().is_empty() {
        faults.push(preemption.required(""));
    } else {
        optional_one_of(&preemption, &["PreemptLowerPriority", "Never"], faults);
    }
    if spec.has("overhead") {
        resources::overhead(&spec.field("overhead"), faults);
    }
}

/// Variables read from files find them in empty directories only.
fn file_key_volumes(spec: &At, faults: &mut Faults) {
    let volumes = spec.value.items(&["volumes"]);
    super::each_container(spec, |container| {
        for variable in container.field("env").each().filter(|v| v.value.at(&["valueFrom", "fileKeyRef"]).is_some()) {
            let from = variable.field("valueFrom");
            let reference = from.field("fileKeyRef");
            let name = reference.field("volumeName");
            match volumes.iter().rfind(|volume| volume.text(&["name"]) == name.text()) {
                None => faults.push(name.not_found()),
                Some(volume) if volume.get("emptyDir").is_none() => {
                    faults.push(name.invalid("referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    });
}
