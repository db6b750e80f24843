//! What Kubernetes forbids or demands of OpenAPI schemas beyond their being structural.

use meta::{FieldError, FieldPath};
use serde_json::Value;

use super::props::{child, children, flag, given, list, property, text, texts};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What depends on where a schema stands.
#[derive(Clone, Default)]
struct Context {
    is_root: bool,
    inside_metadata: bool,
    /// Defaults may not be set, for this reason.
    no_defaults: Option<String>,
}

/// Adds all faults of a definition's schema.
pub(super) fn check(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let context = Context { is_root: true, ..Context::default() };
    walk(props, path, &context, errors);
}

fn walk(props: &Value, path: &FieldPath<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    standard(props, path, context, errors);
    if flag(props, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.field("uniqueItems"), detail));
    }
    additional_properties(props, path, context, errors);
    properties(props, path, context, errors);
    let below = Context { is_root: false, ..context.clone() };
    if let Some(schema) = child(props, "not") {
        walk(schema, &path.field("not"), &below, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        let at = path.field(key);
        for (index, schema) in list(props, key).iter().enumerate() {
            walk(schema, &at.index(index), &below, errors);
        }
    }
    if let Some(items) = child(props, "items") {
        walk(items, &path.field("items"), &below, errors);
    }
    map_type(props, path, errors);
    list_type(props, path, errors);
    map_keys(props, path, errors);
    set_and_map_items(props, path, errors);
    rules(props, path, errors);
}

/// Keywords that are not supported, or not here.
fn standard(props: &Value, path: &FieldPath<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    let kind = text(props, "type");
    let mut forbid = |key: &str, detail: String| errors.push(FieldError::forbidden(path.field(key), detail));
    if given(props, "default").is_some()
        && let Some(reason) = &context.no_defaults
    {
        forbid("default", format!("must not be set {reason}"));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if given(props, key).is_some() {
            forbid(key, format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative".to_owned());
    }
    if props.get("items").is_some_and(Value::is_array) {
        forbid("items", "items must be a schema object and not an array".to_owned());
    }
    if context.inside_metadata && flag(props, "x-kubernetes-embedded-resource") {
        forbid("x-kubernetes-embedded-resource", "must not be used inside of resource meta".to_owned());
    }
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.field("type"), kind, &TYPES));
    }
    if given(props, "x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
}

fn additional_properties(props: &Value, path: &FieldPath<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    let Some(additional) = given(props, "additionalProperties") else { return };
    let at = path.field("additionalProperties");
    if children(props, "properties").next().is_some() && additional != &Value::Bool(true) {
        errors.push(FieldError::forbidden(at, "additionalProperties and properties are mutual exclusive"));
    }
    if additional.is_object() {
        let mut below = Context { is_root: false, ..context.clone() };
        if context.inside_metadata {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        walk(additional, &at, &below, errors);
    }
}

fn properties(props: &Value, path: &FieldPath<'_>, context: &Context, errors: &mut Vec<FieldError>) {
    let at = path.field("properties");
    let is_resource = context.is_root || flag(props, "x-kubernetes-embedded-resource");
    for (name, schema) in children(props, "properties") {
        let mut below = Context { is_root: false, ..context.clone() };
        if is_resource && ["metadata", "kind", "apiVersion"].contains(&name) {
            below.inside_metadata = true;
            if context.is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        walk(schema, &at.key(name), &below, errors);
    }
}

/// An extension that needs a type: required when there is none, invalid when it is another.
fn needs_type(props: &Value, wanted: &str, path: &FieldPath<'_>, detail: &str) -> Option<FieldError> {
    match text(props, "type") {
        "" => Some(FieldError::required(path.field("type"), detail)),
        kind if kind != wanted => Some(FieldError::invalid(path.field("type"), kind, detail)),
        _ => None,
    }
}

fn map_type(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(kind) = given(props, "x-kubernetes-map-type").and_then(Value::as_str) else { return };
    errors.extend(needs_type(props, "object", path, "must be object if x-kubernetes-map-type is specified"));
    if !["atomic", "granular"].contains(&kind) {
        errors.push(FieldError::not_supported(path.field("x-kubernetes-map-type"), kind, &["atomic", "granular"]));
    }
}

fn list_type(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("x-kubernetes-list-type");
    let kind = given(props, "x-kubernetes-list-type").and_then(Value::as_str);
    if let Some(kind) = kind {
        let wrong = needs_type(props, "array", path, "must be array if x-kubernetes-list-type is specified");
        if wrong.is_none() && kind == "set" {
            set_of_atoms(props, path, errors);
        }
        errors.extend(wrong);
        if !["atomic", "set", "map"].contains(&kind) {
            errors.push(FieldError::not_supported(at, kind, &["atomic", "set", "map"]));
        }
    }
    if !list(props, "x-kubernetes-list-map-keys").is_empty() && kind != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match kind {
            None => FieldError::required(at, detail),
            Some(kind) => FieldError::invalid(at, kind, detail),
        });
    }
}

