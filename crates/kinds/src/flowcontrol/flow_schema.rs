//! FlowSchema: which requests belong to which level.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, one_of, required_name};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// The precedence of a schema that states none, and the last one of all (upstream's).
const PRECEDENCE: i64 = 1000;
const PRECEDENCE_MAX: i64 = 10_000;
const EXAMPLE: &str = r#"{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
    "metadata": {"name": "robots"}, "spec": {"priorityLevelConfiguration": {"name": "workload-low"},
        "distinguisherMethod": {"type": "ByUser"}, "rules": [{"subjects": [{"kind": "Group", "group": {"name": "robots"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "FlowSchema", "flowschemas")
        .cluster_scoped()
        .schema("io.k8s.api.flowcontrol.v1.FlowSchema")
        .with_status()
        .counts_generation()
        .columns(columns())
        .apply_order(apply_order::CLASS)
        .defaults(|schema| {
            if let Some(spec) = fill::child(schema, "spec") {
                fill::zero(spec, "matchingPrecedence", PRECEDENCE);
            }
        })
        .validates(validate)
        .validates_update(|new, _, what| if what == UpdateOf::Main { validate(new) } else { Vec::new() })
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("PriorityLevel", "string", "Where its requests wait.", |schema, _| {
            schema.text(&["spec", "priorityLevelConfiguration", "name"]).into()
        }),
        Column::new("MatchingPrecedence", "integer", "Lower is asked first.", |schema, _| {
            column::number(schema, &["spec", "matchingPrecedence"])
        }),
        Column::new("DistinguisherMethod", "string", "What makes a flow of its own.", |schema, _| {
            column::or_none(schema.text(&["spec", "distinguisherMethod", "type"])).into()
        }),
        column::age(),
        Column::new("MissingPL", "string", "Whether its level is missing.", |schema, _| {
            let mut conditions = schema.items(&["status", "conditions"]).iter();
            let dangling = conditions.find(|condition| condition.text(&["type"]) == "Dangling");
            dangling.map_or("?", |condition| condition.text(&["status"])).into()
        }),
    ]
}

fn validate(schema: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(schema);
    let spec = root.field("spec");
    let precedence = spec.field("matchingPrecedence");
    if !(1..=PRECEDENCE_MAX).contains(&precedence.number()) {
        faults.push(precedence.invalid(format!("must be in the range of 1 to {PRECEDENCE_MAX}")));
    }
    if spec.has("distinguisherMethod") {
        let method = spec.field("distinguisherMethod");
        one_of(&method.field("type"), &["ByNamespace", "ByUser"], &mut faults);
    }
    let level = spec.field("priorityLevelConfiguration");
    required_name(&level.field("name"), name::dns1123_subdomain, &mut faults);
    spec.field("rules").each().for_each(|rule| check_rule(&rule, &mut faults));
    faults
}

fn check_rule(rule: &At, faults: &mut Faults) {
    let subjects = rule.field("subjects");
    if subjects.items().is_empty() {
        faults.push(subjects.required("subjects must contain at least one value"));
    }
    for subject in subjects.each() {
        one_of(&subject.field("kind"), &["Group", "ServiceAccount", "User"], faults);
    }
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.items().is_empty() && others.items().is_empty() {
        faults.push(rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    for resource in resources.each() {
        check_lists(&resource, &["verbs", "apiGroups", "resources"], faults);
        let namespaces = resource.field("namespaces");
        if namespaces.items().is_empty() && !resource.field("clusterScope").is_true() {
            faults.push(
                namespaces.required("resource rules that are not cluster scoped must supply at least one namespace"),
            );
        }
    }
    others.each().for_each(|other| check_lists(&other, &["verbs", "nonResourceURLs"], faults));
}

fn check_lists(rule: &At, fields: &[&str], faults: &mut Faults) {
    for field in fields {
        let list = rule.field(field);
        if list.items().is_empty() {
            faults.push(list.required(format!("{field} must contain at least one value")));
        } else if list.items().len() > 1 && list.items().iter().any(|item| item == "*") {
            faults.push(list.invalid("if '*' is present, must not specify other values"));
        }
    }
}
