//! Node: a machine that runs pods. Its agent registers it, status included.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::pod::affinity::EFFECTS;
use super::pod::resources::quantity;
use crate::check::{At, Faults, named, one_of};
use crate::halves::keep_other_half;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";
const CIDR_STAYS: &str = "node updates may not change podCIDR except from \"\" to valid";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
    "spec": {"taints": [{"key": "disk", "effect": "NoSchedule"}], "podCIDR": "10.1.0.0/24"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Node", "nodes")
        .cluster_scoped()
        .short("no")
        .schema("io.k8s.api.core.v1.Node")
        .with_status()
        .with_subresource("proxy", &["create", "delete", "get", "patch", "update"])
        .columns(columns())
        .selectable_by("spec.unschedulable", |object, _| object.flag(&["spec", "unschedulable"]).to_string())
        .apply_order(apply_order::CLASS)
        .health(health)
        .defaults(default)
        // Unlike elsewhere the status given with a create counts: an agent registers itself complete.
        .prepares_create(|_| {})
        .prepares_update(keep_other_half)
        .validates(validate)
        .validates_update(validate_update)
        .warns(warnings)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Status", "string", "Ready or not, schedulable or not.", |object, _| status(object).into()),
        Column::new("Roles", "string", "Roles that its labels give it.", |object, _| roles(object).into()),
        column::age(),
        Column::new("Version", "string", "Version of its agent.", |object, _| {
            object.text(&["status", "nodeInfo", "kubeletVersion"]).into()
        }),
        Column::new("Internal-IP", "string", "Its address inside.", |object, _| address(object, "InternalIP")).wide(),
        Column::new("External-IP", "string", "Its address outside.", |object, _| address(object, "ExternalIP")).wide(),
        Column::new("OS-Image", "string", "Its operating system.", |object, _| info_of(object, "osImage")).wide(),
        Column::new("Kernel-Version", "string", "Its kernel.", |object, _| info_of(object, "kernelVersion")).wide(),
        Column::new("Container-Runtime", "string", "What runs its containers.", |object, _| {
            info_of(object, "containerRuntimeVersion")
        })
        .wide(),
    ]
}

fn ready(node: &Value) -> Option<&str> {
    let conditions = node.items(&["status", "conditions"]);
    conditions.iter().find(|c| c.text(&["type"]) == "Ready").map(|c| c.text(&["status"]))
}

