//! From a value to a message.

use meta::Time;
use serde_json::{Map, Value};

use super::wire::Writer;
use super::{DEPTH_MAX, ProtoError, numbers};
use crate::conform::decode_base64;
use crate::special::{Special, json_schema_props};
use crate::{Field, Link, Schema, Shape, StringFormat, Struct};

/// Writes an object of a built-in struct type; unknown fields and nulls are left out.
pub fn encode(schema: &Schema, value: &Value) -> Result<Vec<u8>, ProtoError> {
    let body = schema.body().ok_or_else(|| ProtoError::new("only struct types are messages"))?;
    struct_of(body, value, 0)
}

fn misfit(what: &str) -> ProtoError {
    ProtoError::new(format!("the value is not {what}"))
}

fn object(value: &Value) -> Result<&Map<String, Value>, ProtoError> {
    value.as_object().ok_or_else(|| misfit("an object"))
}

fn struct_of(body: &Struct, value: &Value, depth: usize) -> Result<Vec<u8>, ProtoError> {
    if depth >= DEPTH_MAX {
        return Err(ProtoError::new("exceeded max depth"));
    }
    let map = object(value)?;
    let mut fields: Vec<(&Field, &Value)> = Vec::with_capacity(map.len());
    for (name, value) in map.iter().filter(|(_, v)| !v.is_null()) {
        fields.extend(body.fields.get(name.as_str()).filter(|f| f.proto != 0).map(|f| (f, value)));
    }
    level(&fields, 0, depth + 1)
}

/// Writes fields that share the first `nesting` outer numbers: own ones first, then each inlined message.
fn level(fields: &[(&Field, &Value)], nesting: usize, depth: usize) -> Result<Vec<u8>, ProtoError> {
    let mut writer = Writer::default();
    let mut inlined: Vec<u32> = Vec::new();
    for (field, value) in fields {
        match field.proto_outer.get(nesting) {
            None => put(&mut writer, field.proto, &field.schema, value, depth)?,
            Some(number) if inlined.contains(number) => {}
            Some(number) => inlined.push(*number),
        }
    }
    for number in inlined {
        let inside = |(field, _): &&(&Field, &Value)| field.proto_outer.get(nesting) == Some(&number);
        let inner: Vec<(&Field, &Value)> = fields.iter().filter(inside).copied().collect();
        writer.bytes(number, &level(&inner, nesting + 1, depth)?);
    }
    Ok(writer.out)
}

/// Writes a field: an occurrence for each item or entry.
fn put(writer: &mut Writer, number: u32, link: &Link, value: &Value, depth: usize) -> Result<(), ProtoError> {
    match &link.get().shape {
        Shape::List { items, .. } => {
            let list = value.as_array().ok_or_else(|| misfit("a list"))?;
            list.iter().try_for_each(|item| single(writer, number, items, item, depth))
        }
        Shape::Map { values, .. } => object(value)?.iter().try_for_each(|(key, value)| {
            let mut entry = Writer::default();
            entry.bytes(numbers::KEY, key.as_bytes());
            single(&mut entry, numbers::VALUE, values, value, depth)?;
            writer.bytes(number, &entry.out);
            Ok(())
        }),
        _ => single(writer, number, link, value, depth),
    }
}

