//! Which changes of a pod are allowed: nearly none, as what runs cannot be changed under way.

use std::collections::BTreeMap;

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::spec::Owner;
use super::{affinity, annotations, container, spec};
use crate::check::{At, Faults, in_range, non_negative, same};
use crate::difference::difference;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// What may change, as the fault lists it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                          `spec.tolerations` (only additions to existing tolerations),\
                          `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The checks of a whole pod, new or changed; its metadata as such is checked elsewhere.
pub(crate) fn metadata_and_spec(pod: &Value, faults: &mut Faults) {
    let root = At::root(pod);
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    annotations::check(&metadata.field("annotations"), spec.value, faults);
    spec::check(&spec, Owner::Pod(metadata.value), faults);
    tokens_without_account(&spec, faults);
    non_negative(&spec.field("terminationGracePeriodSeconds"), faults);
    for list in ["containers", "initContainers"] {
        spec.field(list).each().for_each(|c| container::only_in_pods(&c, faults));
    }
}

fn tokens_without_account(spec: &At, faults: &mut Faults) {
    if !spec.field("serviceAccountName").text().is_empty() {
        return;
    }
    for volume in spec.field("volumes").each() {
        let projected = volume.field("projected");
        for source in projected.field("sources").each().filter(|source| source.has("serviceAccountToken")) {
            let detail = "must not be specified when serviceAccountName is not set";
            faults.push(source.field("serviceAccountToken").forbidden(detail));
        }
    }
}

/// What may not be set while a pod is created.
pub(crate) fn only_on_create(pod: &Value, faults: &mut Faults) {
    let root = At::root(pod);
    let spec = root.field("spec");
    if !spec.field("ephemeralContainers").items().is_empty() {
        faults.push(spec.field("ephemeralContainers").forbidden("cannot be set on create"));
    }
    if !spec.field("nodeName").text().is_empty() && !spec.field("schedulingGates").items().is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        faults.push(spec.field("nodeName").forbidden(detail));
    }
    annotations::agree(pod.map(&["metadata", "annotations"]), &spec, faults);
}

/// Checks a change at the pod's own address.
pub(crate) fn check(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    metadata_and_spec(new, &mut faults);
    let root = At::root(new);
    let (metadata, spec, old_spec) = (root.field("metadata"), root.field("spec"), &old["spec"]);
    let old_annotations = old.map(&["metadata", "annotations"]);
    annotations::check_update(&metadata.field("annotations"), old_annotations, spec.value, &mut faults);
    for list in ["containers", "initContainers"] {
        if !containers(&spec.field(list), old_spec.items(&[list]), &mut faults) {
            return faults;
        }
    }
    if !deadline(&spec.field("activeDeadlineSeconds"), old_spec.int(&["activeDeadlineSeconds"]), &mut faults) {
        return faults;
    }
    tolerations(&spec.field("tolerations"), old_spec.items(&["tolerations"]), &mut faults);
    scheduling_gates(&spec.field("schedulingGates"), old_spec.items(&["schedulingGates"]), &mut faults);
    if !same(spec.value, old_spec) {
        the_rest(&spec, old_spec, &mut faults);
    }
    faults
}

/// Whether the rest is worth looking at.
fn containers(list: &At, old: &[Value], faults: &mut Faults) -> bool {
    if list.items().len() != old.len() {
        faults.push(list.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in list.each() {
        if container.field("image").text().is_empty() {
            faults.push(container.field("image").required(""));
        }
        container::only_in_pods(&container, faults);
    }
    true
}

/// Whether the rest is worth looking at.
fn deadline(at: &At, old: Option<i64>, faults: &mut Faults) -> bool {
    let before = faults.len();
    match (at.int(), old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => in_range(at, 0, i64::from(i32::MAX), faults),
        (Some(new), Some(old)) if old < new => {
            faults.push(at.invalid("must be less than or equal to previous value"));
        }
        (None, Some(_)) => {
            faults.push(at.invalid("must not update from a positive integer to nil value"));
            return true;
        }
        _ => {}
    }
    faults.len() == before
}

fn tolerations(list: &At, old: &[Value], faults: &mut Faults) {
    if affinity::only_added(list.items(), old) {
        affinity::tolerations(list, faults);
    } else {
        faults.push(list.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
}

fn scheduling_gates(list: &At, old: &[Value], faults: &mut Faults) {
    let new: BTreeMap<&str, At> = list.each().map(|gate| (gate.value.text(&["name"]), gate)).collect();
    for (name, gate) in new.into_iter().filter(|(name, _)| old.iter().all(|old| old.text(&["name"]) != *name)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        faults.push(gate.field("name").forbidden(detail));
    }
}

/// Puts back what may change; what still differs then may not.
fn the_rest(spec: &At, old: &Value, faults: &mut Faults) {
    let mut kept = spec.value.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in crate::fill::items(&mut kept, list).zip(old.items(&[list])) {
            crate::halves::restore(container, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        crate::halves::restore(&mut kept, old, field);
    }
    let grace = ["terminationGracePeriodSeconds"];
    if old.int(&grace).is_some_and(|seconds| seconds < 0) && kept.int(&grace) == Some(1) {
        crate::halves::restore(&mut kept, old, grace[0]);
    }
    if !old.items(&["schedulingGates"]).is_empty() {
        gated(spec, &mut kept, old, faults);
    }
    if !same(&kept, old) {
        let changes = difference(old, &kept);
        faults.push(spec.forbidden(format!("pod updates may not change fields other than {CHANGEABLE}\n{changes}")));
    }
}

/// While a pod is held back, where it may run can still be narrowed.
fn gated(spec: &At, kept: &mut Value, old: &Value, faults: &mut Faults) {
    let selector = spec.field("nodeSelector");
    let removed = |(key, value): (&String, &Value)| selector.value.get(key) != Some(value);
    if old.map(&["nodeSelector"]).into_iter().flatten().any(removed) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.push(selector.invalid(detail));
    }
    crate::halves::restore(kept, old, "nodeSelector");
    let node_affinity = |spec: &Value| spec.at(&["affinity", "nodeAffinity"]).cloned().unwrap_or_default();
    let former = node_affinity(old);
    if same(&node_affinity(kept), &former) {
        return;
    }
    let affinity = spec.field("affinity");
    narrowed(&affinity.field("nodeAffinity"), &former, faults);
    if former.is_null() {
        kept.remove(&["affinity", "nodeAffinity"]);
    } else {
        kept.put(&["affinity", "nodeAffinity"], former);
    }
}

fn narrowed(at: &At, old: &Value, faults: &mut Faults) {
    let old_terms = old.items(&[REQUIRED, "nodeSelectorTerms"]);
    let required = at.field(REQUIRED);
    let terms = required.field("nodeSelectorTerms");
    if !old_terms.is_empty() && old_terms.len() != terms.items().len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return faults.push(terms.invalid(detail));
    }
    for (term, old) in terms.each().zip(old_terms) {
        if !only_additions(term.value, old) {
            faults.push(term.invalid("only additions are allowed (no mutations or deletions)"));
        }
    }
}

fn only_additions(new: &Value, old: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let empty = |term: &Value| LISTS.iter().all(|list| term.items(&[list]).is_empty());
    let kept = |list: &&str| {
        let (new, old) = (new.items(&[list]), old.items(&[list]));
        new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| same(new, old))
    };
    // A term without requirements matches nothing: more of them would widen it.
    (!empty(old) || empty(new)) && LISTS.iter().all(kept)
}

/// Checks a change of the ephemeral containers: they may be added, no more.
pub(crate) fn ephemeral_containers(new: &Value, old: &Value) -> Vec<FieldError> {
    if is_mirror(old) {
        return vec![FieldError::forbidden("[]", "static pods do not support ephemeral containers")];
    }
    let mut faults = Faults::new();
    metadata_and_spec(new, &mut faults);
    let root = At::root(new);
    let (metadata, spec) = (root.field("metadata"), root.field("spec"));
    let annotations = metadata.field("annotations");
    annotations::check_update(&annotations, old.map(&["metadata", "annotations"]), spec.value, &mut faults);
    let list = spec.field("ephemeralContainers");
    let by_name: BTreeMap<&str, &Value> = list.items().iter().map(|c| (c.text(&["name"]), c)).collect();
    for old in old.items(&["spec", "ephemeralContainers"]) {
        let name = old.text(&["name"]);
        match by_name.get(name) {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                faults.push(list.forbidden(detail));
            }
            Some(new) if !same(new, old) => {
                let changes = difference(old, new);
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n{changes}");
                faults.push(list.forbidden(detail));
            }
            Some(_) => {}
        }
    }
    faults
}

/// Whether the pod belongs to its node and the API only shows it.
pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod.map(&["metadata", "annotations"]).is_some_and(|map| map.contains_key(annotations::MIRROR))
}
