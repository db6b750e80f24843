//! ControllerRevisions: what a StatefulSet or DaemonSet was, kept to go back to.

use meta::{FieldError, GroupVersion, ObjectExt};
use serde_json::Value;

use crate::check::{At, Faults, immutable, non_negative};
use crate::column::{NONE, age, name, number};
use crate::{Column, KindDef, UpdateOf};

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("apps", "v1", "ControllerRevision", "controllerrevisions")
        .schema("io.k8s.api.apps.v1.ControllerRevision")
        .columns(columns())
        .validates(validate)
        .validates_update(validate_update)
        .example(
            r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"db-1","namespace":"default"},"revision":1,
                "data":{"spec":{}}}"#,
        )
}

fn columns() -> Vec<Column> {
    vec![
        name(),
        Column::new("Controller", "string", "Whose revision it is.", |object, _| controller(object).into()),
        Column::new("Revision", "string", "Its number.", |object, _| number(object, &["revision"])),
        age(),
    ]
}

/// The controlling owner as `statefulset.apps/db`.
fn controller(object: &Value) -> String {
    let Some(owner) = object.controller_ref() else { return NONE.to_owned() };
    let kind = owner.text(&["kind"]).to_lowercase();
    let group = GroupVersion::parse(owner.text(&["apiVersion"])).map(|gv| gv.group).unwrap_or_default();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", owner.text(&["name"]))
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    non_negative(&root.field("revision"), &mut faults);
    let data = root.field("data");
    match data.value {
        Value::Object(_) => {}
        Value::Null => faults.push(data.required("data is mandatory")),
        _ => faults.push(data.required("data must be a valid JSON object")),
    }
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    non_negative(&root.field("revision"), &mut faults);
    immutable(&root.field("data"), &old_root.field("data"), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn checks_read_like_upstream() {
        let check = |object: Value, expected: &[&str]| {
            assert_eq!(validate(&object).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"revision": 0, "data": {}}), &[]);
        check(json!({"revision": 0}), &["data: Required value: data is mandatory"]);
        check(json!({"data": [1]}), &["data: Required value: data must be a valid JSON object"]);
        let old = json!({"revision": 1, "data": {"a": 1}});
        let faults = validate_update(&json!({"revision": -1, "data": {"a": 2}}), &old, UpdateOf::Main);
        assert_eq!(
            faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Invalid value: {\"a\":2}: field is immutable",
            ]
        );
    }

    #[test]
    fn owners_are_named() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": true});
        assert_eq!(controller(&json!({"metadata": {"ownerReferences": [owner]}})), "statefulset.apps/db");
        assert_eq!(controller(&json!({})), "<none>");
    }
}
