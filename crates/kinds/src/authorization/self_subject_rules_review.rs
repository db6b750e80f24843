//! SelfSubjectRulesReview: what all may I do in a namespace?

use meta::FieldError;
use serde_json::Value;

use super::GROUP;
use crate::KindDef;
use crate::check::At;

const EXAMPLE: &str = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
    "spec": {"namespace": "default"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews")
        .cluster_scoped()
        .schema("io.k8s.api.authorization.v1.SelfSubjectRulesReview")
        .never_stored()
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(review: &Value) -> Vec<FieldError> {
    let root = At::root(review);
    let spec = root.field("spec");
    let namespace = spec.field("namespace");
    if namespace.text().is_empty() { vec![namespace.required("")] } else { Vec::new() }
}
