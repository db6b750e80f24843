//! Publishing schemas as OpenAPI v3 and v2, with the extensions that clients read.
//!
//! `x-kubernetes-group-version-kind` and the answers around the definitions are the caller's.

mod write;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{Link, Schema, Shape, builtin};
use write::{Version, Writer};

/// A schema as OpenAPI v3 has it; references point into `#/components/schemas/`.
pub fn v3_schema(schema: &Schema) -> Value {
    Writer::new(Version::V3, schema).root(schema)
}

/// A schema as OpenAPI v2 has it; references point into `#/definitions/`.
///
/// What v2 cannot say is left out as upstream leaves it out: alternatives, types of nullable values, and the inside
/// of values that preserve unknown fields, all of which kubectl would misread.
pub fn v2_schema(schema: &Schema) -> Value {
    Writer::new(Version::V2, schema).root(schema)
}

/// The definition of a built-in type by its published name, for OpenAPI v3.
pub fn v3_definition(name: &str) -> Option<Value> {
    definition(name, Version::V3)
}

/// The definition of a built-in type by its published name, for OpenAPI v2.
pub fn v2_definition(name: &str) -> Option<Value> {
    definition(name, Version::V2)
}

fn definition(name: &str, version: Version) -> Option<Value> {
    let schema = builtin(name)?;
    let is_object = name.ends_with(".RawExtension") || name.ends_with(".FieldsV1");
    Some(match &schema.shape {
        Shape::Any if is_object => json!({"type": "object"}),
        _ => Writer::of_built_in(version).node(schema),
    })
}

/// The name of a built-in type and of all types that it refers to, directly or not; empty for unknown names.
pub fn refs(name: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    if let Some(name) = crate::facts::interned(name) {
        follow(name, &mut found);
    }
    found
}

/// The names of all built-in types that a schema refers to, directly or not.
pub fn refs_of(schema: &Schema) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    collect(schema, &mut found);
    found
}

fn follow(name: &'static str, found: &mut BTreeSet<&'static str>) {
    if found.insert(name)
        && let Some(schema) = builtin(name)
    {
        collect(schema, found);
    }
}

fn collect(schema: &Schema, found: &mut BTreeSet<&'static str>) {
    let mut visit = |link: &Link| match link {
        Link::Named(name) => follow(name, found),
        Link::Inline(schema) => collect(schema, found),
    };
    match &schema.shape {
        Shape::List { items, .. } => visit(items),
        Shape::Map { values, .. } => visit(values),
        Shape::Struct(body) => {
            body.fields.values().for_each(|field| visit(&field.schema));
            body.additional.iter().for_each(visit);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
