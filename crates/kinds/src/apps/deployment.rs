//! Deployments: pods kept at a number and replaced little by little when their template changes.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::percent;
use crate::check::{At, Faults, immutable, non_negative};
use crate::column::{age, name, number};
use crate::core::pod::{defaults, prepare_template, template, warnings};
use crate::halves::{drop_status, keep_other_half, restore_metadata};
use crate::workload::{
    available_is_ready, collisions, condition, counters, is_true, plain_selector, progress, selector_column,
    template_columns, unobserved,
};
use crate::{Column, Converged, KindDef, SelectorAt, UpdateOf, fill};

const COUNTERS: &[&str] = &[
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
];

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("apps", "v1", "Deployment", "deployments")
        .short("deploy")
        .category("all")
        .schema("io.k8s.api.apps.v1.Deployment")
        .counts_generation()
        .with_status()
        .with_scale("spec.replicas", "status.replicas", SelectorAt::LabelSelector("spec.selector".into()))
        .columns(columns())
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(|new, old| warnings::of_workload(new, old, true))
        .example(
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default"},"spec":{
                "selector":{"matchLabels":{"app":"web"}},
                "template":{"metadata":{"labels":{"app":"web"}},
                    "spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let [containers, images] = template_columns();
    vec![
        name(),
        Column::new("Ready", "string", "Pods that are ready, of those wanted.", |object, _| {
            let of = |path: &[&str]| object.int(path).unwrap_or(0);
            format!("{}/{}", of(&["status", "readyReplicas"]), of(&["spec", "replicas"])).into()
        }),
        Column::new("Up-to-date", "string", "Pods of the current template.", |object, _| {
            number(object, &["status", "updatedReplicas"])
        }),
        Column::new("Available", "string", "Pods that have been ready for long enough.", |object, _| {
            number(object, &["status", "availableReplicas"])
        }),
        age(),
        containers,
        images,
        selector_column(|object, _| plain_selector(object).into()),
    ]
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::absent(spec, "replicas", 1);
    if let Some(strategy) = fill::made(spec, "strategy") {
        fill::zero(strategy, "type", "RollingUpdate");
        if strategy.text(&["type"]) == "RollingUpdate"
            && let Some(rolling) = fill::made(strategy, "rollingUpdate")
        {
            fill::absent(rolling, "maxUnavailable", "25%");
            fill::absent(rolling, "maxSurge", "25%");
        }
    }
    fill::absent(spec, "revisionHistoryLimit", 10);
    fill::absent(spec, "progressDeadlineSeconds", 600);
    if let Some(template) = fill::made(spec, "template") {
        defaults::template(template);
    }
}

fn prepare_create(object: &mut Value) {
    drop_status(object);
    prepare_template(object);
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    keep_other_half(new, old, what);
    if what == UpdateOf::Status {
        // Reporting a status changes no labels.
        restore_metadata(new, old, &["labels"]);
    }
    prepare_template(new);
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_spec(&At::root(object).field("spec"), &mut faults);
    faults
}

fn check_spec(spec: &At, faults: &mut Faults) {
    non_negative(&spec.field("replicas"), faults);
    template::selector(&spec.field("selector"), "deployment", faults);
    template::check_selected(spec, faults);
    strategy(&spec.field("strategy"), faults);
    non_negative(&spec.field("minReadySeconds"), faults);
    non_negative(&spec.field("revisionHistoryLimit"), faults);
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.is_set() {
        non_negative(&deadline, faults);
        if deadline.number() <= spec.field("minReadySeconds").number() {
            faults.push(deadline.invalid("must be greater than minReadySeconds"));
        }
    }
}

fn strategy(at: &At, faults: &mut Faults) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "Recreate" if rolling.is_set() => {
            faults.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_set() => rolling_update(&rolling, faults),
        "RollingUpdate" => faults.push(rolling.required("this should be defaulted and never be nil")),
        _ => faults.push(at.unsupported(&["Recreate", "RollingUpdate"])),
    }
}

fn rolling_update(at: &At, faults: &mut Faults) {
    let (unavailable, surge) = (at.field("maxUnavailable"), at.field("maxSurge"));
    percent::check(&unavailable, faults);
    percent::check(&surge, faults);
    if percent::is_zero(&unavailable) && percent::is_zero(&surge) {
        faults.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
    percent::at_most_whole(&unavailable, faults);
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        check_status(&root.field("status"), &mut faults);
        collisions(&root.field("status"), &old_root.field("status"), &mut faults);
    } else {
        let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
        check_spec(&spec, &mut faults);
        immutable(&spec.field("selector"), &old_spec.field("selector"), &mut faults);
    }
    faults
}

fn check_status(status: &At, faults: &mut Faults) {
    counters(status, COUNTERS, &["updatedReplicas", "readyReplicas", "availableReplicas"], faults);
    available_is_ready(status, "readyReplicas", faults);
}

