//! What workload kinds have in common: counters of their status, columns, the judgement of a rollout.

use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::Value;

use crate::check::{At, Faults, non_negative_fields};
use crate::column::{joined, selector_text};
use crate::{Column, Converged, column};

/// Checks the counters of a status: none negative, those of `parts` not above `replicas`.
pub(crate) fn counters(status: &At, all: &[&str], parts: &[&str], faults: &mut Faults) {
    non_negative_fields(status, all, faults);
    let replicas = status.field("replicas").number();
    for part in parts {
        let at = status.field(part);
        if at.number() > replicas {
            faults.push(at.invalid("cannot be greater than status.replicas"));
        }
    }
}

/// Checks that what is available is ready; `noun` is how the fault calls the latter.
pub(crate) fn available_is_ready(status: &At, noun: &str, faults: &mut Faults) {
    let available = status.field("availableReplicas");
    if available.number() > status.field("readyReplicas").number() {
        faults.push(available.invalid(format!("cannot be greater than {noun}")));
    }
}

/// Checks that the counter of hash collisions does not go back.
pub(crate) fn collisions(status: &At, old: &At, faults: &mut Faults) {
    let (new, old) = (status.field("collisionCount"), old.field("collisionCount"));
    if old.int().is_some_and(|old| new.number() < old) {
        faults.push(new.invalid_as(new.number(), "cannot be decremented"));
    }
}

/// Containers, images and selector of a workload whose template stands at `spec.template`.
pub(crate) fn wide_columns() -> Vec<Column> {
    let mut columns = template_columns().to_vec();
    columns.push(selector_column(|object, _| selector_text(object.at(&["spec", "selector"])).into()));
    columns
}

/// Containers and images of a workload whose template stands at `spec.template`.
pub(crate) fn template_columns() -> [Column; 2] {
    const CONTAINERS: &[&str] = &["spec", "template", "spec", "containers"];
    column::containers(
        |object, _| joined(object.items(CONTAINERS), "name"),
        |object, _| joined(object.items(CONTAINERS), "image"),
    )
}

/// The wide column of a selector.
pub(crate) fn selector_column(cell: fn(&Value, Time) -> Value) -> Column {
    Column::new("Selector", "string", "Which pods belong to the object.", cell).wide()
}

/// A number shown always.
pub(crate) fn number_column(name: &'static str, description: &'static str, cell: fn(&Value, Time) -> Value) -> Column {
    Column::new(name, "integer", description, cell)
}

/// The selector in its text form; the text of upstream's Deployments when malformed.
pub(crate) fn plain_selector(object: &Value) -> String {
    match Selector::from_label_selector(object.at(&["spec", "selector"])) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// What is still missing before the controller has seen the latest wish; `None` when it has.
pub(crate) fn unobserved(object: &Value) -> Option<Converged> {
    let observed = object.int(&["status", "observedGeneration"]).unwrap_or(0);
    if object.is_deleting() {
        return Some(Converged::Progressing("is being deleted".to_owned()));
    }
    (observed < object.generation()).then(|| Converged::Progressing("waiting for the change to be observed".to_owned()))
}

/// A condition of the status.
pub(crate) fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object.items(&["status", "conditions"]).iter().find(|condition| condition.text(&["type"]) == kind)
}

/// Whether a condition is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition.text(&["status"]) == "True")
}

/// The first of the steps that is not done, as progress: `(done, wanted, what)`.
pub(crate) fn progress(steps: &[(i64, i64, &str)]) -> Converged {
    match steps.iter().find(|(done, wanted, _)| done < wanted) {
        Some((done, wanted, what)) => Converged::Progressing(format!("{done} of {wanted} {what}")),
        None => Converged::Yes,
    }
}
