//! What nodes and the scheduler may report of a pod.

use std::collections::BTreeSet;
use std::net::IpAddr;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::annotations;
use super::restart::{all_could_restart, should_restart};
use crate::check::{At, Faults, immutable, in_range, named, optional_name};

/// Lists of container statuses, each with the list of containers it reports on.
const STATUS_LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];
const NOT_NEGATIVE: &str = "must be a non-negative integer";
const NOT_AGAIN: &str = "may not be transitioned to non-terminated state";

/// Checks a change at the address `status`.
pub(crate) fn check(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    let (metadata, status, old_status) = (root.field("metadata"), root.field("status"), old_root.field("status"));
    let annotations = metadata.field("annotations");
    annotations::check_update(&annotations, old.map(&["metadata", "annotations"]), &new["spec"], &mut faults);
    conditions(&status.field("conditions"), &mut faults);
    if new.text(&["spec", "nodeName"]) != old.text(&["spec", "nodeName"]) {
        faults.push(status.field("nodeName").forbidden("may not be changed directly"));
    }
    nominated(&status, &old_status, old.text(&["spec", "nodeName"]), &mut faults);
    not_negative(&status.field("observedGeneration"), &mut faults);
    immutable(&status.field("qosClass"), &old_status.field("qosClass"), &mut faults);
    for (list, containers) in STATUS_LISTS {
        not_restarted(&status.field(list), &old_status.field(list), &old["spec"], containers, &mut faults);
    }
    claims(&status.field("resourceClaimStatuses"), &new["spec"], &mut faults);
    addresses(&status, "podIP", "podIPs", &mut faults);
    addresses(&status, "hostIP", "hostIPs", &mut faults);
    for (list, _) in STATUS_LISTS {
        users(&status.field(list), new.text(&["spec", "os", "name"]) == "windows", &mut faults);
    }
    for entry in status.field("ephemeralContainerStatuses").each().filter(|e| e.has("allocatedResourcesStatus")) {
        faults.push(entry.field("allocatedResourcesStatus").forbidden("must not be specified in container status"));
    }
    faults
}

fn not_negative(at: &At, faults: &mut Faults) {
    if at.number() < 0 {
        faults.push(at.invalid(NOT_NEGATIVE));
    }
}

fn conditions(list: &At, faults: &mut Faults) {
    for condition in list.each() {
        not_negative(&condition.field("observedGeneration"), faults);
        let kind = condition.field("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            named(&condition.field("Type").with(kind.value), name::qualified_name, faults);
        }
    }
}

fn nominated(new: &At, old: &At, old_node: &str, faults: &mut Faults) {
    let node = new.field("nominatedNodeName");
    if node.text() == old.field("nominatedNodeName").text() {
        return;
    }
    optional_name(&node, name::dns1123_subdomain, faults);
    if !old_node.is_empty() && !node.text().is_empty() {
        faults.push(node.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// What has ended for good does not run again.
fn not_restarted(new: &At, old: &At, spec: &Value, containers: &str, faults: &mut Faults) {
    if containers != "ephemeralContainers" && all_could_restart(spec) {
        return;
    }
    for (index, former) in old.items().iter().enumerate() {
        let Some(code) = former.at(&["state", "terminated"]).map(|end| end.int(&["exitCode"]).unwrap_or(0)) else {
            continue;
        };
        let name = former.text(&["name"]);
        let Some(now) = new.items().iter().find(|status| status.text(&["name"]) == name) else { continue };
        let container = spec.items(&[containers]).iter().find(|container| container.text(&["name"]) == name);
        let may = containers != "ephemeralContainers" && container.is_some_and(|c| should_restart(c, spec, code));
        if now.at(&["state", "terminated"]).is_none() && !may {
            faults.push(FieldError::forbidden(new.path.index(index).field("state"), NOT_AGAIN));
        }
    }
}

fn claims(list: &At, spec: &Value, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for status in list.each() {
        let (name, claim) = (status.field("name"), status.field("resourceClaimName"));
        if !spec.items(&["resourceClaims"]).iter().any(|claim| claim.text(&["name"]) == name.text()) {
            faults.push(name.invalid("must match the name of an entry in `spec.resourceClaims`"));
        }
        if !seen.insert(name.text()) {
            faults.push(name.duplicate());
        }
        if claim.is_set() {
            named(&claim, name::dns1123_subdomain, faults);
        }
    }
}

/// A single address and the list that it leads: at most one of each family.
fn addresses(status: &At, single: &str, plural: &str, faults: &mut Faults) {
    let (one, list) = (status.field(single), status.field(plural));
    let texts: Vec<&str> = list.items().iter().map(|entry| entry.text(&["ip"])).collect();
    let pod = single == "podIP";
    list.each().for_each(|entry| {
        faults.extend(
            name::ip(entry.value.text(&["ip"])).into_iter().map(|f| entry.invalid_as(entry.value.text(&["ip"]), f)),
        )
    });
    let parsed: Vec<IpAddr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let both = parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if texts.len() > 2 || (texts.len() == 2 && !both) {
        faults.push(list.invalid("may specify no more than one IP for each IP family"));
    }
    match texts.first() {
        None if pod && !one.text().is_empty() => {
            faults.push(list.invalid("podIP and podIPs must either both be set or both be unset"));
        }
        Some(_) if pod && one.text().is_empty() => {
            faults.push(list.invalid("podIP and podIPs must either both be set or both be unset"));
        }
        Some(first) if *first != one.text() => {
            let at = list.path.index(0);
            faults.push(FieldError::invalid(at.field("ip"), *first, format!("must be equal to `{single}`")));
        }
        _ => {}
    }
}

fn users(list: &At, windows: bool, faults: &mut Faults) {
    for status in list.each() {
        let user = status.field("user");
        let linux = user.field("linux");
        if !linux.is_set() {
            continue;
        }
        if windows {
            faults.push(linux.forbidden("cannot be set for a windows pod"));
            continue;
        }
        in_range(&linux.field("uid"), 0, i64::from(u32::MAX), faults);
        in_range(&linux.field("gid"), 0, i64::from(i32::MAX), faults);
        linux.field("supplementalGroups").each().for_each(|id| in_range(&id, 0, i64::from(i32::MAX), faults));
    }
}
