//! From a message to a value.

use meta::Time;
use serde_json::{Map, Number, Value};

use super::wire::{Fields, Raw, varint};
use super::{DEPTH_MAX, ProtoError, numbers};
use crate::conform::{encode_base64, is_zero, zero_of};
use crate::special::{Special, json_schema_props};
use crate::{IntFormat, Link, Schema, Shape, StringFormat, Struct, Zero, json};

/// Reads a message of a built-in struct type. Unknown numbers are skipped, as protobuf has it.
pub fn decode(schema: &Schema, message: &[u8]) -> Result<Value, ProtoError> {
    let body = schema.body().ok_or_else(|| ProtoError::new("only struct types are messages"))?;
    struct_of(body, message, 0).map(Value::Object)
}

fn deeper(depth: usize) -> Result<usize, ProtoError> {
    if depth >= DEPTH_MAX { Err(ProtoError::new("exceeded max depth")) } else { Ok(depth + 1) }
}

fn struct_of(body: &Struct, message: &[u8], depth: usize) -> Result<Map<String, Value>, ProtoError> {
    let mut map = Map::new();
    read_fields(body, &mut Vec::new(), message, &mut map, depth)?;
    for (name, _) in body.fields.iter().filter(|(_, f)| f.zero == Zero::Omit) {
        if map.get(&**name).is_some_and(is_zero) {
            map.remove(&**name);
        }
    }
    Ok(map)
}

