//! Custom resources: pruned, nulls settled, metadata normal; everything else stays as sent.

use serde_json::Value;

use super::{Mode, TypeError, Unknown, typed};
use crate::{Schema, builtin, prune};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Brings a custom resource into its form.
pub(super) fn conform(
    schema: &Schema,
    mut value: Value,
    mode: Mode,
    unknown: &mut Unknown,
) -> Result<Value, TypeError> {
    match (schema.member("metadata"), value.get_mut("metadata"), builtin(OBJECT_META)) {
        // A schema that says nothing still has metadata.
        (None, Some(value), Some(schema)) => *value = typed::part(schema, value.take(), "metadata", mode, unknown)?,
        _ => metadata(schema, &mut value, "", mode, unknown)?,
    }
    for path in prune::prune(schema, &mut value) {
        unknown.note(&path);
    }
    drop_nulls(schema, &mut value);
    integral(&mut value);
    Ok(value)
}

/// Brings the metadata of the object and of embedded resources into its normal form.
fn metadata(
    schema: &Schema,
    value: &mut Value,
    path: &str,
    mode: Mode,
    unknown: &mut Unknown,
) -> Result<(), TypeError> {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                let Some(member) = schema.member(key) else { continue };
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if member.body().is_some_and(|body| body.name.is_some()) {
                    *value = typed::part(member, value.take(), &path, mode, unknown)?;
                } else {
                    metadata(member, value, &path, mode, unknown)?;
                }
            }
            Ok(())
        }
        Value::Array(list) => {
            let Some(items) = schema.items() else { return Ok(()) };
            let mut numbered = list.iter_mut().enumerate();
            numbered.try_for_each(|(i, value)| metadata(items, value, &format!("{path}[{i}]"), mode, unknown))
        }
        _ => Ok(()),
    }
}

/// Drops nulls of fields that are neither nullable nor defaulted; defaulting replaces the latter.
fn drop_nulls(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !(value.is_null() && member_refuses_null(schema, key)));
            for (key, value) in map.iter_mut() {
                if let Some(member) = schema.member(key) {
                    drop_nulls(member, value);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.items() {
                list.iter_mut().for_each(|item| drop_nulls(items, item));
            }
        }
        _ => {}
    }
}

fn member_refuses_null(schema: &Schema, key: &str) -> bool {
    let refuses = |s: &Schema, default: &Option<Value>| !s.nullable && s.default.is_none() && default.is_none();
    match schema.field(key) {
        Some(field) => refuses(field.schema.get(), &field.default),
        None => schema.values().is_some_and(|values| refuses(values, &None)),
    }
}

/// Rewrites whole doubles as integers, which is how Go writes them (`1.0` is stored as `1`).
fn integral(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(integral),
        Value::Array(list) => list.iter_mut().for_each(integral),
        Value::Number(n) if n.is_f64() => {
            /// Doubles below this are exact, and within 64 bits.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            if let Some(double) = n.as_f64().filter(|d| d.fract() == 0.0 && d.abs() <= EXACT) {
                #[allow(clippy::cast_possible_truncation)]
                let whole = double as i64;
                *value = Value::from(whole);
            }
        }
        _ => {}
    }
}
