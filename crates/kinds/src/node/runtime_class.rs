//! RuntimeClass: what runs a pod's containers.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, immutable, named};
use crate::core::pod::affinity::tolerations;
use crate::core::pod::resources::overhead;
use crate::object_meta::check_labels;
use crate::{Column, KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "sandboxed"},
    "handler": "kata", "overhead": {"podFixed": {"memory": "64Mi"}},
    "scheduling": {"nodeSelector": {"sandbox": "true"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
        .cluster_scoped()
        .schema("io.k8s.api.node.v1.RuntimeClass")
        .columns(vec![
            column::name(),
            Column::new("Handler", "string", "The runtime's name for it.", |class, _| class.text(&["handler"]).into()),
            column::age(),
        ])
        .apply_order(apply_order::CLASS)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    named(&root.field("handler"), name::dns1123_label, &mut faults);
    let fixed = root.field("overhead");
    if fixed.has("podFixed") {
        overhead(&fixed.field("podFixed"), &mut faults);
    }
    let scheduling = root.field("scheduling");
    check_labels(&scheduling.field("nodeSelector"), &mut faults);
    tolerations(&scheduling.field("tolerations"), &mut faults);
    check_unique(&scheduling.field("tolerations"), &mut faults);
    faults
}

fn check_unique(list: &At, faults: &mut Faults) {
    for (index, toleration) in list.each().enumerate() {
        if list.items()[..index].contains(toleration.value) {
            faults.push(toleration.duplicate());
        }
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    immutable(&At::root(new).field("handler"), &At::root(old).field("handler"), &mut faults);
    faults
}
