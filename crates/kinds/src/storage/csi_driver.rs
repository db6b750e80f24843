//! CSIDriver: what a storage driver can do and needs.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, immutable, one_of, supported_text};
use crate::core::pod::volume::csi_driver_name;
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

const FLAGS: &[(&str, bool)] = &[
    ("attachRequired", true),
    ("podInfoOnMount", false),
    ("requiresRepublish", false),
    ("seLinuxMount", false),
    ("storageCapacity", false),
];
const MODES: &[&str] = &["Ephemeral", "Persistent"];
const GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
/// Fewest seconds that a token may live (upstream's limit).
const TOKEN_SECONDS_MIN: i64 = 600;
const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
    "metadata": {"name": "disk.example.com"}, "spec": {"attachRequired": false}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "CSIDriver", "csidrivers")
        .cluster_scoped()
        .schema("io.k8s.api.storage.v1.CSIDriver")
        .counts_generation()
        .columns(columns())
        .apply_order(apply_order::CLASS)
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("AttachRequired", "boolean", "Whether volumes are attached.", |driver, _| {
            driver.flag(&["spec", "attachRequired"]).into()
        }),
        Column::new("PodInfoOnMount", "boolean", "Whether it is told of pods.", |driver, _| {
            driver.flag(&["spec", "podInfoOnMount"]).into()
        }),
        Column::new("StorageCapacity", "boolean", "Whether it reports capacity.", |driver, _| {
            driver.flag(&["spec", "storageCapacity"]).into()
        }),
        Column::new("TokenRequests", "string", "Tokens that it needs.", |driver, _| {
            let tokens = driver.items(&["spec", "tokenRequests"]).iter();
            let audiences = tokens.map(|token| token.text(&["audience"])).collect::<Vec<_>>().join(",");
            if audiences.is_empty() { "<unset>".into() } else { audiences.into() }
        }),
        Column::new("RequiresRepublish", "boolean", "Whether it is called again and again.", |driver, _| {
            driver.flag(&["spec", "requiresRepublish"]).into()
        }),
        Column::new("Modes", "string", "How its volumes live.", |driver, _| {
            let modes = driver.items(&["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str);
            column::or_none(modes.collect::<Vec<_>>().join(",")).into()
        }),
        column::age(),
    ]
}

fn default(driver: &mut Value) {
    let Some(spec) = fill::made(driver, "spec") else { return };
    for (flag, value) in FLAGS {
        fill::absent(spec, flag, *value);
    }
    fill::absent(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if spec.items(&["volumeLifecycleModes"]).is_empty() {
        spec.put(&["volumeLifecycleModes"], vec!["Persistent"]);
    }
}

fn validate(driver: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(driver);
    let meta = root.field("metadata");
    csi_driver_name(&At { value: meta.field("name").value, path: root.path.field("name") }, &mut faults);
    let spec = root.field("spec");
    for (flag, _) in FLAGS {
        let at = spec.field(flag);
        if !at.is_set() {
            faults.push(at.required(""));
        }
    }
    one_of(&spec.field("fsGroupPolicy"), GROUP_POLICIES, &mut faults);
    spec.field("volumeLifecycleModes").each().for_each(|mode| supported_text(&mode, MODES, &mut faults));
    check_tokens(&spec.field("tokenRequests"), &mut faults);
    faults
}

fn check_tokens(tokens: &At, faults: &mut Faults) {
    let mut audiences = BTreeSet::new();
    for token in tokens.each() {
        let (audience, seconds) = (token.field("audience"), token.field("expirationSeconds"));
        if !audiences.insert(audience.text()) {
            faults.push(audience.duplicate());
        }
        if seconds.int().is_some_and(|seconds| seconds < TOKEN_SECONDS_MIN) {
            faults.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    for field in ["attachRequired", "fsGroupPolicy", "volumeLifecycleModes"] {
        immutable(&spec.field(field), &old_spec.field(field), &mut faults);
    }
    faults
}
