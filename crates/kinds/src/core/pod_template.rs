//! PodTemplates: a pod's description kept for later.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::pod::{defaults, template, warnings};
use crate::check::{At, Faults, same};
use crate::column::{joined, label_text, name};
use crate::{Column, KindDef, fill};

/// The declaration.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "PodTemplate", "podtemplates")
        .schema("io.k8s.api.core.v1.PodTemplate")
        .counts_generation()
        .columns(columns())
        .defaults(default)
        .prepares_create(prepare)
        .prepares_update(|new, _, _| prepare(new))
        .validates(validate)
        .validates_update(|new, _, _| validate(new))
        .warns(warn)
        .example(
            r#"{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"web","namespace":"default"},
                "template":{"metadata":{"labels":{"app":"web"}},
                    "spec":{"containers":[{"name":"web","image":"nginx:1.27"}]}}}"#,
        )
}

fn columns() -> Vec<Column> {
    const CONTAINERS: &[&str] = &["template", "spec", "containers"];
    vec![
        name(),
        Column::new("Containers", "string", "Names of each container in the template.", |object, _| {
            joined(object.items(CONTAINERS), "name")
        }),
        Column::new("Images", "string", "Images referenced by each container in the template.", |object, _| {
            joined(object.items(CONTAINERS), "image")
        }),
        Column::new("Pod Labels", "string", "The labels for the pod template.", |object, _| {
            label_text(object.map(&["template", "metadata", "labels"])).into()
        }),
    ]
}

fn default(object: &mut Value) {
    if let Some(template) = fill::made(object, "template") {
        defaults::template(template);
    }
}

fn prepare(object: &mut Value) {
    if let Some(template) = fill::child(object, "template") {
        super::pod::drop_disabled(template);
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    template::check(&At::root(object).field("template"), &mut faults);
    faults
}

fn warn(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none_or(|old| !same(&new["template"], &old["template"])) {
        warnings::of_template(&At::root(new).field("template"), &mut warnings);
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_stand_in_the_template() {
        let mut object: Value = serde_json::from_str(def().example).expect("example is JSON");
        default(&mut object);
        assert_eq!(validate(&object), []);
        object["template"]["metadata"]["labels"]["-bad"] = "x".into();
        object["template"]["spec"]["containers"][0]["name"] = "".into();
        let faults: Vec<String> = validate(&object).iter().map(|fault| fault.field.clone()).collect();
        assert_eq!(faults, ["template.labels", "template.spec.containers[0].name"]);
    }
}
