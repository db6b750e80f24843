//! DaemonSets: one pod on every node that fits.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::percent;
use super::replica_set::{prepare_create as prepare_workload, prepare_update as prepare_workload_update};
use crate::check::{At, Faults, immutable, non_negative, non_negative_fields, same};
use crate::column::{age, label_text, name, number};
use crate::core::pod::{defaults, template, warnings};
use crate::workload::{collisions, number_column, progress, unobserved, wide_columns};
use crate::{Column, Converged, KindDef, UpdateOf, fill};

/// Where the generation of the template stands since the field left the API.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const COUNTERS: &[&str] = &[
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("apps", "v1", "DaemonSet", "daemonsets")
        .short("ds")
        .category("all")
        .schema("io.k8s.api.apps.v1.DaemonSet")
        .counts_generation()
        .with_status()
        .columns(columns())
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(|new, old| warnings::of_workload(new, old, false))
        .example(
            r#"{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"agent","namespace":"default"},"spec":{
                "selector":{"matchLabels":{"app":"agent"}},
                "template":{"metadata":{"labels":{"app":"agent"}},
                    "spec":{"containers":[{"name":"agent","image":"agent:1"}]}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let status = number_column;
    let mut columns = vec![
        name(),
        status("Desired", "Nodes that want a pod.", |o, _| number(o, &["status", "desiredNumberScheduled"])),
        status("Current", "Nodes that have one.", |o, _| number(o, &["status", "currentNumberScheduled"])),
        status("Ready", "Nodes whose pod is ready.", |o, _| number(o, &["status", "numberReady"])),
        status("Up-to-date", "Nodes whose pod is of the current template.", |o, _| {
            number(o, &["status", "updatedNumberScheduled"])
        }),
        status("Available", "Nodes whose pod has been ready for long enough.", |o, _| {
            number(o, &["status", "numberAvailable"])
        }),
        Column::new("Node Selector", "string", "Which nodes want a pod.", |o, _| {
            label_text(o.map(&["spec", "template", "spec", "nodeSelector"])).into()
        }),
        age(),
    ];
    columns.extend(wide_columns());
    columns
}

fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    if let Some(strategy) = fill::made(spec, "updateStrategy") {
        fill::zero(strategy, "type", "RollingUpdate");
        if strategy.text(&["type"]) == "RollingUpdate"
            && let Some(rolling) = fill::made(strategy, "rollingUpdate")
        {
            fill::absent(rolling, "maxUnavailable", 1);
            fill::absent(rolling, "maxSurge", 0);
        }
    }
    fill::absent(spec, "revisionHistoryLimit", 10);
    if let Some(template) = fill::made(spec, "template") {
        defaults::template(template);
    }
}

fn prepare_create(object: &mut Value) {
    prepare_workload(object);
    set_template_generation(object, template_generation(object).max(1));
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    prepare_workload_update(new, old, what);
    if what == UpdateOf::Main {
        let changed = !same(&new["spec"]["template"], &old["spec"]["template"]);
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    }
}

fn template_generation(object: &Value) -> i64 {
    object.annotation(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.put(&["metadata", "annotations", TEMPLATE_GENERATION], generation.to_string());
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_spec(&At::root(object).field("spec"), &mut faults);
    faults
}

fn check_spec(spec: &At, faults: &mut Faults) {
    let (selector, pods) = (spec.field("selector"), spec.field("template"));
    faults.extend(Selector::validate(selector.value, &selector.path));
    let labels = pods.value.map(&["metadata", "labels"]);
    if Selector::from_label_selector(Some(selector.value)).is_ok_and(|parsed| !parsed.matches(&labels)) {
        let metadata = pods.field("metadata");
        faults.push(metadata.field("labels").invalid(template::MISMATCH));
    }
    if selector.is_set() && template::is_empty_selector(selector.value) {
        faults.push(selector.invalid("empty selector is invalid for daemonset"));
    }
    template::check(&pods, faults);
    template::runs_for_ever(&pods, "DaemonSet", faults);
    non_negative(&spec.field("minReadySeconds"), faults);
    strategy(&spec.field("updateStrategy"), faults);
    non_negative(&spec.field("revisionHistoryLimit"), faults);
}

fn strategy(at: &At, faults: &mut Faults) {
    let rolling = at.field("rollingUpdate");
    match at.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_set() => rolling_update(&rolling, faults),
        "RollingUpdate" => faults.push(rolling.required("")),
        _ => faults.push(at.unsupported(&["RollingUpdate", "OnDelete"])),
    }
}

