//! JSON Patch (RFC 6902) with the reading and the limits of the upstream API server.
//!
//! Deviations from the RFC that clients see upstream too: negative indexes count from the end, `replace` of an
//! absent key of an existing map sets it, an absent `value` is null, and the first step of a pointer that does
//! not start with `/` is ignored.

mod apply;
mod pointer;

use serde_json::{Map, Value};

use crate::PatchError;
use crate::go_text;

/// What one patch may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most operations (upstream: 10,000).
    pub operations: usize,
    /// Most bytes that all `copy` operations together may add (upstream: 3 MiB, the size of a request body).
    pub copied_bytes: usize,
    /// Deepest nesting of the result.
    pub depth: usize,
    /// Most list items shifted and subtree nodes measured, so that many inserts into a long list or moves of a
    /// big subtree stay cheap (ours; about a tenth of a second).
    pub work: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { operations: 10_000, copied_bytes: 3 << 20, depth: meta::stored::DEPTH_MAX, work: 32 << 20 }
    }
}

/// Applies `patch` (a list of operations) to `doc`. On error `doc` is left half patched and must be dropped.
pub fn apply(doc: &mut Value, patch: &Value, limits: &Limits) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    if operations.len() > limits.operations {
        return Err(PatchError::too_large(format!(
            "The allowed maximum operations in a JSON patch is {}, got {}",
            limits.operations,
            operations.len()
        )));
    }
    let mut session = apply::Session::new(doc, limits);
    operations.into_iter().try_for_each(|operation| session.perform(operation))
}

/// Reads the bytes of a request body and applies them.
pub fn apply_bytes(doc: &mut Value, patch: &[u8], limits: &Limits) -> Result<(), PatchError> {
    let patch: Value =
        serde_json::from_slice(patch).map_err(|e| PatchError::malformed(format!("error decoding patch: {e}")))?;
    apply(doc, &patch, limits)
}

/// One step. Texts are `None` when absent or null.
struct Operation<'p> {
    op: Option<&'p str>,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: Option<&'p Value>,
}

fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    match patch {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(operation).collect(),
        other => Err(mistyped(other, "value of type []handlers.jsonPatchOp")),
    }
}

fn operation(item: &Value) -> Result<Operation<'_>, PatchError> {
    match item {
        Value::Null => Ok(Operation { op: None, path: None, from: None, value: None }),
        Value::Object(map) => Ok(Operation {
            op: member(map, "op")?,
            path: member(map, "path")?,
            from: member(map, "from")?,
            value: map.get("value"),
        }),
        other => Err(mistyped(other, "value of type handlers.jsonPatchOp")),
    }
}

fn member<'p>(map: &'p Map<String, Value>, name: &str) -> Result<Option<&'p str>, PatchError> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(mistyped(other, &format!("struct field jsonPatchOp.{name} of type string"))),
    }
}

fn mistyped(value: &Value, target: &str) -> PatchError {
    let kind = go_text::json_kind(value);
    PatchError::malformed(format!("error decoding patch: json: cannot unmarshal {kind} into Go {target}"))
}

#[cfg(test)]
mod tests;
