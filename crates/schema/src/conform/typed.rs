//! Built-in types: what Go's decoder and encoder make of a value.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{Mode, STRUCTS_MAX, TypeError, Unknown, go_type, scalar};
use crate::special::{Special, json_schema_props};
use crate::{IntFormat, Link, Schema, Shape, Struct, Zero};

/// Brings an object of a built-in type into Go's normal form.
pub(super) fn conform(schema: &Schema, value: Value, mode: Mode, unknown: &mut Unknown) -> Result<Value, TypeError> {
    part(schema, value, "", mode, unknown)
}

/// The same for the part of an object at `path` (`metadata` of a custom resource).
pub(super) fn part(
    schema: &Schema,
    value: Value,
    path: &str,
    mode: Mode,
    unknown: &mut Unknown,
) -> Result<Value, TypeError> {
    let path = path.to_owned();
    let mut walker = Walker { mode, unknown, path, fields: Vec::new(), owner: "", silent: false, structs: 0 };
    walker.schema(schema, value).map(Option::unwrap_or_default)
}

struct Walker<'s, 'u> {
    mode: Mode,
    unknown: &'u mut Unknown,
    /// Where the walker stands, with indexes and keys.
    path: String,
    /// Names of the fields on the way, as Go's errors list them: without indexes and keys.
    fields: Vec<&'s str>,
    /// Bare name of the innermost struct type.
    owner: &'s str,
    /// Inside JSON that Go decodes leniently: unknown fields are not reported.
    silent: bool,
    /// Structs seen so far.
    structs: usize,
}

