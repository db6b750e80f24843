//! VolumeAttachment: a volume is, or is to be, attached to a node.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, immutable, named, required_name};
use crate::core::pod::volume::csi_driver_name;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column};

const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a1"},
    "spec": {"attacher": "disk.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "disk-1"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "VolumeAttachment", "volumeattachments")
        .cluster_scoped()
        .schema("io.k8s.api.storage.v1.VolumeAttachment")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("Attacher", "string", "Who attaches it.", |it, _| it.text(&["spec", "attacher"]).into()),
            Column::new("PV", "string", "The volume.", |it, _| {
                it.text(&["spec", "source", "persistentVolumeName"]).into()
            }),
            Column::new("Node", "string", "The node.", |it, _| it.text(&["spec", "nodeName"]).into()),
            Column::new("Attached", "boolean", "Whether it is attached.", |it, _| {
                it.flag(&["status", "attached"]).into()
            }),
            column::age(),
        ])
        .apply_order(apply_order::STORAGE)
        .health(health)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn health(attachment: &Value) -> Converged {
    let error = attachment.text(&["status", "attachError", "message"]);
    match (attachment.flag(&["status", "attached"]), error) {
        (true, _) => Converged::Yes,
        (false, "") => Converged::Progressing("is not attached yet".to_owned()),
        (false, error) => Converged::Progressing(error.to_owned()),
    }
}

fn validate(attachment: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(attachment);
    let spec = root.field("spec");
    csi_driver_name(&spec.field("attacher"), &mut faults);
    required_name(&spec.field("nodeName"), name::dns1123_subdomain, &mut faults);
    let source = spec.field("source");
    let volume = source.field("persistentVolumeName");
    match (volume.is_set(), source.has("inlineVolumeSpec")) {
        (true, false) if volume.text().is_empty() => faults.push(volume.required("must not be empty")),
        (true, false) => named(&volume, name::dns1123_subdomain, &mut faults),
        (false, true) => {}
        (true, true) => faults.push(source.forbidden(ONE_SOURCE)),
        (false, false) => faults.push(source.required(ONE_SOURCE)),
    }
    faults
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what == UpdateOf::Status {
        return Vec::new();
    }
    let mut faults = validate(new);
    immutable(&At::root(new).field("spec"), &At::root(old).field("spec"), &mut faults);
    faults
}
