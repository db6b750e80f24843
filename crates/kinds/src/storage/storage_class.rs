//! StorageClass: how volumes are made on demand.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::{GROUP, check_parameters};
use crate::check::{At, Faults, immutable, named, one_of, optional_one_of, same};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const DEFAULT_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
const EXAMPLE: &str = r#"{"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
    "provisioner": "disk.example.com", "parameters": {"kind": "ssd"}, "allowVolumeExpansion": true}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "StorageClass", "storageclasses")
        .cluster_scoped()
        .short("sc")
        .schema("io.k8s.api.storage.v1.StorageClass")
        .columns(columns())
        .apply_order(apply_order::CLASS)
        .defaults(default)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    let mut name = Column::new("Name", "string", "Name of the object.", |class, _| shown_name(class).into());
    name.format = "name".into();
    vec![
        name,
        Column::new("Provisioner", "string", "Who makes the volumes.", |class, _| class.text(&["provisioner"]).into()),
        Column::new("ReclaimPolicy", "string", "What happens to a volume when its claim goes.", |class, _| {
            class.text(&["reclaimPolicy"]).into()
        }),
        Column::new("VolumeBindingMode", "string", "When volumes are made.", |class, _| {
            class.text(&["volumeBindingMode"]).into()
        }),
        Column::new("AllowVolumeExpansion", "boolean", "Whether volumes can grow.", |class, _| {
            class.flag(&["allowVolumeExpansion"]).into()
        }),
        column::age(),
    ]
}

/// Whether claims without a class get this one.
pub fn is_default(class: &Value) -> bool {
    [DEFAULT, DEFAULT_BETA].iter().any(|key| class.annotation(key) == Some("true"))
}

fn shown_name(class: &Value) -> String {
    if is_default(class) { format!("{} (default)", class.name()) } else { class.name().to_owned() }
}

fn default(class: &mut Value) {
    fill::absent(class, "reclaimPolicy", "Delete");
    fill::absent(class, "volumeBindingMode", "Immediate");
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    let provisioner = root.field("provisioner");
    if provisioner.text().is_empty() {
        faults.push(provisioner.required(""));
    } else {
        named(&provisioner, |text| name::qualified_name(&text.to_lowercase()), &mut faults);
    }
    check_parameters(&root.field("parameters"), true, &mut faults);
    optional_one_of(&root.field("reclaimPolicy"), &["Delete", "Retain"], &mut faults);
    one_of(&root.field("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"], &mut faults);
    root.field("allowedTopologies").each().for_each(|term| check_topology(&term, &mut faults));
    faults
}

fn check_topology(term: &At, faults: &mut Faults) {
    let mut keys = BTreeSet::new();
    for requirement in term.field("matchLabelExpressions").each() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        named(&key, name::qualified_name, faults);
        if !keys.insert(key.text()) {
            faults.push(key.duplicate());
        }
        if values.items().is_empty() {
            faults.push(values.required(""));
        }
        let mut seen = BTreeSet::new();
        for value in values.each() {
            named(&value, name::label_value, faults);
            if !seen.insert(value.text()) {
                faults.push(value.duplicate());
            }
        }
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if !same(root.field(field).value, old_root.field(field).value) {
            faults.push(root.field(field).forbidden(format!("updates to {field} are forbidden.")));
        }
    }
    immutable(&root.field("volumeBindingMode"), &old_root.field("volumeBindingMode"), &mut faults);
    root.field("allowedTopologies").each().for_each(|term| check_topology(&term, &mut faults));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_stays() {
        let mut old: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        default(&mut old);
        let mut new = old.clone();
        new["provisioner"] = json!("other");
        new["volumeBindingMode"] = json!("WaitForFirstConsumer");
        new["allowVolumeExpansion"] = json!(false);
        let texts: Vec<String> = validate_update(&new, &old, UpdateOf::Main).iter().map(ToString::to_string).collect();
        let expected = [
            "provisioner: Forbidden: updates to provisioner are forbidden.",
            "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn the_default_one_is_marked() {
        let class = json!({"metadata": {"name": "a", "annotations": {DEFAULT: "true"}}});
        assert_eq!(shown_name(&class), "a (default)");
    }
}
