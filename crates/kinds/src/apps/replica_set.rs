//! ReplicaSets: pods of one template kept at a number.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use crate::check::{At, Faults, immutable, non_negative};
use crate::column::{age, name, number};
use crate::core::pod::{defaults, prepare_template, template, warnings};
use crate::halves::{drop_status, keep_other_half};
use crate::workload::{
    available_is_ready, condition, counters, is_true, number_column, progress, unobserved, wide_columns,
};
use crate::{Column, Converged, KindDef, SelectorAt, UpdateOf, fill};

const COUNTERS: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
];

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("apps", "v1", "ReplicaSet", "replicasets")
        .short("rs")
        .category("all")
        .schema("io.k8s.api.apps.v1.ReplicaSet")
        .counts_generation()
        .with_status()
        .with_scale("spec.replicas", "status.replicas", SelectorAt::LabelSelector("spec.selector".into()))
        .columns(columns())
        .selectable_by("status.replicas", |object, _| number(object, &["status", "replicas"]).to_string())
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(|new, old| warnings::of_workload(new, old, true))
        .example(
            r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web","namespace":"default"},"spec":{
                "selector":{"matchLabels":{"app":"web"}},
                "template":{"metadata":{"labels":{"app":"web"}},
                    "spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let mut columns = replica_columns();
    columns.extend(wide_columns());
    columns
}

/// What ReplicaSets and ReplicationControllers show.
pub(crate) fn replica_columns() -> Vec<Column> {
    vec![
        name(),
        number_column("Desired", "Pods wanted.", |object, _| number(object, &["spec", "replicas"])),
        number_column("Current", "Pods there are.", |object, _| number(object, &["status", "replicas"])),
        number_column("Ready", "Pods that are ready.", |object, _| number(object, &["status", "readyReplicas"])),
        age(),
    ]
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::absent(spec, "replicas", 1);
    if let Some(template) = fill::made(spec, "template") {
        defaults::template(template);
    }
}

/// Before a workload with a template is created.
pub(crate) fn prepare_create(object: &mut Value) {
    drop_status(object);
    prepare_template(object);
}

/// Before a workload with a template is changed.
pub(crate) fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    keep_other_half(new, old, what);
    prepare_template(new);
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_spec(&At::root(object).field("spec"), &mut faults);
    faults
}

fn check_spec(spec: &At, faults: &mut Faults) {
    non_negative(&spec.field("replicas"), faults);
    non_negative(&spec.field("minReadySeconds"), faults);
    // Upstream says deployment here too.
    template::selector(&spec.field("selector"), "deployment", faults);
    template::check_selected(spec, faults);
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        check_status(&root.field("status"), &mut faults);
    } else {
        let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
        check_spec(&spec, &mut faults);
        immutable(&spec.field("selector"), &old_spec.field("selector"), &mut faults);
    }
    faults
}

/// Checks the status of a ReplicaSet or ReplicationController.
pub(crate) fn check_status(status: &At, faults: &mut Faults) {
    counters(status, COUNTERS, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], faults);
    available_is_ready(status, "readyReplicas", faults);
}

/// Whether as many pods are available as are wanted.
pub(crate) fn health(object: &Value) -> Converged {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    if let Some(failed) = condition(object, "ReplicaFailure").filter(|_| is_true(object, "ReplicaFailure")) {
        return Converged::Progressing(failed.text(&["message"]).to_owned());
    }
    let of = |field: &str| object.int(&["status", field]).unwrap_or(0);
    let wanted = object.int(&["spec", "replicas"]).unwrap_or(1);
    if of("replicas") > wanted {
        return Converged::Progressing(format!("{} replicas are to go", of("replicas").saturating_sub(wanted)));
    }
    progress(&[
        (of("replicas"), wanted, "replicas are created"),
        (of("availableReplicas"), wanted, "replicas are available"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn example() -> Value {
        let mut object: Value = serde_json::from_str(def().example).expect("example is JSON");
        default(&mut object);
        object
    }

    #[test]
    fn checks_read_like_upstream() {
        let check = |change: fn(&mut Value), expected: &[&str]| {
            let mut object = example();
            change(&mut object["spec"]);
            let faults = validate(&object);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(|_| {}, &[]);
        check(
            |spec| _ = spec.remove(&["selector"]),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template \
             `labels`",
            ],
        );
        check(
            |spec| spec["minReadySeconds"] = json!(-1),
            &["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"],
        );
        check(
            |spec| spec["template"]["spec"]["activeDeadlineSeconds"] = json!(5),
            &["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not \
               Supported"],
        );
        check(
            |spec| {
                spec["template"]["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}])
            },
            &["spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
        );
    }

    #[test]
    fn convergence() {
        let check = |status: Value, expected: Converged| {
            let object = json!({"metadata": {"generation": 1}, "spec": {"replicas": 2}, "status": status});
            assert_eq!(health(&object), expected);
        };
        check(json!({"observedGeneration": 1, "replicas": 2, "availableReplicas": 2}), Converged::Yes);
        check(
            json!({"observedGeneration": 1, "replicas": 2, "availableReplicas": 1}),
            Converged::Progressing("1 of 2 replicas are available".to_owned()),
        );
    }
}
