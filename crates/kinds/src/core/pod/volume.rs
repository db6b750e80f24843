//! Volumes of pods: names, and one source each.

use std::collections::{BTreeMap, BTreeSet};

use meta::{ObjectExt, Quantity, name};
use serde_json::Value;

use super::path::{descending, no_backsteps, unreserved};
use super::{container, env, projected};
use crate::check::{At, Faults, in_range, named, one_of, optional_name, optional_one_of, required, required_name};
use crate::core::persistent_volume_claim;

/// Fields of a pod that a file of a volume may show.
pub(crate) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// 0777 and 01777.
const FILE_MODE_MAX: i64 = 0o777;
const DIR_MODE_MAX: i64 = 0o1777;
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
/// What iSCSI initiators with a name of their own leave for volume and portal together.
const ISCSI_NAME_MAX: usize = 64;

type Check = fn(&At, &mut Faults);

/// Sources in upstream's order: of several only the first is looked into. The second name is where upstream reports
/// faults inside, the third where it reports a source too many.
const SOURCES: &[(&str, &str, &str, Check)] = &[
    ("emptyDir", "emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", "hostPath", host_path),
    ("gitRepo", "gitRepo", "gitRepo", git_repo),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", |at, f| disk(at, "pdName", f)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |at, f| disk(at, "volumeID", f)),
    ("secret", "secret", "secret", |at, f| files(at, "secretName", f)),
    ("nfs", "nfs", "nfs", nfs),
    ("iscsi", "iscsi", "iscsi", iscsi),
    ("glusterfs", "glusterfs", "glusterfs", |at, f| texts(at, &["endpoints", "path"], f)),
    ("flocker", "flocker", "flocker", flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |at, f| texts(at, &["claimName"], f)),
    ("rbd", "rbd", "rbd", rbd),
    ("cinder", "cinder", "cinder", cinder),
    ("cephfs", "cephfs", "cephFS", monitors),
    ("quobyte", "quobyte", "quobyte", quobyte),
    ("downwardAPI", "downwardAPI", "downwarAPI", downward),
    ("fc", "fc", "fc", fibre_channel),
    ("flexVolume", "flexVolume", "flexVolume", flex),
    ("configMap", "configMap", "configMap", |at, f| files(at, "name", f)),
    ("azureFile", "azureFile", "azureFile", |at, f| texts(at, &["secretName", "shareName"], f)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |at, f| texts(at, &["volumePath"], f)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |at, f| texts(at, &["pdID"], f)),
    ("portworxVolume", "portworxVolume", "portworxVolume", |at, f| texts(at, &["volumeID"], f)),
    ("azureDisk", "azureDisk", "azureDisk", azure_disk),
    ("storageos", "storageos", "storageos", storage_os),
    ("projected", "projected", "projected", projected::check),
    ("scaleIO", "scaleIO", "scaleIO", |at, f| texts(at, &["gateway", "system", "volumeName"], f)),
    ("csi", "csi", "csi", csi),
    ("ephemeral", "ephemeral", "ephemeral", ephemeral),
    ("image", "image", "image", image),
];

