//! SubjectAccessReview: may they?

use super::{GROUP, spec};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
    "spec": {"user": "ada", "nonResourceAttributes": {"verb": "get", "path": "/healthz"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "SubjectAccessReview", "subjectaccessreviews")
        .cluster_scoped()
        .schema("io.k8s.api.authorization.v1.SubjectAccessReview")
        .never_stored()
        .validates(spec::validate_review)
        .example(EXAMPLE)
}
