//! PersistentVolume: a piece of storage, to be claimed.

use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use super::persistent_volume_claim::{
    VOLUME_MODES, check_modes, class_warning, or_unset, phase, short_modes, storage_class,
};
use super::pod::affinity::node_selector;
use super::pod::path::no_backsteps;
use super::pod::resources::quantity;
use super::pod::volume::csi_driver_name;
use crate::check::{At, Faults, immutable, optional_name, optional_one_of, required, same};
use crate::difference::difference;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

/// Where the storage may come from; a volume has exactly one.
const SOURCES: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
const RECLAIM: &[&str] = &["Delete", "Recycle", "Retain"];
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk-1"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/srv/disk-1"}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "PersistentVolume", "persistentvolumes")
        .cluster_scoped()
        .short("pv")
        .schema("io.k8s.api.core.v1.PersistentVolume")
        .with_status()
        .columns(columns())
        .apply_order(apply_order::STORAGE)
        .health(health)
        .defaults(default)
        .prepares_create(|volume| volume.put(&["status"], json!({"phase": "Pending"})))
        .validates(validate)
        .validates_update(validate_update)
        .warns(warnings)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Capacity", "string", "Its size.", |volume, _| {
            volume.text(&["spec", "capacity", "storage"]).into()
        }),
        Column::new("Access Modes", "string", "How it may be mounted.", |volume, _| {
            short_modes(volume.items(&["spec", "accessModes"])).into()
        }),
        Column::new("Reclaim Policy", "string", "What happens to it when its claim goes.", |volume, _| {
            volume.text(&["spec", "persistentVolumeReclaimPolicy"]).into()
        }),
        Column::new("Status", "string", "Available, Bound, Released, Failed or Terminating.", |volume, _| {
            phase(volume).into()
        }),
        Column::new("Claim", "string", "The claim that has it.", |volume, _| claim(volume).into()),
        Column::new("StorageClass", "string", "Its class of storage.", |volume, _| storage_class(volume).into()),
        Column::new("VolumeAttributesClass", "string", "Its class of attributes.", |volume, _| {
            or_unset(volume.text(&["spec", "volumeAttributesClassName"])).into()
        }),
        Column::new("Reason", "string", "Why it failed.", |volume, _| volume.text(&["status", "reason"]).into()),
        column::age(),
        Column::new("VolumeMode", "string", "Block or Filesystem.", |volume, _| {
            or_unset(volume.text(&["spec", "volumeMode"])).into()
        })
        .wide(),
    ]
}

fn claim(volume: &Value) -> String {
    match volume.at(&["spec", "claimRef"]).filter(|claim| claim.is_object()) {
        Some(claim) => format!("{}/{}", claim.text(&["namespace"]), claim.text(&["name"])),
        None => String::new(),
    }
}

fn health(volume: &Value) -> Converged {
    match volume.text(&["status", "phase"]) {
        "Failed" => Converged::Failed(volume.text(&["status", "message"]).to_owned()),
        "" | "Pending" => Converged::Progressing("is not available yet".to_owned()),
        _ => Converged::Yes,
    }
}

fn default(volume: &mut Value) {
    if let Some(status) = fill::made(volume, "status") {
        fill::zero(status, "phase", "Pending");
    }
    let Some(spec) = fill::made(volume, "spec") else { return };
    fill::zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill::absent(spec, "volumeMode", "Filesystem");
    if let Some(path) = fill::child(spec, "hostPath") {
        fill::absent(path, "type", "");
    }
}

fn validate(volume: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(volume);
    let spec = root.field("spec");
    check_modes(&spec.field("accessModes"), "", &mut faults);
    check_capacity(&spec.field("capacity"), &mut faults);
    optional_one_of(&spec.field("persistentVolumeReclaimPolicy"), RECLAIM, &mut faults);
    check_affinity(&spec.field("nodeAffinity"), &mut faults);
    check_sources(&spec, &mut faults);
    optional_name(&spec.field("storageClassName"), name::dns1123_subdomain, &mut faults);
    optional_one_of(&spec.field("volumeMode"), VOLUME_MODES, &mut faults);
    check_attributes_class(&spec, &mut faults);
    faults
}

fn check_capacity(capacity: &At, faults: &mut Faults) {
    if capacity.value.as_object().is_none_or(serde_json::Map::is_empty) {
        faults.push(capacity.required(""));
    }
    let entries = capacity.value.as_object().map_or(0, serde_json::Map::len);
    if !capacity.has("storage") || entries > 1 {
        faults.push(FieldError::not_supported(capacity.path, capacity.value.clone(), &["storage"]));
    }
    for (resource, entry) in capacity.entries() {
        quantity(&entry, resource, faults);
    }
}

fn check_affinity(affinity: &At, faults: &mut Faults) {
    if !affinity.is_set() {
        return;
    }
    let wanted = affinity.field("required");
    if wanted.is_set() {
        node_selector(&wanted, faults);
    } else {
        faults.push(wanted.required("must specify required node constraints"));
    }
}

