//! JSON trees as CEL values, by their schema where there is one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Value as CelValue, objects};
use schema::{Facets, Schema, Shape, StringFormat, Struct};
use serde_json::{Number, Value};

/// CEL's reserved words: as field names they are written `__word__`.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as expressions write it.
pub fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__").replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}

/// A tree without a schema.
pub fn from_json(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(flag) => CelValue::Bool(*flag),
        Value::Number(number) => number_of(number),
        Value::String(text) => text_value(text),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(from_json).collect())),
        Value::Object(map) => map_value(map.iter().map(|(key, value)| (key.clone(), from_json(value)))),
    }
}

/// A tree by its schema: times, durations and bytes become what they are, numbers get the schema's type, fields are
/// found under their escaped names.
pub fn to_cel(value: &Value, schema: &Schema) -> CelValue {
    match (&schema.shape, value) {
        (_, Value::Null) => CelValue::Null,
        (Shape::Number, Value::Number(number)) => CelValue::Float(number.as_f64().unwrap_or(0.0)),
        (Shape::Integer(_), Value::Number(number)) => {
            CelValue::Int(number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64))
        }
        (Shape::String(format), Value::String(text)) => formatted(text, *format, schema.facets.as_deref()),
        (Shape::List { items, .. }, Value::Array(list)) => {
            CelValue::List(Arc::new(list.iter().map(|item| to_cel(item, items.get())).collect()))
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            map_value(map.iter().map(|(key, value)| (key.clone(), to_cel(value, values.get()))))
        }
        (Shape::Struct(body), Value::Object(map)) => map_value(map.iter().flat_map(|(key, v)| field(body, key, v))),
        _ => from_json(value),
    }
}

/// A field under its escaped name, and under its own where that can be written too.
fn field(body: &Struct, key: &str, value: &Value) -> impl Iterator<Item = (String, CelValue)> {
    let known = body.fields.get(key).map(|field| field.schema.get());
    let schema = known.or_else(|| body.additional.as_ref().map(schema::Link::get));
    let made = match schema {
        Some(schema) => to_cel(value, schema),
        None => from_json(value),
    };
    let other = Some(escaped(key)).filter(|escaped| escaped != key).map(|escaped| (escaped, made.clone()));
    std::iter::once((key.to_owned(), made)).chain(other)
}

fn formatted(text: &str, format: StringFormat, facets: Option<&Facets>) -> CelValue {
    let declared = facets.and_then(|facets| facets.format.as_deref()).unwrap_or("");
    let made = match (format, declared) {
        (StringFormat::Time | StringFormat::MicroTime, _) | (_, "date-time") => time(text),
        (StringFormat::Duration, _) | (_, "duration") => duration(text),
        (_, "date") => time(&format!("{text}T00:00:00Z")),
        (StringFormat::Bytes, _) | (_, "byte") => STANDARD.decode(text).ok().map(|b| CelValue::Bytes(Arc::new(b))),
        _ => None,
    };
    made.unwrap_or_else(|| text_value(text))
}

/// The interpreter's own functions read the texts, so that no second notion of time comes in.
fn time(text: &str) -> Option<CelValue> {
    read_by("timestamp(text)", text)
}

fn duration(text: &str) -> Option<CelValue> {
    read_by("duration(text)", text)
}

fn read_by(source: &str, text: &str) -> Option<CelValue> {
    let program = super::program(source).ok()?;
    super::evaluate(&program, &[("text", text_value(text))], &mut super::Budget::new(super::CALL_COST_MAX)).ok()
}

fn text_value(text: &str) -> CelValue {
    CelValue::String(Arc::new(text.to_owned()))
}

fn number_of(number: &Number) -> CelValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(int), _) => CelValue::Int(int),
        (None, Some(uint)) => CelValue::UInt(uint),
        (None, None) => CelValue::Float(number.as_f64().unwrap_or(0.0)),
    }
}

fn map_value(entries: impl Iterator<Item = (String, CelValue)>) -> CelValue {
    let map: HashMap<Key, CelValue> = entries.map(|(key, value)| (Key::String(Arc::new(key)), value)).collect();
    CelValue::Map(Map { map: Arc::new(map) })
}

/// A map of values by name.
pub fn map_of(entries: &BTreeMap<String, CelValue>) -> CelValue {
    map_value(entries.iter().map(|(name, value)| (name.clone(), value.clone())))
}

/// `optional.of(value)` or `optional.none()`.
pub fn optional(value: Option<CelValue>) -> CelValue {
    let made = match value {
        Some(value) => objects::OptionalValue::of(value),
        None => objects::OptionalValue::none(),
    };
    CelValue::Opaque(Arc::new(made))
}

/// A value as JSON. The error names a type that JSON has no form for.
pub fn to_json(value: &CelValue) -> Result<Value, String> {
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(flag) => Value::Bool(*flag),
        CelValue::Int(number) => Value::from(*number),
        CelValue::UInt(number) => Value::from(*number),
        CelValue::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        CelValue::String(text) => Value::String(text.to_string()),
        CelValue::Bytes(bytes) => Value::String(STANDARD.encode(&**bytes)),
        CelValue::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        CelValue::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| match key {
                Key::String(name) => Ok((name.to_string(), to_json(value)?)),
                _ => Err("a map with keys that are no strings".to_owned()),
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
        other => written(other).ok_or_else(|| format!("unsupported type: {}", other.type_of()))?,
    })
}

/// Times and durations in the interpreter's own writing.
fn written(value: &CelValue) -> Option<Value> {
    let program = super::program("string(value)").ok()?;
    let mut budget = super::Budget::new(super::CALL_COST_MAX);
    match super::evaluate(&program, &[("value", value.clone())], &mut budget).ok()? {
        CelValue::String(text) => Some(Value::String(text.to_string())),
        _ => None,
    }
}

/// A short text of a value, for messages.
pub fn text_of(value: &CelValue) -> String {
    match value {
        CelValue::String(text) => text.to_string(),
        CelValue::Int(number) => number.to_string(),
        CelValue::UInt(number) => number.to_string(),
        CelValue::Float(number) => number.to_string(),
        CelValue::Bool(flag) => flag.to_string(),
        CelValue::Null => "null".to_owned(),
        other => other.type_of().to_string(),
    }
}
