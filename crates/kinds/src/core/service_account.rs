//! ServiceAccount: who a pod is to the API.

use meta::{Gvk, ObjectExt};

use crate::{Column, KindDef, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "ServiceAccount",
    "metadata": {"name": "builder", "namespace": "default"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "ServiceAccount", "serviceaccounts")
        .short("sa")
        .schema("io.k8s.api.core.v1.ServiceAccount")
        .with_subresource_of("token", Gvk::new("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
        .columns(vec![
            column::name(),
            Column::new("Secrets", "string", "Number of secrets it may use.", |object, _| {
                object.items(&["secrets"]).len().into()
            }),
            column::age(),
        ])
        .apply_order(apply_order::IDENTITY)
        .example(EXAMPLE)
}
