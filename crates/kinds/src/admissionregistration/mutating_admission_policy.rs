//! MutatingAdmissionPolicy: changes requests by CEL expressions.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::validating_admission_policy::param_kind;
use super::{GROUP, param};
use crate::check::{At, Faults, one_of};
use crate::{Column, KindDef, UpdateOf, column};

/// How a mutation is written, and the field that holds it.
const PATCHES: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];
const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
    "metadata": {"name": "team-label"}, "spec": {"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
            "expression": "Object{metadata: Object.metadata{labels: Object.metadata.labels{team: \"a\"}}}"}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    param::interceptor(KindDef::new(GROUP, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies"))
        .schema("io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicy")
        .columns(vec![
            column::name(),
            Column::new("Mutations", "integer", "Number of mutations.", |policy, _| {
                policy.items(&["spec", "mutations"]).len().into()
            }),
            Column::new("ParamKind", "string", "The kind of its parameters.", |policy, _| param_kind(policy).into()),
            column::age(),
        ])
        .defaults(param::default_policy)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(policy: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(policy);
    let spec = root.field("spec");
    param::check_policy(&spec, &mut faults);
    one_of(&spec.field("reinvocationPolicy"), &["IfNeeded", "Never"], &mut faults);
    let mutations = spec.field("mutations");
    if mutations.items().is_empty() {
        faults.push(mutations.required("mutations must contain at least one item"));
    }
    mutations.each().for_each(|mutation| check_mutation(&mutation, &mut faults));
    faults
}

fn check_mutation(mutation: &At, faults: &mut Faults) {
    let kind = mutation.field("patchType");
    one_of(&kind, &PATCHES.map(|(kind, _)| kind), faults);
    for (name, field) in PATCHES {
        let body = mutation.field(field);
        match (kind.text() == name, body.is_set()) {
            (true, false) => faults.push(body.required(format!("must be specified when patchType is {name}"))),
            (true, true) => param::check_expression(&body.field("expression"), faults),
            (false, true) => {
                let detail = format!("must not be specified when patchType is {}", kind.text());
                faults.push(body.forbidden(detail));
            }
            (false, false) => {}
        }
    }
}