/// Checks `volumes`; returns the sound ones by name, for containers to refer to.
pub(crate) fn check<'v>(list: &At<'v, '_>, pod_name: &str, faults: &mut Faults) -> BTreeMap<&'v str, &'v Value> {
    let mut sound = BTreeMap::new();
    let made = claims_made(list, pod_name);
    for volume in list.each() {
        let name = volume.field("name");
        let mut own = Faults::new();
        sources(&volume, &mut own);
        long_claim_name(&volume, pod_name, &mut own);
        required_name(&name, name::dns1123_label, &mut own);
        if sound.contains_key(name.text()) {
            own.push(name.duplicate());
        }
        if own.is_empty() {
            sound.insert(name.text(), volume.value);
        }
        faults.extend(own);
        let claim = volume.field("persistentVolumeClaim");
        let claim = claim.field("claimName");
        if made.contains(claim.text()) {
            faults.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    sound
}

/// Names of the claims that ephemeral volumes will make.
fn claims_made(list: &At, pod_name: &str) -> BTreeSet<String> {
    let ephemeral = list.items().iter().filter(|volume| !pod_name.is_empty() && volume.get("ephemeral").is_some());
    ephemeral.map(|volume| format!("{pod_name}-{}", volume.text(&["name"]))).collect()
}

fn long_claim_name(volume: &At, pod_name: &str, faults: &mut Faults) {
    let name = volume.field("name");
    if volume.has("ephemeral") && !pod_name.is_empty() && !name.text().is_empty() {
        let claim = format!("{pod_name}-{}", name.text());
        let wrong = name::dns1123_subdomain(&claim).into_iter();
        faults.extend(wrong.map(|fault| name.invalid(format!("PVC name {claim:?}: {fault}"))));
    }
}

fn sources(volume: &At, faults: &mut Faults) {
    let mut count = 0;
    for (field, inside, surplus, check) in SOURCES {
        if !volume.has(field) {
            continue;
        }
        count += 1;
        if count > 1 {
            faults.push(volume.field(surplus).forbidden("may not specify more than 1 volume type"));
        } else {
            check(&volume.field(inside).with(volume.field(field).value), faults);
        }
        if *field == "iscsi" {
            iscsi_name(volume, faults);
        }
    }
    if count == 0 {
        faults.push(volume.required("must specify a volume type"));
    }
}

fn texts(at: &At, fields: &[&str], faults: &mut Faults) {
    fields.iter().for_each(|field| required(&at.field(field), faults));
}

fn empty_dir(at: &At, faults: &mut Faults) {
    let limit = at.field("sizeLimit");
    let negative = Quantity::parse(limit.text()).is_ok_and(|limit| limit.is_negative());
    if limit.is_set() && negative {
        faults.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
    let mode = at.field("mode");
    if mode.int().is_some_and(|mode| !(0..=DIR_MODE_MAX).contains(&mode)) {
        faults.push(mode.invalid("must be a number between 0 and 01777 (octal), both inclusive"));
    }
}

fn host_path(at: &At, faults: &mut Faults) {
    let path = at.field("path");
    if path.text().is_empty() {
        faults.push(path.required(""));
        return;
    }
    no_backsteps(&path, faults);
    optional_one_of(&at.field("type"), HOST_PATH_TYPES, faults);
}

fn git_repo(at: &At, faults: &mut Faults) {
    texts(at, &["repository"], faults);
    descending(&at.field("directory"), faults);
}

fn disk(at: &At, id: &str, faults: &mut Faults) {
    texts(at, &[id], faults);
    let partition = at.field("partition");
    if !(0..=255).contains(&partition.number()) {
        faults.push(partition.invalid("must be between 1 and 255, inclusive"));
    }
}

/// A Secret or ConfigMap whose keys become files.
fn files(at: &At, reference: &str, faults: &mut Faults) {
    texts(at, &[reference], faults);
    file_mode(&at.field("defaultMode"), faults);
    user(&at.field("defaultUser"), faults);
    at.field("items").each().for_each(|item| key_to_path(&item, faults));
}

/// A file's mode.
pub(crate) fn file_mode(at: &At, faults: &mut Faults) {
    if at.int().is_some_and(|mode| !(0..=FILE_MODE_MAX).contains(&mode)) {
        faults.push(at.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

/// A file's owner.
pub(crate) fn user(at: &At, faults: &mut Faults) {
    in_range(at, 0, i64::from(i32::MAX), faults);
}

/// A key and the file it becomes.
pub(crate) fn key_to_path(at: &At, faults: &mut Faults) {
    texts(at, &["key", "path"], faults);
    unreserved(&at.field("path"), faults);
    file_mode(&at.field("mode"), faults);
    user(&at.field("user"), faults);
}

fn nfs(at: &At, faults: &mut Faults) {
    texts(at, &["server", "path"], faults);
    let path = at.field("path");
    if !path.text().starts_with('/') {
        faults.push(path.invalid_as(path.text(), "must be an absolute path"));
    }
}

fn iscsi(at: &At, faults: &mut Faults) {
    texts(at, &["targetPortal", "iqn"], faults);
    if !at.field("iqn").text().is_empty() {
        initiator(&at.field("iqn"), faults);
    }
    lun(&at.field("lun"), faults);
    let authenticated = at.field("chapAuthDiscovery").is_true() || at.field("chapAuthSession").is_true();
    if authenticated && !at.has("secretRef") {
        faults.push(at.field("secretRef").required(""));
    }
    if at.has("initiatorName") {
        initiator(&at.field("initiatorname").with(at.field("initiatorName").value), faults);
    }
}

/// An iSCSI qualified name, EUI or NAA.
pub(crate) fn initiator(at: &At, faults: &mut Faults) {
    let text = at.text();
    let sound = match text.get(..3) {
        Some("iqn") => is_iqn(text),
        Some("eui") => is_prefixed_id(text, 16),
        Some("naa") => is_prefixed_id(text, 32),
        _ => {
            faults.push(at.invalid("must be valid format starting with iqn, eui, or naa"));
            return;
        }
    };
    if !sound {
        faults.push(at.invalid("must be valid format"));
    }
}

/// `eui.` or `naa.` and so many letters or digits.
fn is_prefixed_id(text: &str, length: usize) -> bool {
    let id = text.as_bytes().get(4..).unwrap_or(&[]);
    text.is_ascii() && id.len() == length && id.iter().all(u8::is_ascii_alphanumeric)
}

/// `iqn.2001-04.com.example:storage`.
fn is_iqn(text: &str) -> bool {
    let Some((date, rest)) = text.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else { return false };
    let Some((authority, target)) = rest.split_once(':') else { return false };
    let dated =
        date.len() == 7 && date.bytes().enumerate().all(|(i, b)| if i == 4 { b == b'-' } else { b.is_ascii_digit() });
    dated
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && !target.is_empty()
        && !target.contains(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '*' | '&' | '$' | '|'))
}

fn lun(at: &At, faults: &mut Faults) {
    if !(0..=255).contains(&at.number()) {
        faults.push(at.invalid("must be between 0 and 255, inclusive"));
    }
}

fn iscsi_name(volume: &At, faults: &mut Faults) {
    let (name, source) = (volume.field("name"), volume.field("iscsi"));
    let length = name.text().len() + 1 + source.field("targetPortal").text().len();
    if source.has("initiatorName") && length > ISCSI_NAME_MAX {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                      iscsi.initiatorName is specified.";
        faults.push(name.invalid(detail));
    }
}

fn flocker(at: &At, faults: &mut Faults) {
    let (name, uuid) = (at.field("datasetName"), at.field("datasetUUID"));
    match (name.text().is_empty(), uuid.text().is_empty()) {
        (true, true) => faults.push(at.required("one of datasetName and datasetUUID is required")),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            faults.push(at.invalid_as("resource", detail));
        }
        _ => {}
    }
    if name.text().contains('/') {
        faults.push(name.invalid("must not contain '/'"));
    }
}

fn monitors(at: &At, faults: &mut Faults) {
    if at.field("monitors").items().is_empty() {
        faults.push(at.field("monitors").required(""));
    }
}

fn rbd(at: &At, faults: &mut Faults) {
    monitors(at, faults);
    texts(at, &["image"], faults);
}

fn cinder(at: &At, faults: &mut Faults) {
    texts(at, &["volumeID"], faults);
    secret_name(at, faults);
}

fn secret_name(at: &At, faults: &mut Faults) {
    if at.has("secretRef") {
        required(&at.field("secretRef").field("name"), faults);
    }
}

fn quobyte(at: &At, faults: &mut Faults) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (at.field("registry"), at.field("tenant"));
    if registry.text().is_empty() {
        faults.push(registry.required(PAIRS));
    } else if tenant.text().len() >= 65 {
        faults.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let broken = registry.text().split(',').filter(|pair| !is_host_port(pair));
        faults.extend(broken.map(|_| registry.invalid(PAIRS)));
    }
    texts(at, &["volume"], faults);
}

fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains([':', '[', ']'])),
        None => pair.matches(':').count() == 1 && !pair.contains(['[', ']']),
    }
}

