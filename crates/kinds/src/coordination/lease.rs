//! Lease: who holds something, and until when. Written often and worthless after a restart, so kept outside the log.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, named, supported_text};
use crate::{Column, KindDef, UpdateOf, column};

/// The candidate with the oldest emulated version leads.
pub(super) const STRATEGY: &str = "OldestEmulationVersion";
const EXAMPLE: &str = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
    "metadata": {"name": "scheduler", "namespace": "kube-system"},
    "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("coordination.k8s.io", "v1", "Lease", "leases")
        .schema("io.k8s.api.coordination.v1.Lease")
        .volatile()
        .columns(vec![
            column::name(),
            Column::new("Holder", "string", "Who holds it.", |lease, _| lease.text(&["spec", "holderIdentity"]).into()),
            column::age(),
        ])
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

fn validate(lease: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(lease);
    let spec = root.field("spec");
    let (duration, transitions) = (spec.field("leaseDurationSeconds"), spec.field("leaseTransitions"));
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        faults.push(duration.invalid("must be greater than 0"));
    }
    if transitions.int().is_some_and(|count| count < 0) {
        faults.push(transitions.invalid("must be greater than or equal to 0"));
    }
    check_strategy(&spec, &mut faults);
    faults
}

fn check_strategy(spec: &At, faults: &mut Faults) {
    let (strategy, preferred) = (spec.field("strategy"), spec.field("preferredHolder"));
    if !preferred.text().is_empty() && strategy.text().is_empty() {
        faults.push(preferred.forbidden("may only be specified if `strategy` is defined"));
    }
    if strategy.is_set() {
        check_strategy_name(&strategy, faults);
    }
}

/// A strategy is one that we know or somebody's own, with a domain. Upstream names the field twice in the path.
pub(super) fn check_strategy_name(strategy: &At, faults: &mut Faults) {
    let below = strategy.field("strategy");
    let at = below.with(strategy.value);
    if at.text().contains('/') {
        named(&at, name::qualified_name, faults);
    } else {
        supported_text(&at, &[STRATEGY], faults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let check = |spec: Value, expected: &[&str]| {
            let texts: Vec<String> = validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0}), &[]);
        check(
            json!({"leaseDurationSeconds": 0, "leaseTransitions": -1}),
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check(
            json!({"preferredHolder": "a"}),
            &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
        );
        check(
            json!({"strategy": "Youngest"}),
            &[r#"spec.strategy.strategy: Unsupported value: "Youngest": supported values: "OldestEmulationVersion""#],
        );
    }
}
