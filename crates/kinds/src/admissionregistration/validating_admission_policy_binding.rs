//! ValidatingAdmissionPolicyBinding: puts a policy into effect, with parameters and consequences.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::{GROUP, param};
use crate::check::{At, Faults, supported_text};
use crate::{Column, KindDef, UpdateOf, column};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const BOTH: &str = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
    response and headers serves no purpose)";
const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "few-replicas"}, "spec": {"policyName": "few-replicas", "validationActions": ["Deny"]}}"#;

/// The kind.
pub fn def() -> KindDef {
    let plural = "validatingadmissionpolicybindings";
    param::interceptor(KindDef::new(GROUP, "v1", "ValidatingAdmissionPolicyBinding", plural))
        .schema("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding")
        .columns(columns())
        .defaults(param::default_binding)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

/// The table of bindings of either kind.
pub(super) fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("PolicyName", "string", "The policy put into effect.", |binding, _| {
            binding.text(&["spec", "policyName"]).into()
        }),
        Column::new("ParamRef", "string", "Its parameters.", |binding, _| param_ref(binding).into()),
        column::age(),
    ]
}

fn param_ref(binding: &Value) -> String {
    let Some(param) = binding.at(&["spec", "paramRef"]).filter(|param| param.is_object()) else {
        return "<unset>".to_owned();
    };
    match (param.text(&["namespace"]), param.text(&["name"])) {
        ("", name) => column::or_none(name),
        (namespace, name) => format!("{namespace}/{}", if name.is_empty() { "*" } else { name }),
    }
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(binding);
    let spec = root.field("spec");
    param::check_binding(&spec, &mut faults);
    let actions = spec.field("validationActions");
    if actions.items().is_empty() {
        faults.push(actions.required(""));
    }
    let mut seen = BTreeSet::new();
    for action in actions.each() {
        supported_text(&action, ACTIONS, &mut faults);
        if !seen.insert(action.text()) {
            faults.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        faults.push(actions.invalid(BOTH));
    }
    faults
}
