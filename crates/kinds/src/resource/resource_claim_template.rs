//! ResourceClaimTemplate: claims made for each pod.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, device};
use crate::check::{At, Faults, immutable};
use crate::core::pod::template::labels_and_annotations;
use crate::{KindDef, UpdateOf, apply_order, column, fill};

const EXAMPLE: &str = r#"{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ResourceClaimTemplate", "resourceclaimtemplates")
        .schema("io.k8s.api.resource.v1.ResourceClaimTemplate")
        .columns(vec![column::name(), column::age()])
        .apply_order(apply_order::STORAGE)
        .defaults(|template| {
            if let Some(spec) = fill::descend(template, &["spec", "spec"]) {
                device::default_claim(spec);
            }
        })
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(template: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(template);
    let spec = root.field("spec");
    labels_and_annotations(&spec.field("metadata"), &mut faults);
    device::check_claim(&spec.field("spec"), &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    immutable(&At::root(new).field("spec"), &At::root(old).field("spec"), &mut faults);
    faults
}
