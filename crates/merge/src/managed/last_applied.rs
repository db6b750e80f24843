//! The annotation in which client-side apply keeps its configuration, and the way from there to server-side apply.

use meta::ObjectExt as _;
use serde_json::Value;

use super::Writer;
use super::conflict::Conflict;
use crate::fields::FieldSet;
use crate::{go_text, typed};

/// The annotation.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager for which the annotation counts.
pub(super) const KUBECTL: &str = "kubectl";

/// Most bytes of all annotations together (upstream's limit); when the annotation does not fit it is left out.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// The conflicts that remain after those are allowed whose fields still have the value that client-side apply
/// gave them: they were kubectl's own all along.
pub(super) fn remaining(writer: &Writer<'_>, live: &Value, conflicts: Vec<Conflict>) -> Vec<Conflict> {
    match unchanged_since_applied(writer, live) {
        Some(allowed) => conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect(),
        None => conflicts,
    }
}

/// Fields of the last applied configuration that are live with the same value; `None` without a usable annotation.
fn unchanged_since_applied(writer: &Writer<'_>, live: &Value) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(live.annotation(LAST_APPLIED)?).ok()?;
    let usable = applied.text(&["apiVersion"]) == writer.api_version
        && typed::check(writer.schema, &applied).is_empty()
        && typed::check(writer.schema, live).is_empty();
    if !usable {
        return None;
    }
    let change = typed::compare(writer.schema, &applied, live);
    let set = typed::extract(writer.schema, &applied);
    Some(set.difference(&change.modified).difference(&change.added).difference(&change.removed))
}

/// Keeps the annotation in step with what kubectl applies, where the object has one.
pub(super) fn refresh(writer: &Writer<'_>, object: &mut Value, config: &Value) {
    let has = object.annotation(LAST_APPLIED).is_some_and(|text| !text.is_empty());
    if writer.manager != KUBECTL || !has {
        return;
    }
    let mut applied = config.clone();
    applied.remove(&["metadata", "annotations", LAST_APPLIED]);
    let text = go_text::json(&applied) + "\n";
    let annotations = object.map_mut(&["metadata", "annotations"]);
    annotations.insert(LAST_APPLIED.to_owned(), Value::from(text));
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MAX {
        annotations.remove(LAST_APPLIED);
    }
}
