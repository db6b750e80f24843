//! The pod template that workloads carry.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::spec::Owner;
use super::{annotations, spec};
use crate::check::{At, Faults};
use crate::object_meta::{check_annotations, check_labels};

/// The template makes pods that the workload would not own.
pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Checks a pod template.
pub(crate) fn check(at: &At, faults: &mut Faults) {
    let (metadata, spec) = (at.field("metadata"), at.field("spec"));
    // Upstream reports these as if they stood in the template itself.
    labels_and_annotations(&at.with(metadata.value), faults);
    let map = metadata.field("annotations");
    annotations::check(&at.field("annotations").with(map.value), spec.value, faults);
    spec::check(&spec, Owner::Template, faults);
    annotations::agree(map.value.as_object(), &spec, faults);
    if !spec.field("ephemeralContainers").items().is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        faults.push(spec.field("ephemeralContainers").forbidden(detail));
    }
}

/// Checks `labels` and `annotations` of a template's metadata.
pub(crate) fn labels_and_annotations(metadata: &At, faults: &mut Faults) {
    check_labels(&metadata.field("labels"), faults);
    check_annotations(&metadata.field("annotations"), faults);
}

/// Checks that the template's labels satisfy the selector. An empty one is reported elsewhere.
pub(crate) fn matches(at: &At, selector: &Selector, faults: &mut Faults) {
    let labels = at.value.map(&["metadata", "labels"]);
    if !selector.is_everything() && !selector.matches(&labels) {
        let metadata = at.field("metadata");
        faults.push(metadata.field("labels").invalid(MISMATCH));
    }
}

/// Checks that pods of the template run for ever; `kind` is named in the fault.
pub(crate) fn runs_for_ever(at: &At, kind: &str, faults: &mut Faults) {
    let spec = at.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.text() != "Always" {
        faults.push(FieldError::not_supported(policy.path, policy.text(), &["Always"]));
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        faults.push(spec.field("activeDeadlineSeconds").forbidden(detail));
    }
}

/// Checks a `metav1.LabelSelector` that must be there and must not be empty; `kind` is named in the fault.
pub(crate) fn selector(at: &At, kind: &str, faults: &mut Faults) {
    if !at.is_set() {
        return faults.push(at.required(""));
    }
    faults.extend(Selector::validate(at.value, &at.path));
    if is_empty_selector(at.value) {
        faults.push(at.invalid(format!("empty selector is invalid for {kind}")));
    }
}

/// Whether a `metav1.LabelSelector` has no requirement.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    let labels = selector.map(&["matchLabels"]).map_or(0, serde_json::Map::len);
    labels + selector.items(&["matchExpressions"]).len() == 0
}

/// The check of template and selector that ReplicaSets and Deployments share.
pub(crate) fn check_selected(spec: &At, faults: &mut Faults) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    match Selector::from_label_selector(Some(selector.value)) {
        Err(_) => faults.push(selector.invalid("invalid label selector")),
        Ok(parsed) => {
            matches(&template, &parsed, faults);
            check(&template, faults);
            runs_for_ever(&template, "ReplicaSet", faults);
        }
    }
}
