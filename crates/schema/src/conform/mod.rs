//! Brings a decoded object into the form that its schema describes.
//!
//! Built-in types take Go's normal form, the one upstream stores and answers with: unknown fields are dropped and
//! reported, wrong types refused, null read as absent, quantities and times rewritten canonically, and zero values
//! omitted or filled in as the Go struct's tags say ([`Zero`](crate::Zero)). So an object has one form, whether it
//! came as JSON or as protobuf. Two nuances differ, on purpose: where Go writes `null` for an empty value (nil
//! lists of required fields, zero times) the form here is `[]` and absent, which all clients read alike.
//!
//! Custom resources stay as sent, except that unknown fields are pruned and reported, nulls that are neither
//! allowed nor defaulted dropped, and metadata brought into its normal form. Their types are checked by
//! [`validate`](crate::validate), with field paths.

mod custom;
mod go_type;
mod scalar;
mod typed;

pub(crate) use scalar::{decode_base64, encode_base64};
pub(crate) use typed::{is_zero, zero_of};

use std::fmt;

use serde_json::Value;

use crate::{Schema, json, text};

/// An object in its schema's form.
#[derive(Clone, Debug, PartialEq)]
pub struct Conformed {
    /// The object.
    pub value: Value,
    /// Fields that the schema does not know, dropped, in upstream's words: `unknown field "spec.foo"`; each once,
    /// the first [`json::COMPLAINTS_MAX`].
    pub unknown: Vec<String>,
}

/// A value has the wrong type; the sentence is that of Go's decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError(pub(crate) String);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeError {}

/// Most structs in one object. Filling in zero values makes `{}` two hundred times larger in memory, so a body of
/// three bytes an item must be stopped; a useful item takes fifteen bytes or more of the 1.5 MiB of a stored object.
const STRUCTS_MAX: usize = 100_000;

/// Whether an object is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A whole object: absent values that Go always writes are filled in, zero values that it never writes dropped.
    #[default]
    Whole,
    /// A part of one (an apply configuration): only what is there counts, zero values included.
    Partial,
}

/// Brings a whole object into its schema's form.
pub fn conform(schema: &Schema, value: Value) -> Result<Conformed, TypeError> {
    conform_as(schema, value, Mode::Whole)
}

/// Brings an object, or a part of one, into its schema's form.
pub fn conform_as(schema: &Schema, value: Value, mode: Mode) -> Result<Conformed, TypeError> {
    let mut unknown = Unknown::default();
    let is_custom = schema.body().is_none_or(|body| body.name.is_none());
    let value = if is_custom {
        custom::conform(schema, value, mode, &mut unknown)?
    } else {
        typed::conform(schema, value, mode, &mut unknown)?
    };
    Ok(Conformed { value, unknown: unknown.fields })
}

/// Names of unknown fields while they are found.
#[derive(Default)]
struct Unknown {
    fields: Vec<String>,
}

impl Unknown {
    fn note(&mut self, path: &str) {
        if self.fields.len() < json::COMPLAINTS_MAX {
            let message = format!("unknown field {}", text::quoted(path));
            if !self.fields.contains(&message) {
                self.fields.push(message);
            }
        }
    }
}

#[cfg(test)]
mod tests;
