//! Resizing a running pod: CPU and memory of its containers, nothing else.

use meta::{FieldError, ObjectExt};
use serde_json::{Map, Value};

use super::resources::{is_sidecar, qos_class};
use super::update::{is_mirror, metadata_and_spec};
use crate::check::{At, Faults, same};
use crate::fill;
use crate::halves::restore;

const ONLY: &str = "only cpu and memory resources are mutable";
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Checks a change at the address `resize`.
pub(crate) fn check(new: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods cannot be resized")];
    }
    if old.text(&["spec", "os", "name"]) == "windows" {
        return vec![FieldError::forbidden("[]", "windows pods cannot be resized")];
    }
    let mut faults = Faults::new();
    metadata_and_spec(new, &mut faults);
    let root = At::root(new);
    let spec = root.field("spec");
    quality_and_support(&spec, new, old, &mut faults);
    let old_spec = &old["spec"];
    let mut kept = spec.value.clone();
    pod_level(&spec, &mut kept, old_spec, &mut faults);
    let before = faults.len();
    LISTS.iter().for_each(|list| same_containers(&spec.field(list), old_spec.items(&[list]), list, &mut faults));
    if faults.len() > before {
        return faults;
    }
    for list in ["initContainers", "containers"] {
        removals(&spec.field(list), old_spec.items(&[list]), &mut faults);
    }
    regular(&spec, &mut kept, old_spec, &mut faults);
    init(&spec, &mut kept, old_spec, &mut faults);
    if !same(&kept["volumes"], &old_spec["volumes"]) {
        let detail = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate \
                      is disabled";
        faults.push(spec.field("volumes").forbidden(detail));
    }
    if faults.is_empty() && !same(&kept, old_spec) {
        faults.push(spec.forbidden(ONLY));
    }
    faults
}

fn quality_and_support(spec: &At, new: &Value, old: &Value, faults: &mut Faults) {
    let class = match old.text(&["status", "qosClass"]) {
        "" => qos_class(&old["spec"]),
        class => class,
    };
    if class != qos_class(spec.value) {
        let shown = new.text(&["status", "qosClass"]);
        faults.push(spec.invalid_as(shown, "Pod QOS Class may not change as a result of resizing"));
    }
    let running = old.items(&["status", "containerStatuses"]).iter().find(|s| s.at(&["state", "running"]).is_some());
    if running.is_some_and(|status| status.get("resources").is_none()) {
        faults.push(spec.forbidden("Pod running on node without support for resize"));
    }
}

fn pod_level(spec: &At, kept: &mut Value, old: &Value, faults: &mut Faults) {
    let at = spec.field("resources");
    let Some(old_resources) = old.get("resources") else {
        if at.is_set() {
            without_compute(&mut kept["resources"], &Value::Null);
            if same(&kept["resources"], &Value::Null) {
                kept.remove(&["resources"]);
            } else {
                faults.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
            }
        }
        return;
    };
    if !at.is_set() {
        return faults.push(at.forbidden("pod-level resources cannot be removed"));
    }
    for (list, noun) in [("requests", "requests"), ("limits", "limits")] {
        if removed(at.value, old_resources, list) {
            let detail = format!("pod-level resource {noun} cannot be removed");
            faults.push(at.field(list).forbidden(detail));
        }
    }
    without_compute(&mut kept["resources"], old_resources);
    if !same(&kept["resources"], old_resources) {
        faults.push(spec.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
}

fn same_containers(list: &At, old: &[Value], noun: &str, faults: &mut Faults) {
    if list.items().len() != old.len() {
        return faults.push(list.forbidden(format!("{noun} may not be added or removed on resize")));
    }
    for (container, old) in list.each().zip(old) {
        let name = container.field("name");
        if name.text() != old.text(&["name"]) {
            faults.push(name.forbidden(format!("{noun} may not be renamed or reordered on resize")));
        }
    }
}

fn removals(list: &At, old: &[Value], faults: &mut Faults) {
    for (container, old) in list.each().zip(old) {
        let resources = container.field("resources");
        for (which, noun) in [("requests", "requests"), ("limits", "limits")] {
            if removed(resources.value, &old["resources"], which) {
                faults.push(resources.field(which).forbidden(format!("resource {noun} cannot be removed")));
            }
        }
    }
}

/// Whether a resource that was there is gone.
fn removed(new: &Value, old: &Value, list: &str) -> bool {
    let has = |name: &String| new.at(&[list, name]).is_some();
    old.map(&[list]).into_iter().flat_map(Map::keys).any(|name| !has(name))
}

/// Puts back CPU and memory, so that what still differs is something else.
fn without_compute(resources: &mut Value, old: &Value) {
    for list in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            match old.at(&[list, name]) {
                Some(amount) => resources.put(&[list, name], amount.clone()),
                None => _ = resources.remove(&[list, name]),
            }
        }
    }
}

fn regular(spec: &At, kept: &mut Value, old: &Value, faults: &mut Faults) {
    for (container, old) in fill::items(kept, "containers").zip(old.items(&["containers"])) {
        put_back(container, old);
        if !same(container, old) {
            faults.push(spec.forbidden(ONLY));
        }
    }
}

fn init(spec: &At, kept: &mut Value, old: &Value, faults: &mut Faults) {
    let list = spec.field("initContainers");
    let pairs = fill::items(kept, "initContainers").zip(old.items(&["initContainers"]));
    for ((container, old), at) in pairs.zip(list.each()) {
        let modified = !same(container, old);
        put_back(container, old);
        if !same(container, old) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            faults.push(at.forbidden(detail));
        }
        if !modified || is_sidecar(at.value) {
            continue;
        }
        let restarts =
            at.value.items(&["resizePolicy"]).iter().filter(|p| p.text(&["restartPolicy"]) == "RestartContainer");
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        faults.extend(restarts.map(|_| at.forbidden(detail)));
    }
}

fn put_back(container: &mut Value, old: &Value) {
    if container.get("resources").is_none() {
        return restore(container, old, "resources");
    }
    without_compute(&mut container["resources"], &old["resources"]);
}
