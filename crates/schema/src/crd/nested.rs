//! Junctors: `allOf`, `anyOf`, `oneOf` and `not` hold value checks only, over what the structure names.

use meta::{FieldError, FieldPath};
use serde_json::Value;

use super::props::{child, children, flag, given, is_int_or_string_any_of, list, property, text};
use crate::validate::pattern;

/// Checks the value checks of a schema, nested ones included. The two exceptions are for int-or-string.
pub(super) fn values(
    props: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let any_of = path.field("anyOf");
    for (index, schema) in list(props, "anyOf").iter().enumerate().filter(|_| !skip_any_of) {
        inside(schema, false, &any_of.index(index), errors);
    }
    let all_of = path.field("allOf");
    for (index, schema) in list(props, "allOf").iter().enumerate() {
        let skips = skip_first_all_of && index == 0 && is_int_or_string_any_of(schema);
        inside(schema, skips, &all_of.index(index), errors);
    }
    let one_of = path.field("oneOf");
    for (index, schema) in list(props, "oneOf").iter().enumerate() {
        inside(schema, false, &one_of.index(index), errors);
    }
    if let Some(schema) = child(props, "not") {
        inside(schema, false, &path.field("not"), errors);
    }
    let expression = text(props, "pattern");
    if let Err(reason) = pattern::compile(expression) {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(FieldError::invalid(path.field("pattern"), expression, detail));
    }
}

/// A schema inside a junctor.
fn inside(props: &Value, skip_any_of: bool, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    values(props, skip_any_of, false, path, errors);
    if let Some(items) = child(props, "items") {
        inside(items, false, &path.field("items"), errors);
    }
    let properties = path.field("properties");
    for (name, schema) in children(props, "properties") {
        inside(schema, false, &properties.key(name), errors);
    }
    for (key, detail) in forbidden(props) {
        errors.push(FieldError::forbidden(path.field(key), detail));
    }
    if property(props, "metadata").is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(properties.key("metadata"), detail));
    }
}

const EMPTY: &str = "must be empty to be structural";
const UNDEFINED: &str = "must be undefined to be structural";
const FALSE: &str = "must be false to be structural";

/// What a schema inside a junctor says that it may not.
fn forbidden(props: &Value) -> impl Iterator<Item = (&'static str, &'static str)> {
    let checks = [
        ("type", EMPTY, !text(props, "type").is_empty()),
        ("additionalProperties", UNDEFINED, props.get("additionalProperties").is_some_and(|v| v != false)),
        ("default", UNDEFINED, given(props, "default").is_some()),
        ("title", EMPTY, !text(props, "title").is_empty()),
        ("description", EMPTY, !text(props, "description").is_empty()),
        ("nullable", FALSE, flag(props, "nullable")),
        ("x-kubernetes-preserve-unknown-fields", FALSE, flag(props, "x-kubernetes-preserve-unknown-fields")),
        ("x-kubernetes-embedded-resource", FALSE, flag(props, "x-kubernetes-embedded-resource")),
        ("x-kubernetes-int-or-string", FALSE, flag(props, "x-kubernetes-int-or-string")),
        ("x-kubernetes-list-map-keys", EMPTY, !list(props, "x-kubernetes-list-map-keys").is_empty()),
        ("x-kubernetes-list-type", UNDEFINED, given(props, "x-kubernetes-list-type").is_some()),
        ("x-kubernetes-map-type", UNDEFINED, given(props, "x-kubernetes-map-type").is_some()),
        ("x-kubernetes-validations", EMPTY, !list(props, "x-kubernetes-validations").is_empty()),
    ];
    checks.into_iter().filter(|(_, _, wrong)| *wrong).map(|(key, detail, _)| (key, detail))
}

/// What junctors of `value` mention must be there in the structure `props`.
pub(super) fn complete(
    value: &Value,
    props: Option<&Value>,
    at: &FieldPath<'_>,
    from: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(schema) = child(value, "not") {
        complete_inside(schema, props, at, &from.field("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let from = from.field(key);
        for (index, schema) in list(value, key).iter().enumerate() {
            complete_inside(schema, props, at, &from.index(index), errors);
        }
    }
}

fn complete_inside(
    value: &Value,
    props: Option<&Value>,
    at: &FieldPath<'_>,
    from: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(known) = props else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    complete(value, props, at, from, errors);
    if let Some(items) = child(value, "items") {
        complete_inside(items, child(known, "items"), &at.field("items"), &from.field("items"), errors);
    }
    let (at, from) = (at.field("properties"), from.field("properties"));
    for (name, schema) in children(value, "properties") {
        complete_inside(schema, property(known, name), &at.key(name), &from.key(name), errors);
    }
}
