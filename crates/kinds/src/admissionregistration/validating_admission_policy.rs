//! ValidatingAdmissionPolicy: refuses requests by CEL expressions.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::{GROUP, param};
use crate::check::{At, Faults, optional_one_of, required};
use crate::{Column, KindDef, UpdateOf, column};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
const NOTHING: &str = "validations or auditAnnotations must contain at least one item";
const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "few-replicas"}, "spec": {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"],
        "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]},
        "validations": [{"expression": "object.spec.replicas < 10"}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    param::interceptor(KindDef::new(GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"))
        .schema("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("Validations", "integer", "Number of validations.", |policy, _| {
                policy.items(&["spec", "validations"]).len().into()
            }),
            Column::new("ParamKind", "string", "The kind of its parameters.", |policy, _| param_kind(policy).into()),
            column::age(),
        ])
        .defaults(param::default_policy)
        .validates(validate)
        .validates_update(|new, _, what| if what == UpdateOf::Main { validate(new) } else { Vec::new() })
        .example(EXAMPLE)
}

/// `group/version/Kind` of the parameters, as a cell.
pub(super) fn param_kind(policy: &Value) -> String {
    match policy.at(&["spec", "paramKind"]).filter(|kind| kind.is_object()) {
        Some(kind) => format!("{}/{}", kind.text(&["apiVersion"]), kind.text(&["kind"])),
        None => "<unset>".to_owned(),
    }
}

fn validate(policy: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(policy);
    let spec = root.field("spec");
    param::check_policy(&spec, &mut faults);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.items().is_empty() && annotations.items().is_empty() {
        faults.extend([&validations, &annotations].map(|list| list.required(NOTHING)));
    }
    validations.each().for_each(|validation| check_validation(&validation, &mut faults));
    for annotation in annotations.each() {
        required(&annotation.field("key"), &mut faults);
        required(&annotation.field("valueExpression"), &mut faults);
    }
    faults
}

fn check_validation(validation: &At, faults: &mut Faults) {
    param::check_expression(&validation.field("expression"), faults);
    let message = validation.field("message");
    if message.is_set() && message.text().trim().is_empty() {
        faults.push(message.invalid("message must be non-empty if specified"));
    } else if message.text().trim().contains(['\n', '\r']) {
        faults.push(message.invalid("message must not contain line breaks"));
    }
    optional_one_of(&validation.field("reason"), REASONS, faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let texts: Vec<String> =
            validate(&json!({"spec": {"paramKind": {"apiVersion": "v1"}}})).iter().map(ToString::to_string).collect();
        let expected = [
            "spec.paramKind.kind: Required value",
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ];
        assert_eq!(texts, expected);
    }
}
