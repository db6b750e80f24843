//! StorageVersionMigration: rewrites all objects of a resource in today's stored form.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, immutable, named, required};
use crate::{Column, KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration",
    "metadata": {"name": "boats"}, "spec": {"resource": {"group": "example.com", "resource": "boats"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("storagemigration.k8s.io", "v1", "StorageVersionMigration", "storageversionmigrations")
        .cluster_scoped()
        .schema("io.k8s.api.storagemigration.v1.StorageVersionMigration")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("Resource", "string", "What is rewritten.", |migration, _| {
                let resource = &migration["spec"]["resource"];
                match resource.text(&["group"]) {
                    "" => resource.text(&["resource"]).into(),
                    group => format!("{}.{group}", resource.text(&["resource"])).into(),
                }
            }),
            column::age(),
        ])
        .health_by_conditions()
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(migration: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(migration);
    let spec = root.field("spec");
    let resource = spec.field("resource");
    required(&resource.field("resource"), &mut faults);
    let group = resource.field("group");
    if !group.text().is_empty() {
        named(&group, name::dns1123_subdomain, &mut faults);
    }
    faults
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    if what != UpdateOf::Status {
        immutable(&At::root(new).field("spec"), &At::root(old).field("spec"), &mut faults);
    }
    faults
}
