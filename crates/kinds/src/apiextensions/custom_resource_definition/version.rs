//! The versions of a custom kind: schema, subresources, columns, selectable fields.

use std::collections::BTreeSet;

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use crate::check::{At, Faults, one_of, supported_text};

/// Upstream's limits.
const WARNING_BYTES_MAX: usize = 256;
const SELECTABLE_MAX: usize = 8;
const TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn check_all(versions: &At, faults: &mut Faults) {
    versions.each().for_each(|version| check(&version, faults));
    let names = versions.items().iter().map(|version| version.text(&["name"]));
    if names.collect::<BTreeSet<_>>().len() < versions.items().len() {
        faults.push(versions.invalid("must contain unique version names"));
    }
    if versions.items().iter().filter(|version| version.flag(&["storage"])).count() != 1 {
        faults.push(versions.invalid("must have exactly one version marked as storage version"));
    }
}

fn check(version: &At, faults: &mut Faults) {
    let own = version.field("name");
    let broken = name::dns1035_label(own.text());
    if !broken.is_empty() {
        faults.push(own.invalid_as(own.text(), broken.join(",")));
    }
    check_warning(version, faults);
    check_schema(version, faults);
    check_scale(version, faults);
    version.field("additionalPrinterColumns").each().for_each(|column| check_column(&column, faults));
    check_selectable(&version.field("selectableFields"), faults);
}

fn check_warning(version: &At, faults: &mut Faults) {
    let warning = version.field("deprecationWarning");
    if !warning.is_set() {
        return;
    }
    if !version.field("deprecated").is_true() {
        faults.push(warning.invalid("can only be set for deprecated versions"));
    }
    if warning.text().is_empty() {
        faults.push(warning.invalid("must not be an empty string"));
    } else if warning.text().len() > WARNING_BYTES_MAX {
        faults.push(FieldError::too_long(warning.path, WARNING_BYTES_MAX));
    }
}

fn check_schema(version: &At, faults: &mut Faults) {
    let holder = version.field("schema");
    let declared = holder.field("openAPIV3Schema");
    if !declared.is_set() {
        faults.push(declared.required("schemas are required"));
        return;
    }
    faults.extend(schema::crd::structural(declared.value, &declared.path).err().into_iter().flatten());
}

fn check_scale(version: &At, faults: &mut Faults) {
    let subresources = version.field("subresources");
    let scale = subresources.field("scale");
    if !scale.is_set() {
        return;
    }
    for (field, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = scale.field(field);
        if path.text().is_empty() {
            faults.push(path.required(""));
        } else if is_simple_path(&path, faults) && !is_under(&path, root) {
            faults.push(path.invalid(format!("should be a json path under {root}")));
        }
    }
    let selector = scale.field("labelSelectorPath");
    let placed = is_under(&selector, ".spec") || is_under(&selector, ".status");
    if !selector.text().is_empty() && is_simple_path(&selector, faults) && !placed {
        faults.push(selector.invalid("should be a json path under either .status or .spec"));
    }
}

fn is_under(path: &At, root: &str) -> bool {
    path.text().strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

/// `.a.b.c`: field names only, no lists, no quotes.
fn is_simple_path(path: &At, faults: &mut Faults) -> bool {
    let Some(rest) = path.text().strip_prefix('.') else {
        faults.push(path.invalid("must be a simple json path starting with ."));
        return false;
    };
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    let sound = rest.split('.').all(plain);
    if !sound {
        faults.push(path.invalid("may only contain dot-separated field names"));
    }
    sound
}

fn check_column(column: &At, faults: &mut Faults) {
    let (own, path, format) = (column.field("name"), column.field("jsonPath"), column.field("format"));
    if own.text().is_empty() {
        faults.push(own.required(""));
    }
    one_of(&column.field("type"), TYPES, faults);
    if !format.text().is_empty() {
        supported_text(&format, FORMATS, faults);
    }
    if path.text().is_empty() {
        faults.push(path.required(""));
    } else if !path.text().starts_with('.') {
        faults.push(path.invalid("must be a simple json path starting with ."));
    }
}

fn check_selectable(list: &At, faults: &mut Faults) {
    let mut seen: Vec<&Value> = Vec::new();
    for item in list.each() {
        let path = item.field("jsonPath");
        if path.text().is_empty() {
            faults.push(path.required(""));
        } else if seen.contains(&path.value) {
            faults.push(path.duplicate());
        } else if is_simple_path(&path, faults) && is_under(&path, ".metadata") {
            faults.push(path.invalid("must not point to fields in metadata"));
        }
        seen.push(path.value);
    }
    if list.items().len() > SELECTABLE_MAX {
        faults.push(FieldError::too_many(list.path, list.items().len(), SELECTABLE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, example};
    use serde_json::{Value, json};

    fn check_with(field: &str, value: Value, expected: &[&str]) {
        let mut versions = example()["spec"]["versions"].clone();
        versions[0][field] = value;
        check(&["spec", "versions"], versions, expected);
    }

    #[test]
    fn versions() {
        check_with("served", json!(true), &[]);
        check_with("storage", json!(false), &["spec.versions: Invalid value: [{"]);
        check_with(
            "schema",
            Value::Null,
            &["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"],
        );
        check_with(
            "schema",
            json!({"openAPIV3Schema": {"type": "string"}}),
            &["spec.versions[0].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root"],
        );
        check_with(
            "deprecationWarning",
            json!("old"),
            &["spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for deprecated versions"],
        );
    }

    #[test]
    fn what_stands_beside_the_schema() {
        let scale =
            |spec: &str, status: &str| json!({"scale": {"specReplicasPath": spec, "statusReplicasPath": status}});
        check_with("subresources", scale(".spec.n", ".status.n"), &[]);
        check_with(
            "subresources",
            scale("spec.n", ".spec.n"),
            &[
                "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \"spec.n\": must be a simple",
                "spec.versions[0].subresources.scale.statusReplicasPath: Invalid value: \".spec.n\": should be a json path",
            ],
        );
        check_with(
            "additionalPrinterColumns",
            json!([{"name": "Length", "type": "int", "jsonPath": ".spec.length"}]),
            &["spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: \"int\""],
        );
        check_with(
            "selectableFields",
            json!([{"jsonPath": ".metadata.name"}, {"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}]),
            &[
                "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".metadata.name\": must not point",
                "spec.versions[0].selectableFields[2].jsonPath: Duplicate value: \".spec.a\"",
            ],
        );
    }
}
