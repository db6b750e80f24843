//! Namespace: a room for names. It is emptied before it goes: `spec.finalizers` holds it until then.

use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use crate::check::{At, Faults, named};
use crate::halves::{keep_all_but, restore};
use crate::object_meta::check_standard_finalizer;
use crate::{Column, Converged, KindDef, UpdateOf, apply_order, column, fill};

/// The label that carries the namespace's name, so that selectors can name one.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer that says: content is still to be deleted.
pub const FINALIZER: &str = "kubernetes";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "Namespace", "namespaces")
        .cluster_scoped()
        .short("ns")
        .schema("io.k8s.api.core.v1.Namespace")
        .verbs(&["create", "delete", "get", "list", "patch", "update", "watch"])
        .with_subresource("finalize", &["update"])
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("Status", "string", "Active or Terminating.", |object, _| {
                object.text(&["status", "phase"]).into()
            }),
            column::age(),
        ])
        .selectable("status.phase")
        .apply_order(apply_order::NAMESPACE)
        .health(health)
        .named_by(name::dns1123_label)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn default(object: &mut Value) {
    label_with_name(object);
    if let Some(status) = fill::made(object, "status") {
        fill::zero(status, "phase", "Active");
    }
}

fn label_with_name(object: &mut Value) {
    let name = object.name().to_owned();
    if !name.is_empty() {
        object.put(&["metadata", "labels", NAME_LABEL], name);
    }
}

fn prepare_create(object: &mut Value) {
    // Again, since defaulting came before a generated name.
    label_with_name(object);
    object.put(&["status"], json!({"phase": "Active"}));
    let mut finalizers = object.items(&["spec", "finalizers"]).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
        object.put(&["spec", "finalizers"], finalizers);
    }
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => {
            restore(new, old, "spec");
            restore(new, old, "status");
        }
        UpdateOf::Status => keep_all_but(new, old, "status"),
        UpdateOf::Other(_) => restore(new, old, "status"),
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let spec = root.field("spec");
    let finalizers = spec.field("finalizers");
    for item in finalizers.each() {
        check_finalizer(&finalizers.with(item.value), &mut faults);
    }
    faults
}

fn check_finalizer(at: &At, faults: &mut Faults) {
    named(at, name::qualified_name, faults);
    check_standard_finalizer(at, faults);
}

fn validate_update(new: &Value, _: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(new);
    match what {
        UpdateOf::Status => check_phase(&root, &mut faults),
        UpdateOf::Other("finalize") => {
            let spec = root.field("spec");
            spec.field("finalizers").each().for_each(|item| check_finalizer(&item, &mut faults));
        }
        UpdateOf::Main | UpdateOf::Other(_) => {}
    }
    faults
}

fn check_phase(root: &At, faults: &mut Faults) {
    let status = root.field("status");
    let (phase, deleting) = (status.field("phase"), root.value.is_deleting());
    let (wanted, or_not) = if deleting { ("Terminating", "not empty") } else { ("Active", "empty") };
    if phase.text() != wanted {
        // Upstream writes this path with a capital.
        let detail = format!("may only be '{wanted}' if `deletionTimestamp` is {or_not}");
        faults.push(FieldError::invalid("status.Phase", phase.text(), detail));
    }
}

fn health(object: &Value) -> Converged {
    match object.text(&["status", "phase"]) {
        "Terminating" => Converged::Progressing("is being deleted".to_owned()),
        _ => Converged::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_born_active_labelled_and_held() {
        let mut object = json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}});
        default(&mut object);
        prepare_create(&mut object);
        let expected = json!({"metadata": {"name": "a", "labels": {NAME_LABEL: "a"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        assert_eq!(object, expected);
    }

    #[test]
    fn only_finalize_changes_finalizers() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let check = |what, expected: Value| {
            let mut new = json!({"spec": {"finalizers": []}, "status": {"phase": "Terminating"}});
            prepare_update(&mut new, &old, what);
            assert_eq!(new, expected);
        };
        check(UpdateOf::Main, old.clone());
        check(UpdateOf::Status, json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}}));
        check(UpdateOf::Other("finalize"), json!({"spec": {"finalizers": []}, "status": {"phase": "Active"}}));
    }

    #[test]
    fn faults() {
        let faults = validate(&json!({"spec": {"finalizers": ["mine"]}}));
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].field, "spec.finalizers");
        let faults = validate_update(&json!({"status": {"phase": "Terminating"}}), &json!({}), UpdateOf::Status);
        let text = "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty";
        assert_eq!(faults[0].to_string(), text);
    }
}