fn downward(at: &At, faults: &mut Faults) {
    file_mode(&at.field("defaultMode"), faults);
    user(&at.field("defaultUser"), faults);
    // Upstream reports faults of the files at the volume itself.
    at.field("items").items().iter().for_each(|file| downward_file(&at.with(file), faults));
}

/// A field of the pod that becomes a file.
pub(crate) fn downward_file(at: &At, faults: &mut Faults) {
    texts(at, &["path"], faults);
    unreserved(&at.field("path"), faults);
    let (field, resource) = (at.field("fieldRef"), at.field("resourceFieldRef"));
    if field.is_set() {
        env::field_ref(&field, VOLUME_FIELDS, faults);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            faults.push(at.invalid_as("resource", detail));
        }
    } else if resource.is_set() {
        env::resource_ref(&resource, true, faults);
    } else {
        faults.push(at.required("one of fieldRef and resourceFieldRef is required"));
    }
    file_mode(&at.field("mode"), faults);
    user(&at.field("user"), faults);
}

fn fibre_channel(at: &At, faults: &mut Faults) {
    let (names, ids, unit) = (at.field("targetWWNs"), at.field("wwids"), at.field("lun"));
    match (names.items().is_empty(), ids.items().is_empty()) {
        (true, true) => faults.push(names.required("must specify either targetWWNs or wwids, but not both")),
        (false, false) => faults.push(names.invalid("targetWWNs and wwids can not be specified simultaneously")),
        _ => {}
    }
    if names.items().is_empty() {
        return;
    }
    if unit.is_set() {
        lun(&unit, faults)
    } else {
        faults.push(unit.required("lun is required if targetWWNs is specified"))
    }
}

