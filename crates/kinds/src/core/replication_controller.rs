//! ReplicationControllers: the forerunner of ReplicaSets.

use meta::labels::Selector;
use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::pod::{defaults, template, warnings};
use crate::apps::replica_set::{check_status, health, prepare_create, prepare_update, replica_columns};
use crate::check::{At, Faults, non_negative};
use crate::column::{label_text, number};
use crate::workload::{selector_column, template_columns};
use crate::{Column, KindDef, SelectorAt, UpdateOf, fill};

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "ReplicationController", "replicationcontrollers")
        .short("rc")
        .category("all")
        .schema("io.k8s.api.core.v1.ReplicationController")
        .counts_generation()
        .with_status()
        .with_scale("spec.replicas", "status.replicas", SelectorAt::Map("spec.selector".into()))
        .columns(columns())
        .selectable_by("status.replicas", |object, _| number(object, &["status", "replicas"]).to_string())
        .orphans_by_default()
        .health(health)
        .defaults(default)
        .prepares_create(prepare_create)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .warns(|new, old| warnings::of_workload(new, old, true))
        .example(
            r#"{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"web","namespace":"default"},"spec":{
                "template":{"metadata":{"labels":{"app":"web"}},
                    "spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}}}"#,
        )
}

fn columns() -> Vec<Column> {
    let mut columns = replica_columns();
    columns.extend(template_columns());
    columns.push(selector_column(|object, _| label_text(object.map(&["spec", "selector"])).into()));
    columns
}

/// Selector and labels follow from the template where they are not given.
fn default(object: &mut Value) {
    let Some(spec) = fill::made(object, "spec") else { return };
    fill::absent(spec, "replicas", 1);
    if let Some(template) = fill::child(spec, "template") {
        defaults::template(template);
    }
    let Some(labels) = object.map(&["spec", "template", "metadata", "labels"]).cloned() else { return };
    for path in [["spec", "selector"], ["metadata", "labels"]] {
        if object.map(&path).is_none_or(serde_json::Map::is_empty) {
            object.put(&path, labels.clone());
        }
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    check_spec(&At::root(object).field("spec"), &mut faults);
    faults
}

fn check_spec(spec: &At, faults: &mut Faults) {
    let (selector, replicas, template) = (spec.field("selector"), spec.field("replicas"), spec.field("template"));
    non_negative(&spec.field("minReadySeconds"), faults);
    let parsed = selector.value.as_object().map(Selector::from_map).unwrap_or_default();
    if parsed.is_everything() {
        faults.push(selector.required(""));
    }
    if replicas.is_set() {
        non_negative(&replicas, faults)
    } else {
        faults.push(replicas.required(""))
    }
    if !template.is_set() {
        return faults.push(template.required(""));
    }
    template::matches(&template, &parsed, faults);
    template::check(&template, faults);
    template::runs_for_ever(&template, "ReplicationController", faults);
}

fn validate_update(new: &Value, _: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what != UpdateOf::Status {
        return validate(new);
    }
    let mut faults = Faults::new();
    check_status(&At::root(new).field("status"), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn selector_and_labels_follow_from_the_template() {
        let mut object: Value = serde_json::from_str(def().example).expect("example is JSON");
        default(&mut object);
        assert_eq!(object["spec"]["selector"], json!({"app": "web"}));
        assert_eq!(object["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(validate(&object), []);
    }

    #[test]
    fn checks_read_like_upstream() {
        let mut object = json!({"spec": {"selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "c"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "OnFailure"}}}});
        default(&mut object);
        let faults: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            [
                "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
            ]
        );
    }
}
