//! The object from which a creation starts.

use schema::{Schema, Shape, Zero};
use serde_json::{Map, Value, json};

/// What Go's empty struct of this type looks like. Fields that it always has count as there before, so that a
/// creator owns what is in them and not the container.
pub(super) fn blank(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::Struct(body) => {
            let filled = body.fields.iter().filter(|(_, field)| field.zero == Zero::Fill);
            let entries: Map<String, Value> =
                filled.map(|(name, field)| (name.to_string(), blank(field.schema.get()))).collect();
            Value::Object(entries)
        }
        Shape::Boolean => json!(false),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => json!(0),
        Shape::String(schema::StringFormat::Plain) => json!(""),
        Shape::Quantity => json!("0"),
        Shape::String(_) | Shape::List { .. } | Shape::Map { .. } | Shape::Any => Value::Null,
    }
}
