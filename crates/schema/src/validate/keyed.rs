//! Uniqueness in lists that are sets or maps.

use std::collections::BTreeMap;

use meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

use super::{Checker, ERRORS_MAX};
use crate::{ListKind, Schema, Shape};

impl Checker {
    /// Adds a fault for each item that is there a second time.
    pub(super) fn unique(&self, schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        if errors.len() >= ERRORS_MAX {
            return;
        }
        match (&schema.shape, value) {
            (Shape::List { items, kind }, Value::Array(list)) => {
                match kind {
                    ListKind::Atomic => {}
                    ListKind::Set => self.twins(list.iter().cloned(), path, errors),
                    ListKind::Map(keys) => self.keyed_twins(list, keys, path, errors),
                }
                for (index, item) in list.iter().enumerate() {
                    self.unique(items.get(), item, &path.index(index), errors);
                }
            }
            (Shape::Map { values, .. }, Value::Object(map)) => {
                for (key, value) in map {
                    self.unique(values.get(), value, &path.key(key), errors);
                }
            }
            (Shape::Struct(body), Value::Object(map)) if body.name.is_none() => {
                for (key, value) in map {
                    if let Some(field) = body.fields.get(key.as_str()) {
                        self.unique(field.schema.get(), value, &path.field(key), errors);
                    }
                }
            }
            _ => {}
        }
    }

    fn keyed_twins(&self, list: &[Value], keys: &[Box<str>], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        if let Some((index, bad)) = list.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
            let detail = "must be an object for an array of list-type map";
            errors.push(FieldError::invalid(self.at(&path.index(index)), bad.clone(), detail));
            return;
        }
        self.twins(list.iter().map(|item| key_of(item, keys)), path, errors);
    }

    fn twins(&self, items: impl Iterator<Item = Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, item) in items.enumerate() {
            let times = seen.entry(item.to_string()).or_default();
            *times += 1;
            if *times == 2 && errors.len() < ERRORS_MAX {
                errors.push(FieldError::duplicate(self.at(&path.index(index)), item));
            }
        }
    }
}

fn key_of(item: &Value, keys: &[Box<str>]) -> Value {
    let pairs = keys.iter().filter_map(|key| item.get(&**key).map(|value| (key.to_string(), value.clone())));
    Value::Object(pairs.collect::<Map<String, Value>>())
}