fn flex(at: &At, faults: &mut Faults) {
    texts(at, &["driver"], faults);
    for (key, option) in at.field("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            faults.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

fn azure_disk(at: &At, faults: &mut Faults) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    texts(at, &["diskName", "diskURI"], faults);
    optional_one_of(&at.field("cachingMode"), &["None", "ReadOnly", "ReadWrite"], faults);
    let (kind, uri) = (at.field("kind"), at.field("diskURI"));
    optional_one_of(&kind, &["Dedicated", "Managed", "Shared"], faults);
    let expected = match kind.text() {
        _ if !kind.is_set() => return,
        "Managed" if !uri.text().starts_with("/subscriptions/") => MANAGED,
        "Managed" => return,
        _ if !uri.text().starts_with("https://") => BLOB,
        _ => return,
    };
    faults.push(meta::FieldError::not_supported(uri.path, uri.text(), &[expected]));
}

fn storage_os(at: &At, faults: &mut Faults) {
    required_name(&at.field("volumeName"), name::dns1123_label, faults);
    optional_name(&at.field("volumeNamespace"), name::dns1123_label, faults);
    secret_name(at, faults);
}

/// The name of a CSI driver.
pub(crate) fn csi_driver_name(at: &At, faults: &mut Faults) {
    if at.text().is_empty() {
        faults.push(at.required(""));
        return;
    }
    if at.text().len() > name::LABEL_MAX {
        faults.push(meta::FieldError::too_long(at.path, name::LABEL_MAX));
    }
    named(at, |text| name::dns1123_subdomain(&text.to_lowercase()), faults);
}

fn csi(at: &At, faults: &mut Faults) {
    csi_driver_name(&at.field("driver"), faults);
    let secret = at.field("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.field("name");
    if name.text().is_empty() {
        faults.push(name.required(""));
    } else {
        named(&at.field("name").with(name.value), name::dns1123_subdomain, faults);
    }
}

fn ephemeral(at: &At, faults: &mut Faults) {
    let template = at.field("volumeClaimTemplate");
    if !template.is_set() {
        faults.push(template.required(""));
        return;
    }
    let metadata = template.field("metadata");
    super::template::labels_and_annotations(&metadata, faults);
    for (field, value) in metadata.value.as_object().into_iter().flatten() {
        if !matches!(field.as_str(), "labels" | "annotations") && !crate::check::same(value, &Value::Null) {
            faults.push(metadata.field(field).forbidden("cannot be set"));
        }
    }
    persistent_volume_claim::check_spec(&template.field("spec"), faults);
}

fn image(at: &At, faults: &mut Faults) {
    texts(at, &["reference"], faults);
    one_of(&at.field("pullPolicy"), container::PULL_POLICIES, faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(volumes: Value) -> Vec<String> {
        let object = json!({ "volumes": volumes });
        let mut faults = Faults::new();
        check(&At::root(&object).field("volumes"), "pod", &mut faults);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sources_read_like_upstream() {
        let check = |source: Value, expected: &[&str]| {
            let mut volume = source;
            volume["name"] = json!("v");
            assert_eq!(faults(json!([volume])), expected);
        };
        check(json!({"emptyDir": {}}), &[]);
        check(json!({}), &["volumes[0]: Required value: must specify a volume type"]);
        check(
            json!({"emptyDir": {}, "hostPath": {"path": "/x"}}),
            &["volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        );
        check(
            json!({"hostPath": {"path": "/a/../b", "type": "Nope"}}),
            &[
                "volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "volumes[0].hostPath.type: Unsupported value: \"Nope\": supported values: \"\", \"BlockDevice\", \
                 \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        );
        check(
            json!({"secret": {"secretName": "", "defaultMode": 512, "items": [{"key": "k", "path": "/p"}]}}),
            &[
                "volumes[0].secret.secretName: Required value",
                "volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both \
                 inclusive",
                "volumes[0].secret.items[0].path: Invalid value: \"/p\": must be a relative path",
            ],
        );
        check(
            json!({"nfs": {"server": "s", "path": "p"}}),
            &["volumes[0].nfs.path: Invalid value: \"p\": must be an absolute path"],
        );
        check(json!({"iscsi": {"targetPortal": "t", "iqn": "iqn.2015-02.example.com:test", "lun": 1}}), &[]);
        check(json!({"iscsi": {"targetPortal": "t", "iqn": "eui.0123456789ABCDEF"}}), &[]);
        check(
            json!({"iscsi": {"targetPortal": "t", "iqn": "iqn.2015-02"}}),
            &["volumes[0].iscsi.iqn: Invalid value: \"iqn.2015-02\": must be valid format"],
        );
        check(json!({"csi": {"driver": ""}}), &["volumes[0].csi.driver: Required value"]);
        check(
            json!({"downwardAPI": {"items": [{"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}]}}),
            &["volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: \"status.podIP\": supported values: \
               \"metadata.annotations\", \"metadata.labels\", \"metadata.name\", \"metadata.namespace\", \
               \"metadata.uid\""],
        );
    }

    #[test]
    fn names_are_labels_and_unique() {
        let check = |names: &[&str], expected: &[&str]| {
            let volumes: Vec<Value> = names.iter().map(|name| json!({"name": name, "emptyDir": {}})).collect();
            assert_eq!(faults(json!(volumes)), expected);
        };
        check(&["a", "b"], &[]);
        check(&["a", "a"], &["volumes[1].name: Duplicate value: \"a\""]);
        check(&[""], &["volumes[0].name: Required value"]);
    }
}
