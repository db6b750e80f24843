//! MutatingAdmissionPolicyBinding: puts a mutating policy into effect.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, param, validating_admission_policy_binding};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf};

const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "team-label"}, "spec": {"policyName": "team-label"}}"#;

/// The kind.
pub fn def() -> KindDef {
    param::interceptor(KindDef::new(GROUP, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"))
        .schema("io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicyBinding")
        .columns(validating_admission_policy_binding::columns())
        .defaults(param::default_binding)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    param::check_binding(&At::root(binding).field("spec"), &mut faults);
    faults
}
