//! Containers: what all have in common, and what the three lists of a pod add to it.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::resources::is_sidecar;
use super::{Context, env, mount, probe, resources, security};
use crate::check::{At, Faults, one_of, optional_name, required_name, same, supported_text};

/// Ports' protocols.
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// When images are pulled.
pub const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
/// Rules a container may have for its restart: as upstream limits them.
const RESTART_RULES_MAX: usize = 20;
/// Exit codes one such rule may list.
const EXIT_CODES_MAX: usize = 255;
/// What an ephemeral container cannot have, in the order of the fields.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// Checks `containers`.
pub(crate) fn regular(list: &At, context: &Context, faults: &mut Faults) {
    if list.items().is_empty() {
        faults.push(list.required(""));
        return;
    }
    let mut names = BTreeSet::new();
    for container in list.each() {
        common(&container, context, faults);
        if !names.insert(container.field("name").text()) {
            faults.push(container.field("name").duplicate());
        }
        probe::check(&container, context, faults);
        restart_rules(&container, faults);
    }
    host_ports(list.each(), faults);
}

/// Checks `initContainers`; those that always restart are sidecars and live as others do.
pub(crate) fn init(list: &At, context: &Context, faults: &mut Faults) {
    let mut names = context.names("containers");
    for container in list.each() {
        common(&container, context, faults);
        init_restart(&container, faults);
        let name = container.field("name");
        if names.contains(name.text()) {
            faults.push(name.duplicate());
        } else if !name.text().is_empty() {
            names.insert(name.text());
        }
        // Upstream looks at each init container as if it stood first.
        host_ports(std::iter::once(At { value: container.value, path: list.path.index(0) }), faults);
        if is_sidecar(container.value) {
            probe::check(&container, context, faults);
        } else {
            without_probes(&container, faults);
            no_restart_on_resize(&container, faults);
        }
    }
}

fn without_probes(container: &At, faults: &mut Faults) {
    for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container.has(field) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            faults.push(container.field(field).forbidden(detail));
        }
    }
}

fn no_restart_on_resize(container: &At, faults: &mut Faults) {
    for policy in container.field("resizePolicy").each() {
        let restart = policy.field("restartPolicy");
        if restart.text() == "RestartContainer" {
            faults.push(restart.invalid("must not be set to 'RestartContainer' for non-sidecar initContainers"));
        }
    }
}

/// Checks `ephemeralContainers`.
pub(crate) fn ephemeral(list: &At, context: &Context, faults: &mut Faults) {
    let others: BTreeSet<&str> = &context.names("containers") | &context.names("initContainers");
    let mut names = others.clone();
    for container in list.each() {
        common(&container, context, faults);
        only_in_pods(&container, faults);
        if !names.insert(container.field("name").text()) {
            faults.push(container.field("name").duplicate());
        }
        let target = container.field("targetContainerName");
        if !target.text().is_empty() && !others.contains(target.text()) {
            faults.push(target.not_found());
        }
        bare(&container, faults);
    }
}

fn bare(container: &At, faults: &mut Faults) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    for field in NOT_EPHEMERAL {
        let at = container.field(field);
        // An empty probe is a probe; empty resources are none.
        let empty = matches!(*field, "ports" | "resources" | "resizePolicy" | "restartPolicyRules")
            && same(at.value, &Value::Null);
        if at.is_set() && !empty {
            faults.push(at.forbidden(DETAIL));
        }
    }
    for mount in container.field("volumeMounts").each() {
        for field in ["subPath", "subPathExpr"] {
            if !mount.field(field).text().is_empty() {
                faults.push(mount.field(field).forbidden(DETAIL));
            }
        }
    }
}

