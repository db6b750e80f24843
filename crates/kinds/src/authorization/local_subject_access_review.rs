//! LocalSubjectAccessReview: may they, in this namespace?

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::{GROUP, spec};
use crate::KindDef;
use crate::check::At;

const EXAMPLE: &str = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
    "metadata": {"namespace": "default"}, "spec": {"user": "ada",
        "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews")
        .schema("io.k8s.api.authorization.v1.LocalSubjectAccessReview")
        .never_stored()
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(review: &Value) -> Vec<FieldError> {
    let mut faults = spec::validate_review(review);
    let root = At::root(review);
    let spec = root.field("spec");
    let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    if other.is_set() {
        faults.push(other.invalid("disallowed on this kind of request"));
    }
    let namespace = resource.field("namespace");
    if resource.is_set() && namespace.text() != review.namespace() {
        faults.push(namespace.invalid_as(namespace.text(), "must match metadata.namespace"));
    }
    faults
}
