//! What makes a schema structural: every value has a type, and junctors only narrow what the structure names.

use meta::{FieldError, FieldPath};
use serde_json::Value;

use super::nested;
use super::props::{child, children, flag, is_int_or_string_all_of, is_int_or_string_any_of, list, property, text};

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All faults of structure, sorted by their text.
pub(super) fn check(props: &Value, path: &FieldPath<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(props, Level::Root, path, &mut errors);
    nested::complete(props, Some(props), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The first feature of JSON Schema, anywhere, that a structural schema cannot express.
pub(super) fn unsupported(props: &Value) -> Option<String> {
    let refuse = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    for (key, name) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if !text(props, key).is_empty() {
            return refuse(name);
        }
    }
    for key in ["patternProperties", "dependencies", "definitions"] {
        if children(props, key).next().is_some() {
            return refuse(key);
        }
    }
    if props.get("additionalItems").is_some() {
        return refuse("additionalItems");
    }
    if props.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| list(props, key));
    let single = ["not", "items", "additionalProperties"].into_iter().filter_map(|key| child(props, key));
    let named = children(props, "properties").map(|(_, schema)| schema);
    lists.chain(single).chain(named).find_map(unsupported)
}

fn invariants(props: &Value, level: Level, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match child(props, "items") {
        Some(items) => invariants(items, Level::Item, &path.field("items"), errors),
        None if text(props, "type") == "array" => {
            errors.push(FieldError::required(path.field("items"), "must be specified"));
        }
        None => {}
    }
    let properties = path.field("properties");
    for (name, schema) in children(props, "properties") {
        invariants(schema, Level::Field, &properties.key(name), errors);
    }
    let additional = path.field("additionalProperties");
    if props.get("additionalProperties").is_some() && level == Level::Root {
        errors.push(FieldError::forbidden(additional, "must not be used at the root"));
    }
    if let Some(schema) = child(props, "additionalProperties") {
        invariants(schema, Level::Field, &additional, errors);
    }
    extensions(props, path, errors);
    nested::values(props, is_int_or_string_any_of(props), is_int_or_string_all_of(props), path, errors);
    types(props, level, path, errors);
    metadata(props, level, path, errors);
}

fn extensions(props: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !flag(props, "x-kubernetes-int-or-string") {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(props, key) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(path.field(key), true, detail));
        }
    }
}

fn types(props: &Value, level: Level, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (kind, type_path) = (text(props, "type"), path.field("type"));
    let is_embedded = flag(props, "x-kubernetes-embedded-resource");
    let is_open = flag(props, "x-kubernetes-int-or-string") || flag(props, "x-kubernetes-preserve-unknown-fields");
    if is_embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(type_path, detail),
            kind => FieldError::invalid(type_path, kind, detail),
        });
    } else if kind.is_empty() && !is_open {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(type_path, detail));
    }
    if is_embedded && props.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(path.field("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(type_path, kind, "must be object at the root"));
    }
    let is_closed = is_embedded && !flag(props, "x-kubernetes-preserve-unknown-fields");
    if is_closed && children(props, "properties").next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.field("properties"), detail));
    }
}

/// apiVersion, kind and metadata are what they are; of metadata only the names may be narrowed.
fn metadata(props: &Value, level: Level, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let properties = path.field("properties");
    let is_resource = level == Level::Root || flag(props, "x-kubernetes-embedded-resource");
    for name in ["kind", "apiVersion"].into_iter().filter(|_| is_resource) {
        let kind = property(props, name).map(|schema| text(schema, "type"));
        if let Some(kind) = kind.filter(|kind| *kind != "string") {
            errors.push(FieldError::invalid(properties.key(name).field("type"), kind, "must be string"));
        }
    }
    let Some(metadata) = property(props, "metadata") else { return };
    let at = properties.key("metadata");
    let kind = text(metadata, "type");
    if is_resource && kind != "object" {
        errors.push(FieldError::invalid(at.field("type"), kind, "must be object"));
    }
    if level == Level::Root && !narrows_names_only(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(at, detail));
    }
}

fn narrows_names_only(metadata: &Value) -> bool {
    metadata.as_object().is_some_and(|map| {
        map.iter().all(|(key, value)| match key.as_str() {
            "type" | "default" => true,
            "properties" => {
                let is_name = |name: &String| name == "name" || name == "generateName";
                value.as_object().is_some_and(|properties| properties.keys().all(is_name))
            }
            _ => false,
        })
    })
}