/// Checks that pods, unlike templates, are held to.
pub(crate) fn only_in_pods(container: &At, faults: &mut Faults) {
    let image = container.field("image");
    if image.text().trim().len() != image.text().len() {
        faults.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

fn common(container: &At, context: &Context, faults: &mut Faults) {
    required_name(&container.field("name"), name::dns1123_label, faults);
    if container.field("image").text().is_empty() {
        faults.push(container.field("image").required(""));
    }
    one_of(&container.field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"], faults);
    ports(&container.field("ports"), faults);
    env::variables(&container.field("env"), faults);
    env::sources(&container.field("envFrom"), faults);
    mount::check(container, context, faults);
    one_of(&container.field("imagePullPolicy"), PULL_POLICIES, faults);
    resources::container(&container.field("resources"), &context.claims, faults);
    resize_policy(&container.field("resizePolicy"), context, faults);
    security::container(&container.field("securityContext"), context, faults);
}

fn ports(list: &At, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for port in list.each() {
        let name = port.field("name");
        let before = faults.len();
        optional_name(&name, name::port_name, faults);
        if faults.len() == before && !name.text().is_empty() && !names.insert(name.text()) {
            faults.push(name.duplicate());
        }
        port_numbers(&port, faults);
        one_of(&port.field("protocol"), PROTOCOLS, faults);
    }
}

fn port_numbers(port: &At, faults: &mut Faults) {
    let (own, host) = (port.field("containerPort"), port.field("hostPort"));
    if own.number() == 0 {
        faults.push(own.required(""));
    } else {
        faults.extend(name::port_number(own.number()).into_iter().map(|fault| own.invalid(fault)));
    }
    if host.number() != 0 {
        faults.extend(name::port_number(host.number()).into_iter().map(|fault| host.invalid(fault)));
    }
}

/// No two containers take the same port of the node.
fn host_ports<'v, 'p>(containers: impl Iterator<Item = At<'v, 'p>>, faults: &mut Faults) {
    let mut taken = BTreeSet::new();
    for container in containers {
        for port in container.field("ports").each() {
            let (value, number) = (port.value, port.field("hostPort").number());
            let key = format!("{}/{}/{number}", value.text(&["protocol"]), value.text(&["hostIP"]));
            if number != 0 && taken.contains(&key) {
                faults.push(FieldError::duplicate(port.field("hostPort").path, key));
            } else if number != 0 {
                taken.insert(key);
            }
        }
    }
}

/// Upstream reports all of these at the list, but for repetitions.
fn resize_policy(list: &At, context: &Context, faults: &mut Faults) {
    let mut resources = BTreeSet::new();
    for policy in list.each() {
        let (resource, restart) = (policy.field("resourceName"), policy.field("restartPolicy"));
        if !resources.insert(resource.text()) {
            faults.push(FieldError::duplicate(policy.path, resource.text()));
        }
        one_of(&list.with(resource.value), &["cpu", "memory"], faults);
        one_of(&list.with(restart.value), &["NotRequired", "RestartContainer"], faults);
        if context.spec.text(&["restartPolicy"]) == "Never" && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            faults.push(list.invalid_as(restart.text(), detail));
        }
    }
}

fn init_restart(container: &At, faults: &mut Faults) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        restart_rules(container, faults);
    } else if !rules.items().is_empty() {
        faults.push(policy.required(NO_POLICY));
    }
}

/// How a container restarts by itself, whatever the pod does.
fn restart_rules(container: &At, faults: &mut Faults) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        supported_text(&policy, &["Always", "Never", "OnFailure"], faults);
    } else if rules.items().is_empty() {
        return;
    } else {
        faults.push(policy.required(NO_POLICY));
    }
    if rules.items().len() > RESTART_RULES_MAX {
        faults.push(FieldError::too_many(rules.path, rules.items().len(), RESTART_RULES_MAX));
    }
    rules.each().for_each(|rule| restart_rule(&rule, faults));
}

fn restart_rule(rule: &At, faults: &mut Faults) {
    supported_text(&rule.field("action"), &["Restart", "RestartAllContainers"], faults);
    let codes = rule.field("exitCodes");
    if !codes.is_set() {
        faults.push(codes.required("must be specified"));
        return;
    }
    supported_text(&codes.field("operator"), &["In", "NotIn"], faults);
    let values = codes.field("values").items().len();
    if values > EXIT_CODES_MAX {
        faults.push(FieldError::too_many(codes.field("values").path, values, EXIT_CODES_MAX));
    }
}
