//! Role: what may be done in one namespace.

use meta::{FieldError, name};
use serde_json::Value;

use super::GROUP;
use super::policy_rule::{In, check_all};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
    "metadata": {"name": "reader", "namespace": "default"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "Role", "roles")
        .schema("io.k8s.api.rbac.v1.Role")
        .columns(vec![column::name(), column::created_at()])
        .apply_order(apply_order::IDENTITY)
        .named_by(name::path_segment)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(role: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_all(&At::root(role), In::Namespace, &mut faults);
    faults
}
