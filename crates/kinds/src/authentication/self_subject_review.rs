//! SelfSubjectReview: who am I?

use super::GROUP;
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews")
        .cluster_scoped()
        .schema("io.k8s.api.authentication.v1.SelfSubjectReview")
        .never_stored()
        .example(EXAMPLE)
}