fn set_of_atoms(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(items) = child(props, "items") else { return };
    let at = path.field("items");
    let given = |key: &str| given(items, key).cloned();
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = given("x-kubernetes-list-type");
    match text(items, "type") {
        "array" if list_type.as_ref().is_some_and(|kind| kind != "atomic") => {
            let bad = list_type.unwrap_or_default();
            errors.push(FieldError::invalid(at.field("x-kubernetes-list-type"), bad, detail));
        }
        "object" if given("x-kubernetes-map-type").is_none_or(|kind| kind != "atomic") => {
            let bad = list_type.unwrap_or_default();
            errors.push(FieldError::invalid(at.field("x-kubernetes-map-type"), bad, detail));
        }
        _ => {}
    }
}

fn map_keys(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if text(props, "x-kubernetes-list-type") != "map" {
        return;
    }
    let (at, items_at) = (path.field("x-kubernetes-list-map-keys"), path.field("items"));
    let keys = texts(props, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = given(props, "items") else {
        errors.push(FieldError::required(items_at, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_at.field("type"), kind, detail));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match property(items, key).map(|schema| text(schema, "type")) {
            Some("array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(items_at.field("properties").key(key).field("type"), kind, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::invalid(at, keys.clone(), "entries must all be names of item properties")),
        }
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(at, keys.clone(), "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps, and the keys of the latter, are always there.
fn set_and_map_items(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(props, "x-kubernetes-list-type");
    let Some(items) = child(props, "items").filter(|_| ["set", "map"].contains(&kind)) else { return };
    let at = path.field("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(FieldError::forbidden(at.field("nullable"), detail));
    }
    let required = texts(items, "required");
    let (properties, map) = (at.field("properties"), kind == "map");
    for key in texts(props, "x-kubernetes-list-map-keys").into_iter().filter(|_| map) {
        let Some(schema) = property(items, key) else { continue };
        if !required.contains(&key) && given(schema, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(properties.key(key).field("default"), detail));
        }
        if flag(schema, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(properties.key(key).field("nullable"), detail));
        }
    }
}

/// The form of `x-kubernetes-validations`; what they mean is checked where there is CEL.
fn rules(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("x-kubernetes-validations");
    for (index, rule) in list(props, "x-kubernetes-validations").iter().enumerate() {
        rule_texts(rule, &at.index(index), errors);
    }
}

fn rule_texts(rule: &Value, at: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let is_blank = |key: &str| !text(rule, key).is_empty() && text(rule, key).trim().is_empty();
    let has_break = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message").trim());
    let message_at = at.field("message");
    if expression.is_empty() {
        errors.push(FieldError::required(at.field("rule"), "rule is not specified"));
    } else if is_blank("message") {
        errors.push(FieldError::invalid(message_at, text(rule, "message"), "must be non-empty if specified"));
    } else if has_break(message) {
        errors.push(FieldError::invalid(message_at, text(rule, "message"), "must not contain line breaks"));
    } else if has_break(expression) && message.is_empty() {
        errors.push(FieldError::required(message_at, "message must be specified if rule contains line breaks"));
    }
    if is_blank("messageExpression") {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at.field("messageExpression"), detail));
    }
    let reason = given(rule, "reason").and_then(Value::as_str);
    if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(at.field("reason"), reason, &REASONS));
    }
    let (field_path, field_path_at) = (text(rule, "fieldPath"), at.field("fieldPath"));
    if is_blank("fieldPath") {
        errors.push(FieldError::invalid(field_path_at, field_path, "must be non-empty if specified"));
    }
    if has_break(field_path) {
        errors.push(FieldError::invalid(field_path_at, field_path, "must not contain line breaks"));
    }
}
