//! LeaseCandidate: who would hold a Lease, and how old its program is, for elections that a coordinator decides.

use meta::{FieldError, ObjectExt, name};
use semver::Version;
use serde_json::Value;

use super::lease::{STRATEGY, check_strategy_name};
use crate::check::{At, Faults, immutable, required};
use crate::{Column, KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
    "metadata": {"name": "scheduler-a", "namespace": "kube-system"},
    "spec": {"leaseName": "scheduler", "binaryVersion": "1.37.0", "emulationVersion": "1.37.0",
        "strategy": "OldestEmulationVersion"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("coordination.k8s.io", "v1beta1", "LeaseCandidate", "leasecandidates")
        .schema("io.k8s.api.coordination.v1beta1.LeaseCandidate")
        .volatile()
        .columns(vec![
            column::name(),
            Column::new("LeaseName", "string", "The lease it would hold.", |c, _| {
                c.text(&["spec", "leaseName"]).into()
            }),
            Column::new("BinaryVersion", "string", "Version of the program.", |c, _| {
                c.text(&["spec", "binaryVersion"]).into()
            }),
            Column::new("EmulationVersion", "string", "Version that the program behaves as.", |c, _| {
                c.text(&["spec", "emulationVersion"]).into()
            }),
            column::age(),
        ])
        .selectable("spec.leaseName")
        .named_by(name::config_map_key)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(candidate: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(candidate);
    let spec = root.field("spec");
    required(&spec.field("leaseName"), &mut faults);
    check_versions(&spec.field("binaryVersion"), &spec.field("emulationVersion"), &mut faults);
    check_strategy(&spec, &mut faults);
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (new, old) = (At::root(new), At::root(old));
    let (new, old) = (new.field("spec"), old.field("spec"));
    immutable(&new.field("leaseName"), &old.field("leaseName"), &mut faults);
    faults
}

fn check_versions(binary: &At, emulated: &At, faults: &mut Faults) {
    for version in [emulated, binary] {
        if !version.text().is_empty() && Version::parse(version.text()).is_err() {
            faults.push(version.invalid("must be a valid semantic version"));
        }
    }
    required(binary, faults);
    if binary.text().is_empty() || emulated.text().is_empty() {
        return;
    }
    if version(binary).cmp_precedence(&version(emulated)).is_lt() {
        faults.push(binary.invalid("must be greater than or equal to `emulationVersion`"));
    }
}

fn check_strategy(spec: &At, faults: &mut Faults) {
    let (strategy, emulated) = (spec.field("strategy"), spec.field("emulationVersion"));
    if strategy.text().is_empty() {
        faults.push(strategy.required(""));
        return;
    }
    let is_zero = version(&emulated).cmp_precedence(&Version::new(0, 0, 0)).is_eq();
    if strategy.text() == STRATEGY && is_zero {
        faults.push(emulated.required("must be specified when `strategy` is 'OldestEmulationVersion'"));
    }
    check_strategy_name(&strategy, faults);
}

/// As upstream has it: what cannot be read counts as version zero.
fn version(at: &At) -> Version {
    Version::parse(at.text()).unwrap_or(Version::new(0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let spec = |binary: &str, emulated: &str, strategy: &str| json!({"leaseName": "l", "binaryVersion": binary, "emulationVersion": emulated, "strategy": strategy});
        let check = |spec: Value, expected: &[&str]| {
            let texts: Vec<String> = validate(&json!({ "spec": spec })).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(spec("1.37.0", "1.36.0", STRATEGY), &[]);
        check(spec("1.37.0", "", "example.com/mine"), &[]);
        check(
            json!({}),
            &["spec.leaseName: Required value", "spec.binaryVersion: Required value", "spec.strategy: Required value"],
        );
        check(
            spec("1.36.0", "1.37.0", STRATEGY),
            &[r#"spec.binaryVersion: Invalid value: "1.36.0": must be greater than or equal to `emulationVersion`"#],
        );
        check(
            spec("1.37", "", STRATEGY),
            &[
                r#"spec.binaryVersion: Invalid value: "1.37": must be a valid semantic version"#,
                "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            ],
        );
        let (old, mut new) =
            (json!({"spec": spec("1.37.0", "1.37.0", STRATEGY)}), json!({"spec": spec("1.37.0", "1.37.0", STRATEGY)}));
        new.put(&["spec", "leaseName"], "other");
        let texts: Vec<String> = validate_update(&new, &old, UpdateOf::Main).iter().map(ToString::to_string).collect();
        assert_eq!(texts, [r#"spec.leaseName: Invalid value: "other": field is immutable"#]);
    }
}