/// Reads the fields of a message that lies under the numbers `outer` of the struct's own message.
fn read_fields(
    body: &Struct,
    outer: &mut Vec<u32>,
    message: &[u8],
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtoError> {
    let depth = deeper(depth)?;
    let mut fields = Fields::of(message);
    while let Some((number, raw)) = fields.next()? {
        let own = body.fields.iter().find(|(_, f)| f.proto == number && *f.proto_outer == outer[..]);
        if let Some((name, field)) = own {
            read_field(name, &field.schema, raw, map, depth)?;
            continue;
        }
        outer.push(number);
        if body.fields.values().any(|f| f.proto_outer.starts_with(outer)) {
            read_fields(body, outer, raw.bytes()?, map, depth)?;
        }
        outer.pop();
    }
    Ok(())
}

/// Reads one occurrence of a field: lists and maps grow, messages merge, scalars are replaced.
fn read_field(
    name: &str,
    link: &Link,
    raw: Raw<'_>,
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtoError> {
    match &link.get().shape {
        Shape::List { items, .. } => {
            let slot = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = slot {
                read_item(items, raw, list, depth)?;
            }
        }
        Shape::Map { values, .. } => {
            let slot = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = slot {
                let (key, value) = read_entry(values, raw.bytes()?, depth)?;
                entries.insert(key, value);
            }
        }
        Shape::Struct(body) => match map.get_mut(name) {
            Some(Value::Object(earlier)) => earlier.append(&mut struct_of(body, raw.bytes()?, depth)?),
            _ => {
                map.insert(name.to_owned(), Value::Object(struct_of(body, raw.bytes()?, depth)?));
            }
        },
        _ => {
            if let Some(value) = single(link, raw, depth)? {
                map.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn read_item(items: &Link, raw: Raw<'_>, list: &mut Vec<Value>, depth: usize) -> Result<(), ProtoError> {
    let schema = items.get();
    let is_packed = matches!(schema.shape, Shape::Integer(_) | Shape::Boolean);
    if let (true, Raw::Bytes(mut packed)) = (is_packed, raw) {
        while !packed.is_empty() {
            let number = Raw::Varint(varint(&mut packed)?);
            list.extend(single(items, number, depth)?);
        }
        return Ok(());
    }
    list.push(single(items, raw, depth)?.unwrap_or_else(|| zero_of(schema)));
    Ok(())
}

fn read_entry(values: &Link, message: &[u8], depth: usize) -> Result<(String, Value), ProtoError> {
    let (mut key, mut value) = (String::new(), None);
    let mut fields = Fields::of(message);
    while let Some((number, raw)) = fields.next()? {
        match number {
            numbers::KEY => key = raw.text()?,
            numbers::VALUE => value = single(values, raw, deeper(depth)?)?,
            _ => {}
        }
    }
    Ok((key, value.unwrap_or_else(|| zero_of(values.get()))))
}

/// A value that takes one occurrence; `None` when it stands for absent.
fn single(link: &Link, raw: Raw<'_>, depth: usize) -> Result<Option<Value>, ProtoError> {
    if let Some(special) = Special::of(link) {
        return special_of(special, raw.bytes()?, deeper(depth)?);
    }
    Ok(Some(match &link.get().shape {
        Shape::Any => return Ok(None),
        Shape::Boolean => Value::Bool(raw.varint()? != 0),
        Shape::Integer(IntFormat::Int32) => Value::from(raw.varint()? as i32),
        Shape::Integer(IntFormat::Int64) => Value::from(raw.varint()? as i64),
        Shape::Number => double(raw)?,
        Shape::String(StringFormat::Bytes) => Value::from(encode_base64(raw.bytes()?)),
        Shape::String(StringFormat::Time) => return time(raw.bytes()?, false),
        Shape::String(StringFormat::MicroTime) => return time(raw.bytes()?, true),
        Shape::String(StringFormat::Duration) => duration(raw.bytes()?)?,
        Shape::String(StringFormat::Plain) => Value::from(raw.text()?),
        Shape::IntOrString => int_or_string(raw.bytes()?)?,
        Shape::Quantity => quantity(raw.bytes()?)?,
        Shape::List { items, .. } => wrapped_list(items, raw.bytes()?, deeper(depth)?)?,
        Shape::Map { .. } => return Err(ProtoError::new("a map cannot be a list's item or a map's value")),
        Shape::Struct(body) => Value::Object(struct_of(body, raw.bytes()?, depth)?),
    }))
}

fn double(raw: Raw<'_>) -> Result<Value, ProtoError> {
    let Raw::Fixed64(bits) = raw else { return Err(ProtoError::new("wrong wireType for a double field")) };
    let number = Number::from_f64(f64::from_bits(bits));
    number.map(Value::Number).ok_or_else(|| ProtoError::new("a double is not a number"))
}

/// Go writes times without fraction, and the zero time as an empty message.
fn time(message: &[u8], micros: bool) -> Result<Option<Value>, ProtoError> {
    let (mut seconds, mut nanos, mut fields) = (0_i64, 0_i64, Fields::of(message));
    if message.is_empty() {
        return Ok(None);
    }
    while let Some((number, raw)) = fields.next()? {
        match number {
            numbers::SECONDS => seconds = raw.varint()? as i64,
            numbers::NANOS => nanos = i64::from(raw.varint()? as i32),
            _ => {}
        }
    }
    Ok(Some(Value::from(if micros {
        let micros = seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000);
        Time::from_micros(micros).to_rfc3339_micros()
    } else {
        Time::from_secs(seconds).to_rfc3339()
    })))
}

fn duration(message: &[u8]) -> Result<Value, ProtoError> {
    let (mut nanos, mut fields) = (0, Fields::of(message));
    while let Some((number, raw)) = fields.next()? {
        if number == numbers::ONLY {
            nanos = raw.varint()? as i64;
        }
    }
    Ok(Value::from(meta::duration::format(nanos)))
}

fn int_or_string(message: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_text, mut int, mut text) = (false, 0, String::new());
    let mut fields = Fields::of(message);
    while let Some((number, raw)) = fields.next()? {
        match number {
            numbers::TYPE => is_text = raw.varint()? == 1,
            numbers::INT => int = raw.varint()? as i32,
            numbers::TEXT => text = raw.text()?,
            _ => {}
        }
    }
    Ok(if is_text { Value::from(text) } else { Value::from(int) })
}

fn quantity(message: &[u8]) -> Result<Value, ProtoError> {
    let text = only_bytes(message)?;
    if text.is_empty() {
        return Ok(Value::from("0"));
    }
    let text = std::str::from_utf8(text).unwrap_or("");
    let text = meta::Quantity::normalize(text).map_err(ProtoError::new)?;
    Ok(Value::from(text.into_owned()))
}

/// The content of a message with a single bytes field.
fn only_bytes(message: &[u8]) -> Result<&[u8], ProtoError> {
    let (mut content, mut fields): (&[u8], _) = (&[], Fields::of(message));
    while let Some((number, raw)) = fields.next()? {
        if number == numbers::ONLY {
            content = raw.bytes()?;
        }
    }
    Ok(content)
}

/// A list that is a map's value stands in a message of its own.
fn wrapped_list(items: &Link, message: &[u8], depth: usize) -> Result<Value, ProtoError> {
    let (mut list, mut fields) = (Vec::new(), Fields::of(message));
    while let Some((number, raw)) = fields.next()? {
        if number == numbers::ONLY {
            read_item(items, raw, &mut list, depth)?;
        }
    }
    Ok(Value::Array(list))
}

fn special_of(special: Special, message: &[u8], depth: usize) -> Result<Option<Value>, ProtoError> {
    match special {
        Special::RawExtension | Special::FieldsV1 | Special::Json => raw_json(only_bytes(message)?),
        Special::PropsOrBool => props_or_bool(message, depth).map(Some),
        Special::PropsOrArray | Special::PropsOrStringArray => props_or_list(special, message, depth),
    }
}

fn raw_json(bytes: &[u8]) -> Result<Option<Value>, ProtoError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.starts_with(super::MAGIC) {
        return Err(ProtoError::new("an embedded object must be JSON"));
    }
    json::decode(bytes).map(|decoded| Some(decoded.value)).map_err(|error| ProtoError::new(error.to_string()))
}

fn props(message: &[u8], depth: usize) -> Result<Value, ProtoError> {
    let body = json_schema_props().and_then(Schema::body).ok_or_else(|| ProtoError::new("no schema of schemas"))?;
    struct_of(body, message, depth).map(Value::Object)
}

fn props_or_bool(message: &[u8], depth: usize) -> Result<Value, ProtoError> {
    let (mut allows, mut schema, mut fields) = (false, None, Fields::of(message));
    while let Some((number, raw)) = fields.next()? {
        match number {
            numbers::OR_BOOL_ALLOWS => allows = raw.varint()? != 0,
            numbers::OR_BOOL_SCHEMA => schema = Some(props(raw.bytes()?, depth)?),
            _ => {}
        }
    }
    Ok(schema.unwrap_or(Value::Bool(allows)))
}

fn props_or_list(special: Special, message: &[u8], depth: usize) -> Result<Option<Value>, ProtoError> {
    let (mut schema, mut list, mut fields) = (None, Vec::new(), Fields::of(message));
    while let Some((number, raw)) = fields.next()? {
        match number {
            numbers::OR_LIST_SCHEMA => schema = Some(props(raw.bytes()?, depth)?),
            numbers::OR_LIST_LIST if special == Special::PropsOrArray => list.push(props(raw.bytes()?, depth)?),
            numbers::OR_LIST_LIST => list.push(Value::from(raw.text()?)),
            _ => {}
        }
    }
    Ok(if list.is_empty() { schema } else { Some(Value::Array(list)) })
}