fn status(node: &Value) -> String {
    let ready = match ready(node) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node.flag(&["spec", "unschedulable"]) { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(node: &Value) -> String {
    let labels = node.map(&["metadata", "labels"]).into_iter().flatten();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None if key == ROLE => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    column::or_none(roles.into_iter().collect::<Vec<_>>().join(","))
}

fn address(node: &Value, kind: &str) -> Value {
    let found = node.items(&["status", "addresses"]).iter().find(|address| address.text(&["type"]) == kind);
    found.map_or(column::NONE, |address| address.text(&["address"])).into()
}

fn info_of(node: &Value, field: &str) -> Value {
    match node.text(&["status", "nodeInfo", field]) {
        "" => "<unknown>".into(),
        text => text.into(),
    }
}

fn health(node: &Value) -> Converged {
    match ready(node) {
        Some("True") => Converged::Yes,
        Some(_) => Converged::Progressing("is not ready".to_owned()),
        None => Converged::Progressing("its agent has not reported yet".to_owned()),
    }
}

fn default(object: &mut Value) {
    default_cidrs(object);
    let Some(status) = fill::child(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        fill::absent(status, "allocatable", capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`; whoever writes only one of them means both.
fn default_cidrs(object: &mut Value) {
    let one = object.text(&["spec", "podCIDR"]).to_owned();
    let first = object.items(&["spec", "podCIDRs"]).first().and_then(Value::as_str).unwrap_or("").to_owned();
    if one.is_empty() && !first.is_empty() {
        object.put(&["spec", "podCIDR"], first);
    } else if one != first {
        object.put(&["spec", "podCIDRs"], vec![Value::from(one)]);
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    check_taints(&root, &mut faults);
    check_amounts(&root, &mut faults);
    let spec = root.field("spec");
    check_cidrs(&spec.field("podCIDRs"), &mut faults);
    faults
}

fn check_taints(root: &At, faults: &mut Faults) {
    let (spec, meta) = (root.field("spec"), root.field("metadata"));
    // Upstream places taints under the metadata in its messages.
    let shown = meta.field("taints");
    let taints = shown.with(spec.value.get("taints").unwrap_or(&Value::Null));
    let mut seen = BTreeSet::new();
    for taint in taints.each() {
        named(&taint.field("key"), name::qualified_name, faults);
        let value = taint.field("value");
        named(&value, |text| joined(name::label_value(text)), faults);
        one_of(&taint.field("effect"), EFFECTS, faults);
        if !seen.insert((taint.field("key").text(), taint.field("effect").text())) {
            let mut fault = taint.duplicate();
            fault.detail = "taints must be unique by key and effect pair".to_owned();
            faults.push(fault);
        }
    }
}

fn joined(faults: Vec<String>) -> Vec<String> {
    if faults.is_empty() { faults } else { vec![faults.join(";")] }
}

fn check_amounts(root: &At, faults: &mut Faults) {
    let status = root.field("status");
    for list in ["capacity", "allocatable"] {
        let amounts = status.field(list);
        for (resource, amount) in amounts.entries() {
            quantity(&amounts.field(resource).with(amount.value), resource, faults);
        }
    }
}

fn check_cidrs(list: &At, faults: &mut Faults) {
    list.each().for_each(|cidr| named(&cidr, name::cidr, faults));
    let items = list.items();
    let is_v6 = |cidr: &&Value| cidr.as_str().is_some_and(|text| text.contains(':'));
    let of_v6 = items.iter().filter(is_v6).count();
    if of_v6 > 1 || items.len() - of_v6 > 1 {
        faults.push(list.invalid("may specify no more than one CIDR for each IP family"));
    }
    let mut seen = BTreeSet::new();
    let repeated = list.each().filter(|cidr| !seen.insert(cidr.text()));
    faults.extend(repeated.map(|cidr| cidr.duplicate()).collect::<Vec<_>>());
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    check_amounts(&root, &mut faults);
    let status = root.field("status");
    let mut seen = BTreeSet::new();
    for address in status.field("addresses").each() {
        if !seen.insert((address.field("type").text(), address.field("address").text())) {
            faults.push(address.duplicate());
        }
    }
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    let (cidrs, old_cidrs) = (spec.field("podCIDRs"), old_spec.field("podCIDRs"));
    if !old_cidrs.items().is_empty() && cidrs.items() != old_cidrs.items() {
        faults.push(cidrs.forbidden(CIDR_STAYS));
    }
    let (provider, old_provider) = (spec.field("providerID"), old_spec.field("providerID"));
    if !old_provider.text().is_empty() && provider.text() != old_provider.text() {
        faults.push(provider.forbidden("node updates may not change providerID except from \"\" to valid"));
    }
    check_taints(&root, &mut faults);
    if spec.field("externalID").text() != old_spec.field("externalID").text() {
        faults.push(spec.field("externalID").forbidden("may not be updated"));
    }
    faults
}

fn warnings(new: &Value, _: Option<&Value>) -> Vec<String> {
    let spec = &new["spec"];
    let mut warnings = Vec::new();
    if spec.get("configSource").is_some_and(|source| !source.is_null()) {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.text(&["externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        assert_eq!(status(&node), "NotReady,SchedulingDisabled");
        assert_eq!(roles(&node), "a,b");
        assert_eq!(address(&node, "InternalIP"), "<none>");
    }

    #[test]
    fn cidrs_keep_in_step() {
        let check = |spec: Value, expected: Value| {
            let mut node = json!({ "spec": spec });
            default(&mut node);
            assert_eq!(node["spec"], expected);
        };
        let both = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]});
        check(json!({"podCIDR": "10.0.0.0/24"}), both.clone());
        check(json!({"podCIDRs": ["10.0.0.0/24"]}), both.clone());
        check(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.9.0.0/24"]}), both);
        check(json!({}), json!({}));
    }

    #[test]
    fn faults() {
        let texts = |faults: Vec<FieldError>| faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let node = json!({"spec": {"taints": [taint, taint], "podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}});
        let expected = [
            "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key \
             and effect pair",
            "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each \
             IP family",
        ];
        assert_eq!(texts(validate(&node)), expected);
        let old = json!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}});
        let new = json!({"spec": {"podCIDRs": ["10.1.0.0/24"], "providerID": "b"}});
        let expected = [
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ];
        assert_eq!(texts(validate_update(&new, &old, UpdateOf::Main)), expected);
    }
}