impl<'s> Walker<'s, '_> {
    /// The value's normal form; `None` when it reads as absent.
    fn link(&mut self, link: &'s Link, value: Value) -> Result<Option<Value>, TypeError> {
        match Special::of(link) {
            Some(special) if !value.is_null() => self.special(special, value),
            _ => self.schema(link.get(), value),
        }
    }

    fn schema(&mut self, schema: &'s Schema, value: Value) -> Result<Option<Value>, TypeError> {
        match (&schema.shape, value) {
            (_, Value::Null) => Ok(None),
            (Shape::Struct(body), Value::Object(map)) => self.body(body, map).map(Some),
            (Shape::Map { values, .. }, Value::Object(map)) => self.map(values, map).map(Some),
            (Shape::List { items, .. }, Value::Array(list)) => self.list(items, list).map(Some),
            (Shape::Struct(_) | Shape::Map { .. } | Shape::List { .. }, other) => Err(self.mismatch(schema, &other)),
            (_, value) => self.scalar(schema, value),
        }
    }

    fn scalar(&self, schema: &Schema, value: Value) -> Result<Option<Value>, TypeError> {
        match (&schema.shape, value) {
            (Shape::Boolean, value @ Value::Bool(_)) | (Shape::Number, value @ Value::Number(_)) => Ok(Some(value)),
            (Shape::Any, value) => Ok(Some(value)),
            (Shape::Integer(width), Value::Number(n)) if n.as_i64().is_some_and(|n| fits(n, *width)) => {
                Ok(Some(Value::Number(n)))
            }
            (Shape::String(format), Value::String(text)) => {
                let text = scalar::formatted(text, *format).map_err(TypeError)?;
                Ok(text.map(Value::String))
            }
            (Shape::IntOrString, value) => scalar::int_or_string(value).map(Some).map_err(TypeError),
            (Shape::Quantity, value) => scalar::quantity(&value).map(Some).map_err(TypeError),
            (_, other) => Err(self.mismatch(schema, &other)),
        }
    }

    fn body(&mut self, body: &'s Struct, map: Map<String, Value>) -> Result<Value, TypeError> {
        self.structs += 1;
        if self.structs > STRUCTS_MAX {
            return Err(TypeError(format!("the object has more than {STRUCTS_MAX} parts")));
        }
        let outer = std::mem::replace(&mut self.owner, body.name.map_or("", go_type::bare));
        let mut out = Map::new();
        for (key, value) in map {
            let Some((name, field)) = body.fields.get_key_value(key.as_str()) else {
                self.note_unknown(&key);
                continue;
            };
            self.fields.push(name);
            let found = self.at_key(&key, |walker| walker.link(&field.schema, value))?;
            self.fields.pop();
            let omits = self.mode == Mode::Whole && field.zero == Zero::Omit;
            if let Some(value) = found.filter(|value| !(omits && is_zero(value))) {
                out.insert(key, value);
            }
        }
        self.owner = outer;
        if self.mode == Mode::Whole {
            fill(body, &mut out);
        }
        Ok(Value::Object(out))
    }

    fn map(&mut self, values: &'s Link, map: Map<String, Value>) -> Result<Value, TypeError> {
        let mut out = Map::new();
        for (key, value) in map {
            let found = self.at_key(&key, |walker| walker.entry(values, value))?;
            out.insert(key, found);
        }
        Ok(Value::Object(out))
    }

    fn list(&mut self, items: &'s Link, list: Vec<Value>) -> Result<Value, TypeError> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(list.len());
        for (index, value) in list.into_iter().enumerate() {
            let _ = write!(self.path, "[{index}]");
            out.push(self.entry(items, value)?);
            self.path.truncate(length);
        }
        Ok(Value::Array(out))
    }

    /// An item of a list or map, where null stands for the zero value.
    fn entry(&mut self, link: &'s Link, value: Value) -> Result<Value, TypeError> {
        match self.link(link, value)? {
            Some(value) => Ok(value),
            None => match &link.get().shape {
                Shape::Struct(body) => self.body(body, Map::new()),
                _ => Ok(zero_of(link.get())),
            },
        }
    }

    fn special(&mut self, special: Special, value: Value) -> Result<Option<Value>, TypeError> {
        match (special, value) {
            (Special::PropsOrArray | Special::PropsOrBool | Special::PropsOrStringArray, value @ Value::Object(_)) => {
                self.leniently(value).map(Some)
            }
            (Special::PropsOrArray, Value::Array(list)) => {
                let list: Result<Vec<Value>, TypeError> = list.into_iter().map(|item| self.leniently(item)).collect();
                list.map(|list| Some(Value::Array(list)))
            }
            (Special::PropsOrBool, value @ Value::Bool(_)) | (Special::PropsOrStringArray, value @ Value::Array(_)) => {
                Ok(Some(value))
            }
            (Special::PropsOrBool, _) => Err(TypeError("boolean or JSON schema expected".to_owned())),
            (Special::PropsOrArray | Special::PropsOrStringArray, _) => Ok(None),
            (Special::RawExtension | Special::FieldsV1 | Special::Json, value) => Ok(Some(value)),
        }
    }

    /// A nested JSON schema, whose unknown fields Go drops in silence.
    fn leniently(&mut self, value: Value) -> Result<Value, TypeError> {
        let Some(schema) = json_schema_props() else { return Ok(value) };
        let silent = std::mem::replace(&mut self.silent, true);
        let found = self.schema(schema, value)?;
        self.silent = silent;
        Ok(found.unwrap_or_default())
    }

    fn at_key<T>(&mut self, key: &str, act: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        let done = act(self);
        self.path.truncate(length);
        done
    }

    fn note_unknown(&mut self, key: &str) {
        if !self.silent {
            self.at_key(key, |walker| walker.unknown.note(&walker.path));
        }
    }

    fn mismatch(&self, schema: &Schema, value: &Value) -> TypeError {
        let what = match value {
            Value::Number(n) if matches!(schema.shape, Shape::Integer(_)) => format!("number {n}"),
            other => go_type::json_kind(other),
        };
        let into = go_type::of_schema(schema);
        TypeError(if self.fields.is_empty() {
            format!("json: cannot unmarshal {what} into Go value of type {into}")
        } else {
            let field = self.fields.join(".");
            format!("json: cannot unmarshal {what} into Go struct field {}.{field} of type {into}", self.owner)
        })
    }
}

fn fits(number: i64, width: IntFormat) -> bool {
    width == IntFormat::Int64 || i32::try_from(number).is_ok()
}

/// Adds the zero values that Go always writes.
fn fill(body: &Struct, map: &mut Map<String, Value>) {
    for (name, field) in body.fields.iter().filter(|(_, f)| f.zero == Zero::Fill) {
        if !map.contains_key(&**name) {
            map.insert(name.to_string(), zero_of(field.schema.get()));
        }
    }
}

/// What Go writes for a zero value. Value types cannot nest in themselves, so this ends.
pub(crate) fn zero_of(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::Any => Value::Null,
        Shape::Boolean => Value::Bool(false),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::String(_) => Value::from(""),
        Shape::Quantity => Value::from("0"),
        Shape::List { .. } => Value::Array(Vec::new()),
        Shape::Map { .. } => Value::Object(Map::new()),
        Shape::Struct(body) => {
            let mut map = Map::new();
            fill(body, &mut map);
            Value::Object(map)
        }
    }
}

/// Whether Go's `omitempty` leaves a value out.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
