//! Checks of a custom resource against what its schema declares, in upstream's words.

mod format;
mod junctor;
mod keyed;
mod number;
pub(crate) mod pattern;

use std::collections::BTreeSet;

use meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

use crate::{Facets, IntFormat, Link, Schema, Shape, Struct, json, text};

/// Most errors of one object; a person needs the first few, and an answer must stay small.
const ERRORS_MAX: usize = json::COMPLAINTS_MAX;

/// All faults of `value`, which stands at `path`, at most a hundred: types, facets, and uniqueness in lists that are
/// sets or maps. Rules in CEL are checked elsewhere.
pub fn check(schema: &Schema, value: &Value, path: &FieldPath<'_>) -> Vec<FieldError> {
    let checker = Checker { base: path.to_string() };
    let mut errors = checker.node(schema, value, &FieldPath::ROOT, true).errors;
    checker.unique(schema, value, &FieldPath::ROOT, &mut errors);
    errors.truncate(ERRORS_MAX);
    errors
}

/// Upstream names values by their path below the checked one in messages, and by their whole path in `field`.
struct Checker {
    base: String,
}

/// What came of a check.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    /// How many checks the value went through: of alternatives that all fail, the one with most is reported.
    matches: usize,
}

impl Outcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn push(&mut self, error: Option<FieldError>) {
        if let Some(error) = error.filter(|_| self.errors.len() < ERRORS_MAX) {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Outcome) {
        let room = ERRORS_MAX.saturating_sub(self.errors.len());
        self.errors.extend(other.errors.into_iter().take(room));
        self.matches += other.matches;
    }
}

impl Checker {
    /// The whole path of a value.
    fn at(&self, path: &FieldPath<'_>) -> String {
        let below = path.to_string();
        match (self.base.is_empty(), below.is_empty()) {
            (true, _) => below,
            (_, true) => self.base.clone(),
            _ if below.starts_with('[') => format!("{}{below}", self.base),
            _ => format!("{}.{below}", self.base),
        }
    }

    fn invalid(&self, path: &FieldPath<'_>, value: &Value, says: impl std::fmt::Display) -> Option<FieldError> {
        Some(FieldError::invalid(self.at(path), value.clone(), format!("{path} in body {says}")))
    }

    /// Checks one value. Within `allOf` and its like (`typed` false) schemas have no types of their own.
    fn node(&self, schema: &Schema, value: &Value, path: &FieldPath<'_>, typed: bool) -> Outcome {
        let mut out = Outcome::default();
        if typed && expected_type(schema).is_some() {
            let fault = self.type_fault(schema, value, path);
            out.matches += 1 + usize::from(fault.is_none());
            out.push(fault);
        }
        let facets = schema.facets.as_deref();
        if value.is_null() {
            out.push(facets.and_then(|f| self.enumeration(f, value, path)));
            return out;
        }
        if let Some(facets) = facets {
            out.merge(self.junctors(facets, value, path));
        }
        match value {
            Value::String(text) => out.merge(self.string(facets, text, path)),
            Value::Number(number) => out.merge(self.number(schema, facets, number, path)),
            Value::Array(list) => out.merge(self.list(schema, list, path, typed)),
            _ => {}
        }
        out.push(facets.and_then(|f| self.enumeration(f, value, path)));
        if let Value::Object(map) = value {
            out.merge(self.object(schema, map, path, typed));
        }
        out.matches += 3;
        out
    }

    fn type_fault(&self, schema: &Schema, value: &Value, path: &FieldPath<'_>) -> Option<FieldError> {
        let expected = expected_type(schema)?;
        let fits = match (&schema.shape, value) {
            (_, Value::Null) => schema.nullable,
            (Shape::Boolean, Value::Bool(_)) | (Shape::Number, Value::Number(_)) => true,
            (Shape::String(_), Value::String(_)) | (Shape::IntOrString, Value::String(_)) => true,
            (Shape::Integer(_) | Shape::IntOrString, Value::Number(n)) => {
                !n.is_f64() || n.as_f64().is_some_and(|d| d.fract() == 0.0)
            }
            (Shape::Quantity, Value::String(_) | Value::Number(_)) => true,
            (Shape::List { .. }, Value::Array(_)) => true,
            (Shape::Map { .. } | Shape::Struct(_), Value::Object(_)) => true,
            _ => false,
        };
        if fits {
            return None;
        }
        let found = json_type(value);
        let detail = format!("{path} in body must be of type {expected}: {}", text::quoted(found));
        Some(FieldError::type_invalid(self.at(path), found, detail))
    }

    fn enumeration(&self, facets: &Facets, value: &Value, path: &FieldPath<'_>) -> Option<FieldError> {
        if facets.enumeration.is_empty() || facets.enumeration.iter().any(|allowed| number::same(allowed, value)) {
            return None;
        }
        let shown = |v: &Value| v.as_str().map_or_else(|| v.to_string(), ToOwned::to_owned);
        let supported: Vec<String> = facets.enumeration.iter().map(shown).collect();
        Some(FieldError::not_supported(self.at(path), value.clone(), &supported))
    }

