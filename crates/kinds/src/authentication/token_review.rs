//! TokenReview: whose token is this?

use meta::FieldError;
use serde_json::Value;

use super::GROUP;
use crate::KindDef;
use crate::check::At;

const EXAMPLE: &str =
    r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "abc.def.ghi"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "TokenReview", "tokenreviews")
        .cluster_scoped()
        .schema("io.k8s.api.authentication.v1.TokenReview")
        .never_stored()
        .secret_fields(&["spec.token"])
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(review: &Value) -> Vec<FieldError> {
    let root = At::root(review);
    let spec = root.field("spec");
    let token = spec.field("token");
    if token.text().is_empty() {
        vec![token.required("token is required for TokenReview in authentication")]
    } else {
        Vec::new()
    }
}