fn check_sources(spec: &At, faults: &mut Faults) {
    let mut given = SOURCES.iter().filter(|source| spec.has(source));
    let Some(source) = given.next() else {
        faults.push(spec.required("must specify a volume type"));
        return;
    };
    check_source(spec, source, faults);
    faults.extend(given.map(|more| spec.field(more).forbidden("may not specify more than 1 volume type")));
    let (path, policy) = (spec.field("hostPath"), spec.field("persistentVolumeReclaimPolicy"));
    if path.field("path").text() == "/" && policy.text() == "Recycle" {
        faults.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
}

fn check_source(spec: &At, name: &str, faults: &mut Faults) {
    let source = spec.field(name);
    match name {
        "hostPath" | "local" => check_path(spec, &source, name, faults),
        "nfs" => {
            required(&source.field("server"), faults);
            let path = source.field("path");
            required(&path, faults);
            if !path.text().is_empty() && !path.text().starts_with('/') {
                faults.push(path.invalid("must be an absolute path"));
            }
        }
        "csi" => {
            csi_driver_name(&source.field("driver"), faults);
            required(&source.field("volumeHandle"), faults);
        }
        "iscsi" => ["targetPortal", "iqn"].iter().for_each(|field| required(&source.field(field), faults)),
        _ => {}
    }
}

fn check_path(spec: &At, source: &At, name: &str, faults: &mut Faults) {
    let path = source.field("path");
    if path.text().is_empty() {
        faults.push(path.required(""));
    } else {
        no_backsteps(&path, faults);
    }
    if name == "local" && !spec.has("nodeAffinity") {
        faults.push(spec.field("nodeAffinity").required("Local volume requires node affinity"));
    }
}

fn check_attributes_class(spec: &At, faults: &mut Faults) {
    let class = spec.field("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.text().is_empty() {
        faults.push(class.required("an empty string is disallowed"));
    }
    optional_name(&class, name::dns1123_subdomain, faults);
    if !spec.has("csi") {
        faults.push(spec.field("csi").required("has to be specified when using volumeAttributesClassName"));
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what == UpdateOf::Status {
        return Vec::new();
    }
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
    check_source_change(&spec, &old_spec, &mut faults);
    // Upstream's paths leave out `spec`.
    let moved = |field: &'static str| At { value: spec.field(field).value, path: root.path.field(field) };
    immutable(&moved("volumeMode"), &old_spec.field("volumeMode"), &mut faults);
    if old_spec.has("nodeAffinity") {
        immutable(&moved("nodeAffinity"), &old_spec.field("nodeAffinity"), &mut faults);
    }
    let class = spec.field("volumeAttributesClassName");
    if old_spec.has("volumeAttributesClassName") && !class.is_set() {
        faults.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
    faults
}

fn check_source_change(spec: &At, old_spec: &At, faults: &mut Faults) {
    let source = |spec: &At| -> Value {
        SOURCES.iter().filter(|name| spec.has(name)).map(|name| (*name, spec.field(name).value.clone())).collect()
    };
    let (mut new, old) = (source(spec), source(old_spec));
    // This secret may be added later, when a volume is to grow.
    if old.at(&["csi", "controllerExpandSecretRef"]).is_none_or(Value::is_null) {
        new.remove(&["csi", "controllerExpandSecretRef"]);
    }
    if !same(&new, &old) {
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{}", difference(&old, &new));
        faults.push(spec.field("persistentvolumesource").forbidden(detail));
    }
}

fn warnings(volume: &Value, _: Option<&Value>) -> Vec<String> {
    let recycled = volume.text(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle";
    let recycled = recycled.then(|| {
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended \
         approach is to use dynamic provisioning."
            .to_owned()
    });
    class_warning(volume).into_iter().chain(recycled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(faults: Vec<FieldError>) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn faults() {
        let check = |extra: Value, expected: &[&str]| {
            let mut volume: Value = serde_json::from_str(EXAMPLE).expect("JSON");
            default(&mut volume);
            volume["spec"].as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
            assert_eq!(texts(validate(&volume)), expected);
        };
        check(json!({}), &[]);
        check(json!({"hostPath": null}), &["spec: Required value: must specify a volume type"]);
        check(
            json!({"nfs": {"server": "a", "path": "/"}}),
            &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        );
        check(
            json!({"hostPath": null, "local": {"path": "/a/../b"}}),
            &[
                "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        );
        check(json!({"accessModes": []}), &["spec.accessModes: Required value"]);
    }

    #[test]
    fn the_source_stays() {
        let old: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        let mut new = old.clone();
        new["spec"]["hostPath"]["path"] = json!("/srv/other");
        let texts = texts(validate_update(&new, &old, UpdateOf::Main));
        assert!(
            texts[0].starts_with("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable")
        );
        assert_eq!(claim(&json!({"spec": {"claimRef": {"namespace": "a", "name": "b"}}})), "a/b");
    }
}