fn health(object: &Value) -> Converged {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    if let Some(stuck) = condition(object, "Progressing").filter(|c| c.text(&["reason"]) == "ProgressDeadlineExceeded")
    {
        return Converged::Failed(stuck.text(&["message"]).to_owned());
    }
    if let Some(failed) = condition(object, "ReplicaFailure").filter(|_| is_true(object, "ReplicaFailure")) {
        return Converged::Progressing(failed.text(&["message"]).to_owned());
    }
    let of = |field: &str| object.int(&["status", field]).unwrap_or(0);
    let wanted = object.int(&["spec", "replicas"]).unwrap_or(1);
    if of("updatedReplicas") >= wanted && of("replicas") > of("updatedReplicas") {
        let left = of("replicas").saturating_sub(of("updatedReplicas"));
        return Converged::Progressing(format!("{left} old replicas are left"));
    }
    progress(&[
        (of("updatedReplicas"), wanted, "replicas are updated"),
        (of("availableReplicas"), of("updatedReplicas"), "updated replicas are available"),
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

    fn texts(faults: &[FieldError]) -> Vec<String> {
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults() {
        let object = example();
        let spec = &object["spec"];
        assert_eq!(spec["replicas"], 1);
        let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
        assert_eq!(spec["strategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        assert_eq!((&spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]), (&json!(10), &json!(600)));
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
        let mut again = object.clone();
        default(&mut again);
        assert_eq!(again, object);
    }

    #[test]
    fn checks_read_like_upstream() {
        let check = |change: fn(&mut Value), expected: &[&str]| {
            let mut object = example();
            change(&mut object["spec"]);
            assert_eq!(texts(&validate(&object)), expected);
        };
        check(|_| {}, &[]);
        check(
            |spec| spec["replicas"] = json!(-1),
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        );
        check(
            |spec| spec["selector"] = json!({}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
        check(
            |spec| spec["selector"] = json!({"matchLabels": {"app": "other"}}),
            &["spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template \
               `labels`"],
        );
        check(
            |spec| spec["template"]["spec"]["restartPolicy"] = json!("Never"),
            &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
        );
        check(
            |spec| spec["strategy"]["type"] = json!("Recreate"),
            &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        );
        check(
            |spec| spec["strategy"]["rollingUpdate"] = json!({"maxUnavailable": 0, "maxSurge": "0%"}),
            &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        );
        check(
            |spec| spec["strategy"]["rollingUpdate"] = json!({"maxUnavailable": "2Percent", "maxSurge": 1}),
            &[
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"2Percent\": a valid percent string must be \
               a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is \
               '[0-9]+%')",
            ],
        );
        check(
            |spec| spec["strategy"]["rollingUpdate"] = json!({"maxUnavailable": "110%", "maxSurge": 1}),
            &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"110%\": must not be greater than 100%"],
        );
        check(
            |spec| spec["minReadySeconds"] = json!(600),
            &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        );
        check(
            |spec| spec["template"]["spec"]["containers"] = json!([]),
            &["spec.template.spec.containers: Required value"],
        );
    }

    #[test]
    fn the_selector_stays() {
        let old = example();
        let mut new = old.clone();
        new["spec"]["selector"]["matchLabels"]["tier"] = json!("front");
        new["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front");
        assert_eq!(
            texts(&validate_update(&new, &old, UpdateOf::Main)),
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\",\"tier\":\"front\"}}: field is immutable"
            ]
        );
    }

    #[test]
    fn statuses() {
        let check = |status: Value, expected: &[&str]| {
            let (old, mut new) = (json!({"status": {"collisionCount": 2}}), example());
            new["status"] = status;
            assert_eq!(texts(&validate_update(&new, &old, UpdateOf::Status)), expected);
        };
        check(json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "collisionCount": 2}), &[]);
        check(
            json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}),
            &[
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ],
        );
    }

    #[test]
    fn convergence() {
        let check = |status: Value, expected: Converged| {
            let object = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
            assert_eq!(health(&object), expected);
        };
        let progressing = |text: &str| Converged::Progressing(text.to_owned());
        let full = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        check(full.clone(), Converged::Yes);
        check(json!({"observedGeneration": 1}), progressing("waiting for the change to be observed"));
        check(json!({"observedGeneration": 2, "updatedReplicas": 1}), progressing("1 of 3 replicas are updated"));
        check(
            json!({"observedGeneration": 2, "replicas": 4, "updatedReplicas": 3}),
            progressing("1 old replicas are left"),
        );
        check(
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 2}),
            progressing("2 of 3 updated replicas are available"),
        );
        let mut stuck = full;
        stuck["conditions"] =
            json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]);
        check(stuck, Converged::Failed("timed out".to_owned()));
    }
}