fn single(writer: &mut Writer, number: u32, link: &Link, value: &Value, depth: usize) -> Result<(), ProtoError> {
    if let Some(special) = Special::of(link) {
        writer.bytes(number, &special_of(special, value, depth)?);
        return Ok(());
    }
    match &link.get().shape {
        Shape::Any => {}
        Shape::Boolean => writer.varint(number, value.as_bool().ok_or_else(|| misfit("a boolean"))?.into()),
        Shape::Integer(_) => writer.varint(number, value.as_i64().ok_or_else(|| misfit("a whole number"))? as u64),
        Shape::Number => writer.fixed64(number, value.as_f64().ok_or_else(|| misfit("a number"))?.to_bits()),
        Shape::IntOrString => writer.bytes(number, &int_or_string(value)?),
        Shape::Quantity => writer.bytes(number, &only(text(value)?.as_bytes())),
        Shape::String(format) => string(writer, number, text(value)?, *format)?,
        Shape::Struct(body) => writer.bytes(number, &struct_of(body, value, depth)?),
        Shape::List { items, .. } => {
            let mut wrapped = Writer::default();
            let list = value.as_array().ok_or_else(|| misfit("a list"))?;
            list.iter().try_for_each(|item| single(&mut wrapped, numbers::ONLY, items, item, depth))?;
            writer.bytes(number, &wrapped.out);
        }
        Shape::Map { .. } => return Err(ProtoError::new("a map cannot be a list's item or a map's value")),
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str, ProtoError> {
    value.as_str().ok_or_else(|| misfit("text"))
}

fn string(writer: &mut Writer, number: u32, text: &str, format: StringFormat) -> Result<(), ProtoError> {
    match format {
        StringFormat::Plain => writer.bytes(number, text.as_bytes()),
        StringFormat::Bytes => writer.bytes(number, &decode_base64(text).map_err(ProtoError::new)?),
        StringFormat::Duration => {
            let nanos = meta::duration::parse(text).map_err(ProtoError::new)?;
            let mut message = Writer::default();
            message.varint(numbers::ONLY, nanos as u64);
            writer.bytes(number, &message.out);
        }
        StringFormat::Time | StringFormat::MicroTime => {
            let time = Time::parse(text).ok_or_else(|| misfit("a time"))?;
            writer.bytes(number, &timestamp(time, format));
        }
    }
    Ok(())
}

/// Go leaves the fraction of a `Time` away.
fn timestamp(time: Time, format: StringFormat) -> Vec<u8> {
    let mut message = Writer::default();
    message.varint(numbers::SECONDS, time.as_secs() as u64);
    let micros = time.as_micros().rem_euclid(1_000_000);
    let nanos = if format == StringFormat::MicroTime { micros * 1000 } else { 0 };
    message.varint(numbers::NANOS, nanos as u64);
    message.out
}

fn int_or_string(value: &Value) -> Result<Vec<u8>, ProtoError> {
    let mut message = Writer::default();
    let (kind, int, text) = match value {
        Value::String(text) => (1, 0, text.as_str()),
        other => (0, other.as_i64().ok_or_else(|| misfit("a number or text"))?, ""),
    };
    message.varint(numbers::TYPE, kind);
    message.varint(numbers::INT, int as u64);
    message.bytes(numbers::TEXT, text.as_bytes());
    Ok(message.out)
}

/// A message with a single field.
fn only(bytes: &[u8]) -> Vec<u8> {
    let mut message = Writer::default();
    message.bytes(numbers::ONLY, bytes);
    message.out
}

fn props(value: &Value, depth: usize) -> Result<Vec<u8>, ProtoError> {
    let body = json_schema_props().and_then(Schema::body).ok_or_else(|| ProtoError::new("no schema of schemas"))?;
    struct_of(body, value, depth)
}

fn special_of(special: Special, value: &Value, depth: usize) -> Result<Vec<u8>, ProtoError> {
    let mut message = Writer::default();
    match (special, value) {
        (Special::RawExtension | Special::FieldsV1 | Special::Json, value) => {
            message.bytes(numbers::ONLY, value.to_string().as_bytes());
        }
        (Special::PropsOrBool, Value::Bool(allows)) => message.varint(numbers::OR_BOOL_ALLOWS, (*allows).into()),
        (Special::PropsOrBool, schema) => {
            message.varint(numbers::OR_BOOL_ALLOWS, 1);
            message.bytes(numbers::OR_BOOL_SCHEMA, &props(schema, depth)?);
        }
        (Special::PropsOrArray, Value::Array(list)) => {
            for schema in list {
                message.bytes(numbers::OR_LIST_LIST, &props(schema, depth)?);
            }
        }
        (Special::PropsOrStringArray, Value::Array(list)) => {
            for item in list {
                message.bytes(numbers::OR_LIST_LIST, text(item)?.as_bytes());
            }
        }
        (Special::PropsOrArray | Special::PropsOrStringArray, schema) => {
            message.bytes(numbers::OR_LIST_SCHEMA, &props(schema, depth)?);
        }
    }
    Ok(message.out)
}
