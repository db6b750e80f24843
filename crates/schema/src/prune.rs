//! Pruning: fields that the schema does not know are dropped.

use std::fmt::Write;

use serde_json::Value;

use crate::{Link, Schema, Shape, json};

/// Drops unknown fields and returns their paths (`spec.list[0].foo`), sorted, the first [`json::COMPLAINTS_MAX`].
///
/// A struct that preserves unknown fields keeps them, but the known ones inside are pruned by their own schemas.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.value(Some(schema), value);
    pruner.dropped.sort();
    pruner.dropped.truncate(json::COMPLAINTS_MAX);
    pruner.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

/// What becomes of an object's entry.
enum Member<'s> {
    /// It stays, pruned by this schema; by none where only scalars may stay.
    Known(Option<&'s Schema>),
    /// It stays as it is.
    Kept,
    /// It goes.
    Unknown,
}

impl Pruner {
    fn value(&mut self, schema: Option<&Schema>, value: &mut Value) {
        let length = self.path.len();
        match value {
            Value::Object(map) => map.retain(|key, value| {
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(key);
                let stays = self.entry(schema, key, value);
                self.path.truncate(length);
                stays
            }),
            Value::Array(list) => {
                if schema.is_some_and(keeps_all) {
                    return;
                }
                for (index, item) in list.iter_mut().enumerate() {
                    let _ = write!(self.path, "[{index}]");
                    self.value(schema.and_then(Schema::items), item);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn entry(&mut self, schema: Option<&Schema>, key: &str, value: &mut Value) -> bool {
        match member(schema, key) {
            Member::Known(schema) => self.value(schema, value),
            Member::Kept => {}
            Member::Unknown => self.dropped.push(self.path.clone()),
        }
        !matches!(member(schema, key), Member::Unknown)
    }
}

/// Whether nothing inside is known but all is kept.
fn keeps_all(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Any) && !is_hollow(schema)
}

/// Whether nothing inside is known nor kept (`additionalProperties: true`).
fn is_hollow(schema: &Schema) -> bool {
    schema.facets.as_ref().is_some_and(|facets| facets.hollow)
}

fn member<'s>(schema: Option<&'s Schema>, key: &str) -> Member<'s> {
    let Some(schema) = schema.filter(|s| !is_hollow(s)) else { return Member::Unknown };
    match &schema.shape {
        Shape::Any => Member::Kept,
        Shape::Map { values, .. } => Member::Known(Some(values.get())),
        Shape::Struct(body) => match (body.fields.get(key), &body.additional) {
            (Some(field), _) => Member::Known(Some(field.schema.get())),
            (None, Some(additional)) => Member::Known(Some(Link::get(additional))),
            (None, None) if body.preserve_unknown => Member::Kept,
            (None, None) => Member::Unknown,
        },
        _ => Member::Unknown,
    }
}
