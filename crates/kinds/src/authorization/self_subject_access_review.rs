//! SelfSubjectAccessReview: may I?

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, spec};
use crate::KindDef;
use crate::check::{At, Faults};

const EXAMPLE: &str = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")
        .cluster_scoped()
        .schema("io.k8s.api.authorization.v1.SelfSubjectAccessReview")
        .never_stored()
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(review: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    spec::check(&At::root(review).field("spec"), &mut faults);
    faults
}
