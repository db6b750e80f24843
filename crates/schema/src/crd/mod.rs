//! From a CustomResourceDefinition's JSON schema to a [`Schema`], with upstream's rules for structural schemas.
//!
//! The JSON schema comes as a tree in its normal form (see [`conform`](crate::conform)), so zero values are absent.

mod build;
mod defaults;
mod nested;
mod openapi_rules;
mod props;
mod structure;

use meta::{FieldError, FieldPath};
use serde_json::Value;

use crate::Schema;

/// Reads the schema `props` (a `JSONSchemaProps`), which stands at `path`, e.g.
/// `spec.versions[0].schema.openAPIV3Schema`. Rules in CEL are taken over unchecked: who has CEL compiles them.
///
/// # Errors
/// All faults, in upstream's words and order: structure, defaults, then what OpenAPI in Kubernetes forbids.
pub fn structural(props: &Value, path: &FieldPath<'_>) -> Result<Schema, Vec<FieldError>> {
    let mut errors = Vec::new();
    if props::flag(props, "nullable") {
        errors.push(FieldError::forbidden(path.field("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = structure::unsupported(props);
    if unsupported.is_none() {
        errors.extend(structure::check(props, path));
    }
    let schema = if errors.is_empty() && unsupported.is_none() { Some(build::root(props)) } else { None };
    if let Some(schema) = &schema {
        defaults::check(schema, path, &mut errors);
    }
    openapi_rules::check(props, path, &mut errors);
    if errors.is_empty()
        && let Some(reason) = unsupported
    {
        errors.push(FieldError::invalid(path, "", reason));
    }
    match schema {
        Some(schema) if errors.is_empty() => Ok(schema),
        _ => Err(errors),
    }
}

/// Reads a schema without checking it: for definitions that were admitted before, whose objects must stay readable.
pub fn lenient(props: &Value) -> Schema {
    build::root(props)
}

#[cfg(test)]
mod tests;
