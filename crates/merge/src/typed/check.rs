//! Whether a partial object fits its schema well enough to be merged.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::keys::step_of;
use super::shape::{Atom, ListType, MapType, Scalar, Type};
use crate::fields::{Path, PathElement, print_path};
use crate::go_text;

/// More faults than this are not told; nobody reads them and a hostile body could make a long answer.
const FAULTS_MAX: usize = 64;

/// One contradiction between a value and its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: `.spec.containers[name="web"]`; empty at the root.
    pub path: String,
    /// What, in upstream's words.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// All faults as one text: alone as it is, several one a line.
pub fn print_faults(faults: &[Fault]) -> String {
    match faults {
        [only] => only.to_string(),
        several => {
            let lines = several.iter().map(|fault| format!("  {fault}"));
            std::iter::once("errors:".to_owned()).chain(lines).collect::<Vec<_>>().join("\n")
        }
    }
}

pub(super) fn check(ty: Type<'_>, value: &Value) -> Vec<Fault> {
    let mut walk = Walk { path: Vec::new(), faults: Vec::new() };
    walk.value(ty, value);
    walk.faults
}

struct Walk {
    path: Path,
    faults: Vec<Fault>,
}

impl Walk {
    fn value(&mut self, ty: Type<'_>, value: &Value) {
        match ty.atom(value) {
            Atom::Scalar(scalar) => self.scalar(scalar, value),
            Atom::List(list) => self.list(&list, value),
            Atom::Map(map) => self.map(&map, value),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Numeric => value.is_number(),
            Scalar::Text => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Any => !value.is_object() && !value.is_array(),
        };
        if !fits && !value.is_null() {
            self.fault(misfit(scalar, value));
        }
    }

    fn list(&mut self, list: &ListType<'_>, value: &Value) {
        match value {
            Value::Null => {}
            Value::Array(items) if list.is_atomic() => {
                for (at, item) in (0..).zip(items) {
                    self.below(PathElement::Index(at), list.items, item);
                }
            }
            Value::Array(items) => self.items(list, items),
            other => self.fault(format!("expected list, got &{{{}}}", go_text::plain(other))),
        }
    }

    fn items(&mut self, list: &ListType<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            match step_of(list, item) {
                Err(error) => return self.fault(format!("element {at}: {error}")),
                Ok(step) => {
                    if !seen.insert(step.clone()) {
                        self.fault(format!("duplicate entries for key {step}"));
                    }
                    self.below(step, list.items, item);
                }
            }
        }
    }

    fn map(&mut self, map: &MapType<'_>, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(entries) => self.entries(map, entries),
            other => self.fault(format!("expected map, got &{{{}}}", go_text::plain(other))),
        }
    }

    fn entries(&mut self, map: &MapType<'_>, entries: &Map<String, Value>) {
        for (name, item) in entries {
            let step = PathElement::field(name);
            match map.member(name) {
                Some(member) => self.below(step, member.ty, item),
                None => {
                    self.path.push(step);
                    self.fault("field not declared in schema".to_owned());
                    self.path.pop();
                    return;
                }
            }
        }
    }

    fn below(&mut self, step: PathElement, ty: Type<'_>, value: &Value) {
        self.path.push(step);
        self.value(ty, value);
        self.path.pop();
    }

    fn fault(&mut self, message: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { path: print_path(&self.path), message });
        }
    }
}

fn misfit(scalar: Scalar, value: &Value) -> String {
    match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", go_text::type_name(value)),
        Scalar::Text => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_text::literal(value))
        }
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go_text::plain(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go_text::plain(value)),
    }
}
