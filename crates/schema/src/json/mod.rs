//! JSON as the API server reads it: bounded depth, duplicates noticed, Go's leniency and Go's error sentences.
//!
//! Own because no parser at hand reports duplicate fields with their paths, and because recursion on a client's
//! input must not decide how much stack is used: the parser keeps its own stack.

mod parse;
mod scan;

use std::fmt;

use serde_json::Value;

/// Deepest nesting accepted: that of an object.
pub use meta::stored::DEPTH_MAX;
/// Most duplicates reported, as upstream's strict decoder has it.
pub const COMPLAINTS_MAX: usize = 100;

/// How much is accepted. The size of the body is the caller's to bound.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Deepest nesting; at most [`DEPTH_MAX`], whatever is asked for.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: DEPTH_MAX }
    }
}

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The tree; of fields that occur twice, the last.
    pub value: Value,
    /// Fields that occurred twice, in upstream's words: `duplicate field "spec.replicas"`; each once, the first
    /// [`COMPLAINTS_MAX`]. Upstream lists unknown fields before or between these: put them first.
    pub duplicates: Vec<String>,
}

/// Not JSON, or deeper than allowed; the sentence is Go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(pub(crate) String);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

/// Reads one document within the default limits.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    decode_within(bytes, &Limits::default())
}

/// Reads one document.
pub fn decode_within(bytes: &[u8], limits: &Limits) -> Result<Decoded, DecodeError> {
    parse::document(bytes, limits.depth.min(DEPTH_MAX))
}
