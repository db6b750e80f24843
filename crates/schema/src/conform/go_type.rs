//! Names of Go types, for error sentences.

use serde_json::Value;

use crate::{IntFormat, Link, Schema, Shape, StringFormat};

/// The Go type of a use: `int32`, `[]v1.Container`, `map[string]string`.
pub(super) fn of_link(link: &Link) -> String {
    match link {
        Link::Named(name) => of_name(name),
        Link::Inline(schema) => of_schema(schema),
    }
}

/// The Go type of a schema.
pub(super) fn of_schema(schema: &Schema) -> String {
    match &schema.shape {
        Shape::Any => "interface {}".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Integer(IntFormat::Int32) => "int32".to_owned(),
        Shape::Integer(IntFormat::Int64) => "int64".to_owned(),
        Shape::Number => "float64".to_owned(),
        Shape::String(StringFormat::Bytes) => "[]uint8".to_owned(),
        Shape::String(_) => "string".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::List { items, .. } => format!("[]{}", of_link(items)),
        Shape::Map { values, .. } => format!("map[string]{}", of_link(values)),
        Shape::Struct(body) => body.name.map_or_else(|| "map[string]interface {}".to_owned(), of_name),
    }
}

/// `io.k8s.api.core.v1.PodSpec` is `v1.PodSpec`.
fn of_name(name: &str) -> String {
    let mut parts = name.rsplit('.');
    let last = parts.next().unwrap_or(name);
    parts.next().map_or_else(|| last.to_owned(), |package| format!("{package}.{last}"))
}

/// The bare name of a published type: `PodSpec`.
pub(super) fn bare(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// What Go calls a JSON value it could not take.
pub(super) fn json_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}
