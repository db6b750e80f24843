//! MutatingWebhookConfiguration: webhooks that change requests.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, webhook};
use crate::check::{At, Faults, optional_one_of};
use crate::{KindDef, UpdateOf, fill};

const EXAMPLE: &str = r#"{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "defaults"}, "webhooks": [{"name": "defaults.example.com", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]}"#;

/// The kind.
pub fn def() -> KindDef {
    webhook::configuration(KindDef::new(GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"))
        .schema("io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration")
        .defaults(default)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn default(configuration: &mut Value) {
    for hook in fill::items(configuration, "webhooks") {
        webhook::default(hook);
        fill::absent(hook, "reinvocationPolicy", "Never");
    }
}

fn validate(configuration: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(configuration);
    webhook::check_all(&root, &mut faults);
    for hook in root.field("webhooks").each() {
        optional_one_of(&hook.field("reinvocationPolicy"), &["IfNeeded", "Never"], &mut faults);
    }
    faults
}
