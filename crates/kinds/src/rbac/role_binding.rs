//! RoleBinding: gives a role in one namespace.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, subject};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, apply_order};

const EXAMPLE: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
    "metadata": {"name": "readers", "namespace": "default"}, "roleRef": {"kind": "Role", "name": "reader"},
    "subjects": [{"kind": "User", "name": "ada"}, {"kind": "ServiceAccount", "name": "builder", "namespace": "ci"}]}"#;

/// The kind.
pub fn def() -> KindDef {
    subject::binding(KindDef::new(GROUP, "v1", "RoleBinding", "rolebindings"))
        .schema("io.k8s.api.rbac.v1.RoleBinding")
        .apply_order(apply_order::IDENTITY)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    subject::check(&At::root(binding), &["Role", "ClusterRole"], true, &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    subject::check_change(&At::root(new), &At::root(old), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let group = "rbac.authorization.k8s.io";
        let role = json!({"apiGroup": group, "kind": "Role", "name": "a"});
        let check = |subject: Value, expected: &[&str]| {
            let faults = validate(&json!({"roleRef": role, "subjects": [subject]}));
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"kind": "User", "name": "a", "apiGroup": group}), &[]);
        check(json!({"kind": "ServiceAccount", "name": "a"}), &[]);
        check(
            json!({"kind": "Robot", "name": "a"}),
            &[
                "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            ],
        );
        let (old, new) =
            (json!({ "roleRef": role }), json!({"roleRef": {"apiGroup": group, "kind": "Role", "name": "b"}}));
        let faults = validate_update(&new, &old, UpdateOf::Main);
        assert!(faults[0].to_string().ends_with("cannot change roleRef"));
        assert_eq!(faults[0].field, "roleRef");
    }
}
