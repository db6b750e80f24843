//! IngressClass: who serves Ingresses, and how it is configured.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, immutable, named, one_of, optional_name, required_name};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// Longest name of a controller (upstream's limit).
const CONTROLLER_MAX: usize = 250;
const EXAMPLE: &str = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "edge"},
    "spec": {"controller": "example.com/edge"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "IngressClass", "ingressclasses")
        .cluster_scoped()
        .schema("io.k8s.api.networking.v1.IngressClass")
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("Controller", "string", "Who serves it.", |class, _| {
                class.text(&["spec", "controller"]).into()
            }),
            Column::new("Parameters", "string", "How it is configured.", |class, _| parameters(class).into()),
            column::age(),
        ])
        .apply_order(apply_order::CLASS)
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn parameters(class: &Value) -> String {
    let Some(parameters) = class.at(&["spec", "parameters"]).filter(|parameters| parameters.is_object()) else {
        return column::NONE.to_owned();
    };
    let group = parameters.text(&["apiGroup"]);
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    format!("{}{group}/{}", parameters.text(&["kind"]), parameters.text(&["name"]))
}

fn default(class: &mut Value) {
    if let Some(parameters) = fill::descend(class, &["spec", "parameters"]) {
        fill::absent(parameters, "scope", "Cluster");
    }
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    let spec = root.field("spec");
    check_controller(&spec.field("controller"), &mut faults);
    let parameters = spec.field("parameters");
    if parameters.is_set() {
        check_parameters(&parameters, &mut faults);
    }
    faults
}

fn check_controller(controller: &At, faults: &mut Faults) {
    if controller.text().len() > CONTROLLER_MAX {
        faults.push(FieldError::too_long(controller.path, CONTROLLER_MAX));
    }
    match controller.text().split_once('/') {
        _ if controller.text().is_empty() => faults.push(controller.required("")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            faults.extend(name::dns1123_subdomain(host).into_iter().map(|fault| controller.invalid_as(host, fault)));
        }
        _ => faults.push(controller.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
}

fn check_parameters(parameters: &At, faults: &mut Faults) {
    optional_name(&parameters.field("apiGroup"), name::dns1123_subdomain, faults);
    required_name(&parameters.field("kind"), name::path_segment, faults);
    required_name(&parameters.field("name"), name::path_segment, faults);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    one_of(&scope, &["Cluster", "Namespace"], faults);
    match (scope.text(), namespace.is_set()) {
        ("Namespace", false) => {
            faults.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", true) => named(&namespace, name::dns1123_label, faults),
        ("Cluster", true) => faults.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        _ => {}
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    immutable(&root.field("spec").field("controller"), &old_root.field("spec").field("controller"), &mut faults);
    faults
}
