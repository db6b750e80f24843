//! How containers mount volumes and attach block devices.

use std::collections::BTreeSet;

use meta::ObjectExt;
use serde_json::Value;

use super::Context;
use super::path::{descending, no_backsteps};
use crate::check::{At, Faults, supported_text};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Checks `volumeMounts` and `volumeDevices` of a container against the pod's volumes.
pub(crate) fn check(container: &At, context: &Context, faults: &mut Faults) {
    mounts(container, context, faults);
    devices(container, context, faults);
}

fn mounts(container: &At, context: &Context, faults: &mut Faults) {
    let list = container.field("volumeMounts");
    let devices = container.value.items(&["volumeDevices"]);
    let taken = |field: &str, text: &str| devices.iter().any(|device| device.text(&[field]) == text);
    let mut paths = BTreeSet::new();
    for mount in list.each() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.text().is_empty() {
            faults.push(name.required(""));
        }
        if !context.volumes.contains_key(name.text()) {
            faults.push(meta::FieldError::not_found(name.path, name.text()));
        }
        if path.text().is_empty() {
            faults.push(path.required(""));
        }
        if !paths.insert(path.text()) {
            faults.push(path.invalid("must be unique"));
        }
        if taken("name", name.text()) {
            faults.push(name.invalid("must not already exist in volumeDevices"));
        }
        if taken("devicePath", path.text()) {
            faults.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        sub_paths(&list, &mount, faults);
        propagation(&list, &mount, container.value, faults);
        recursive_read_only(&list, &mount, faults);
    }
}

/// Upstream reports these without the index of the mount.
fn sub_paths(list: &At, mount: &At, faults: &mut Faults) {
    let (path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !path.text().is_empty() {
        descending(&list.field("subPath").with(path.value), faults);
    }
    if !expression.text().is_empty() {
        if !path.text().is_empty() {
            faults.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
        }
        descending(&list.field("subPathExpr").with(expression.value), faults);
    }
}

fn propagation(list: &At, mount: &At, container: &Value, faults: &mut Faults) {
    let at = list.field("mountPropagation");
    let at = at.with(mount.field("mountPropagation").value);
    if !at.is_set() {
        return;
    }
    supported_text(&at, PROPAGATIONS, faults);
    if at.text() == "Bidirectional" && !container.flag(&["securityContext", "privileged"]) {
        faults.push(at.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
}

fn recursive_read_only(list: &At, mount: &At, faults: &mut Faults) {
    let at = list.field("recursiveReadOnly");
    let at = at.with(mount.field("recursiveReadOnly").value);
    match at.text() {
        _ if !at.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").is_true() {
                faults.push(at.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(mount.field("mountPropagation").text(), "" | "None") {
                faults.push(at.forbidden("may only be specified when mountPropagation is None or not specified"));
            }
        }
        _ => faults.push(at.unsupported(RECURSIVE)),
    }
}

fn devices(container: &At, context: &Context, faults: &mut Faults) {
    let list = container.field("volumeDevices");
    let mounts = container.value.items(&["volumeMounts"]);
    let taken = |field: &str, text: &str| mounts.iter().any(|mount| mount.text(&[field]) == text);
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in list.each() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        device_name(&name, context, names.contains(name.text()), faults);
        device_path(&path, paths.contains(path.text()), faults);
        if taken("name", name.text()) {
            faults.push(name.invalid("must not already exist in volumeMounts"));
        }
        if taken("mountPath", path.text()) {
            faults.push(path.invalid("must not already exist as a path in volumeMounts"));
        }
        paths.insert(path.text());
        if !name.text().is_empty() {
            names.insert(name.text());
        }
    }
}

fn device_name(name: &At, context: &Context, repeated: bool, faults: &mut Faults) {
    if name.text().is_empty() {
        faults.push(name.required(""));
    }
    if repeated {
        faults.push(name.invalid("must be unique"));
    }
    match context.volumes.get(name.text()) {
        None => faults.push(meta::FieldError::not_found(name.path, name.text())),
        Some(volume) if volume.get("persistentVolumeClaim").is_some() || volume.get("ephemeral").is_some() => {}
        Some(_) => {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            faults.push(name.invalid(detail));
        }
    }
}

fn device_path(path: &At, repeated: bool, faults: &mut Faults) {
    if path.text().is_empty() {
        faults.push(path.required(""));
    }
    if repeated {
        faults.push(path.invalid("must be unique"));
    }
    let mut climbs = Faults::new();
    no_backsteps(path, &mut climbs);
    if !climbs.is_empty() {
        faults.push(path.invalid("can not contain backsteps ('..')"));
    }
}
