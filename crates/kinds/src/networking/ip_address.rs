//! IPAddress: says that an address is taken, and by whom. Its name is the address.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, immutable, required};
use crate::{Column, KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.96.0.10"},
    "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "IPAddress", "ipaddresses")
        .cluster_scoped()
        .short("ip")
        .schema("io.k8s.api.networking.v1.IPAddress")
        .columns(vec![
            column::name(),
            Column::new("ParentRef", "string", "Who has it.", |address, _| parent(address).into()),
            column::age(),
        ])
        .named_by(name::ip_canonical)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn parent(address: &Value) -> String {
    let Some(parent) = address.at(&["spec", "parentRef"]).filter(|parent| parent.is_object()) else {
        return column::NONE.to_owned();
    };
    let group = parent.text(&["group"]);
    let resource = match group {
        "" => parent.text(&["resource"]).to_owned(),
        _ => format!("{}.{group}", parent.text(&["resource"])),
    };
    match parent.text(&["namespace"]) {
        "" => format!("{resource}/{}", parent.text(&["name"])),
        namespace => format!("{resource}/{namespace}/{}", parent.text(&["name"])),
    }
}

fn validate(address: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(address);
    let spec = root.field("spec");
    let parent = spec.field("parentRef");
    if !parent.is_set() {
        faults.push(parent.required(""));
        return faults;
    }
    required(&parent.field("resource"), &mut faults);
    required(&parent.field("name"), &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    immutable(&root.field("spec").field("parentRef"), &old_root.field("spec").field("parentRef"), &mut faults);
    faults
}