    /// Reports the first fault of a text only, as upstream does, and besides its format.
    fn string(&self, facets: Option<&Facets>, text: &str, path: &FieldPath<'_>) -> Outcome {
        let mut out = Outcome { matches: 1, ..Outcome::default() };
        if let Some(facets) = facets {
            out.push(self.text_fault(facets, text, path));
            if let Some(format) = facets.format.as_deref()
                && let Some(fits) = format::has(format, text)
            {
                out.matches += 1;
                let detail = || format!("{path} in body must be of type {format}: {}", text::quoted(text));
                out.push((!fits).then(|| FieldError::type_invalid(self.at(path), text, detail())));
            }
        }
        out
    }

    fn text_fault(&self, facets: &Facets, text: &str, path: &FieldPath<'_>) -> Option<FieldError> {
        let length = text.chars().count() as u64;
        if let Some(max) = facets.max_length.filter(|max| length > *max) {
            return Some(FieldError::too_long(self.at(path), usize::try_from(max).unwrap_or(usize::MAX)));
        }
        if let Some(min) = facets.min_length.filter(|min| length < *min) {
            return self.invalid(path, &text.into(), format_args!("should be at least {min} chars long"));
        }
        let pattern = facets.pattern.as_deref()?;
        let fits = facets.compiled.get(pattern).is_some_and(|regex| regex.is_match(text));
        if fits { None } else { self.invalid(path, &text.into(), format_args!("should match '{pattern}'")) }
    }

    fn list(&self, schema: &Schema, list: &[Value], path: &FieldPath<'_>, typed: bool) -> Outcome {
        let mut out = Outcome { matches: 2, ..Outcome::default() };
        if let Some(items) = schema.items() {
            for (index, item) in list.iter().enumerate() {
                out.merge(self.node(items, item, &path.index(index), typed));
            }
        }
        let Some(facets) = schema.facets.as_deref() else { return out };
        let count = list.len() as u64;
        if let Some(min) = facets.min_items.filter(|min| count < *min) {
            out.push(self.invalid(path, &count.into(), format_args!("should have at least {min} items")));
        }
        if let Some(max) = facets.max_items.filter(|max| count > *max) {
            out.push(Some(FieldError::too_many(self.at(path), list.len(), usize::try_from(max).unwrap_or(usize::MAX))));
        }
        if facets.unique_items && has_twins(list) {
            out.push(self.invalid(path, &Value::from(""), "shouldn't contain duplicates"));
        }
        out
    }

    fn object(&self, schema: &Schema, map: &Map<String, Value>, path: &FieldPath<'_>, typed: bool) -> Outcome {
        let mut out = Outcome { matches: 1, ..Outcome::default() };
        if let Some(facets) = schema.facets.as_deref() {
            self.property_counts(facets, map, path, &mut out);
        }
        match &schema.shape {
            Shape::Struct(body) => self.body(body, map, path, typed, &mut out),
            Shape::Map { values, .. } => {
                for (key, value) in map {
                    out.merge(self.node(values.get(), value, &path.field(key), typed));
                }
            }
            _ => {}
        }
        out
    }

    fn property_counts(&self, facets: &Facets, map: &Map<String, Value>, path: &FieldPath<'_>, out: &mut Outcome) {
        let count = map.len() as u64;
        if let Some(min) = facets.min_properties.filter(|min| count < *min) {
            out.push(self.invalid(path, &count.into(), format_args!("should have at least {min} properties")));
        }
        if let Some(max) = facets.max_properties.filter(|max| count > *max) {
            out.push(Some(FieldError::too_many(self.at(path), map.len(), usize::try_from(max).unwrap_or(usize::MAX))));
        }
    }

    fn body(&self, body: &Struct, map: &Map<String, Value>, path: &FieldPath<'_>, typed: bool, out: &mut Outcome) {
        for (key, value) in map {
            let known = body.fields.get(key.as_str()).map(|field| &field.schema);
            match known.or(body.additional.as_ref()) {
                // Metadata is in its normal form already; only what a definition adds to it is checked here.
                Some(Link::Named(_)) | None => {}
                Some(Link::Inline(member)) => {
                    let typed = typed && member.body().is_none_or(|body| body.name.is_none());
                    out.merge(self.node(member, value, &path.field(key), typed));
                }
            }
        }
        for name in body.required.iter().filter(|name| !map.contains_key(&***name)) {
            out.push(Some(FieldError::required(self.at(&path.field(name)), "")));
        }
    }
}

/// The type's name, as upstream prints it; `None` when there is none.
fn expected_type(schema: &Schema) -> Option<&'static str> {
    Some(match &schema.shape {
        Shape::Any => return None,
        Shape::Boolean => "boolean",
        Shape::Integer(IntFormat::Int32 | IntFormat::Int64) => "integer",
        Shape::Number => "number",
        Shape::String(_) => "string",
        Shape::IntOrString => "integer,string",
        Shape::Quantity => "number,string",
        Shape::List { .. } => "array",
        Shape::Map { .. } | Shape::Struct(_) => "object",
    })
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether two items are equal; by their text, so that long lists stay cheap.
fn has_twins(list: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    !list.iter().all(|item| seen.insert(item.to_string()))
}

#[cfg(test)]
mod tests;
