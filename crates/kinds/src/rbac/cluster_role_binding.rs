//! ClusterRoleBinding: gives a ClusterRole everywhere.

use meta::FieldError;
use serde_json::Value;

use super::{GROUP, subject};
use crate::check::{At, Faults};
use crate::{KindDef, UpdateOf, apply_order};

const EXAMPLE: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
    "metadata": {"name": "probes"}, "roleRef": {"kind": "ClusterRole", "name": "probe"},
    "subjects": [{"kind": "Group", "name": "monitors"}]}"#;

/// The kind.
pub fn def() -> KindDef {
    subject::binding(KindDef::new(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings"))
        .cluster_scoped()
        .schema("io.k8s.api.rbac.v1.ClusterRoleBinding")
        .apply_order(apply_order::IDENTITY)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(binding: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    subject::check(&At::root(binding), &["ClusterRole"], false, &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    subject::check_change(&At::root(new), &At::root(old), &mut faults);
    faults
}