fn rolling_update(at: &At, faults: &mut Faults) {
    let (unavailable, surge) = (at.field("maxUnavailable"), at.field("maxSurge"));
    for amount in [&unavailable, &surge] {
        percent::check(amount, faults);
    }
    for amount in [&unavailable, &surge] {
        percent::at_most_whole(amount, faults);
    }
    match (percent::is_zero(&unavailable), percent::is_zero(&surge)) {
        (false, false) => faults.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (true, true) => faults.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    if what == UpdateOf::Status {
        non_negative_fields(&root.field("status"), COUNTERS, &mut faults);
        collisions(&root.field("status"), &old_root.field("status"), &mut faults);
    } else {
        let (spec, old_spec) = (root.field("spec"), old_root.field("spec"));
        immutable(&spec.field("selector"), &old_spec.field("selector"), &mut faults);
        check_spec(&spec, &mut faults);
    }
    faults
}

fn health(object: &Value) -> Converged {
    if let Some(waiting) = unobserved(object) {
        return waiting;
    }
    let of = |field: &str| object.int(&["status", field]).unwrap_or(0);
    let wanted = of("desiredNumberScheduled");
    let scheduled = (of("currentNumberScheduled"), wanted, "nodes have a pod");
    let available = (of("numberAvailable"), wanted, "pods are available");
    if object.text(&["spec", "updateStrategy", "type"]) == "OnDelete" {
        return progress(&[scheduled, available]);
    }
    progress(&[scheduled, (of("updatedNumberScheduled"), wanted, "pods are updated"), available])
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
    fn defaults() {
        let object = example();
        let rolling = json!({"maxUnavailable": 1, "maxSurge": 0});
        assert_eq!(object["spec"]["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": rolling}));
        assert_eq!(validate(&object), []);
    }

    #[test]
    fn checks_read_like_upstream() {
        let check = |change: fn(&mut Value), expected: &[&str]| {
            let mut object = example();
            change(&mut object["spec"]);
            assert_eq!(validate(&object).iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(
            |spec| spec["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 1, "maxSurge": "10%"}),
            &[
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"10%\": may not be set when maxUnavailable \
               is non-zero",
            ],
        );
        check(
            |spec| spec["updateStrategy"]["rollingUpdate"] = json!({"maxUnavailable": 0, "maxSurge": 0}),
            &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        );
        check(
            |spec| spec["selector"] = json!({}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        );
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        let mut old = example();
        prepare_create(&mut old);
        assert_eq!(template_generation(&old), 1);
        let mut new = old.clone();
        new["metadata"]["annotations"] = json!({});
        prepare_update(&mut new, &old, UpdateOf::Main);
        assert_eq!(template_generation(&new), 1);
        new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("agent:2");
        prepare_update(&mut new, &old, UpdateOf::Main);
        assert_eq!(template_generation(&new), 2);
    }

    #[test]
    fn convergence() {
        let check = |status: Value, expected: Converged| {
            let object = json!({"metadata": {"generation": 1}, "status": status});
            assert_eq!(health(&object), expected);
        };
        let status = |updated: i64| {
            json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
                "updatedNumberScheduled": updated, "numberAvailable": 2})
        };
        check(status(2), Converged::Yes);
        check(status(1), Converged::Progressing("1 of 2 pods are updated".to_owned()));
    }
}
