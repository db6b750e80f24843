//! ValidatingWebhookConfiguration: webhooks that refuse requests.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, webhook};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, fill};

const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "policy"}, "webhooks": [{"name": "policy.example.com", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://policy.example.com/check"},
        "rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*"]}]}]}"#;

/// The kind.
pub fn def() -> KindDef {
    let plural = "validatingwebhookconfigurations";
    webhook::configuration(KindDef::new(GROUP, "v1", "ValidatingWebhookConfiguration", plural))
        .schema("io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration")
        .defaults(|configuration| fill::items(configuration, "webhooks").for_each(webhook::default))
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(configuration: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    webhook::check_all(&At::root(configuration), &mut faults);
    faults
}
