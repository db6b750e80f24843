//! Kubernetes' protobuf, by the facts instead of by generated code: the numbers stand beside the JSON names.
//!
//! What a schema does not say is said here once: quantities, times, int-or-strings, raw JSON and unions are messages
//! of their own; structs that Go inlines are nested messages; map values that are lists are wrapped in a message.
//! Reading drops zero values that read as absent; [`conform`](crate::conform) does the rest.

mod decode;
mod encode;
mod envelope;
mod wire;

use std::fmt;

pub use decode::decode;
pub use encode::encode;
pub use envelope::{Envelope, MAGIC, unwrap_envelope, wrap_envelope};

/// Deepest nesting of messages. A JSON schema, the only recursive type, takes two for each of its levels.
const DEPTH_MAX: usize = 200;

/// Bytes that are not a message of the type, or a value that does not fit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtoError(String);

impl ProtoError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ProtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "proto: {}", self.0)
    }
}

impl std::error::Error for ProtoError {}

/// Numbers of the messages that stand for values with JSON of their own.
mod numbers {
    /// The one field of wrappers: Quantity, RawExtension, JSON, FieldsV1, lists in maps.
    pub const ONLY: u32 = 1;
    /// Time and MicroTime.
    pub const SECONDS: u32 = 1;
    /// Time and MicroTime.
    pub const NANOS: u32 = 2;
    /// IntOrString: 0 is a number, 1 is text.
    pub const TYPE: u32 = 1;
    /// IntOrString.
    pub const INT: u32 = 2;
    /// IntOrString.
    pub const TEXT: u32 = 3;
    /// Map entries.
    pub const KEY: u32 = 1;
    /// Map entries.
    pub const VALUE: u32 = 2;
    /// JSONSchemaPropsOrBool.
    pub const OR_BOOL_ALLOWS: u32 = 1;
    /// JSONSchemaPropsOrBool.
    pub const OR_BOOL_SCHEMA: u32 = 2;
    /// JSONSchemaPropsOrArray and JSONSchemaPropsOrStringArray.
    pub const OR_LIST_SCHEMA: u32 = 1;
    /// JSONSchemaPropsOrArray and JSONSchemaPropsOrStringArray.
    pub const OR_LIST_LIST: u32 = 2;
}

#[cfg(test)]
mod tests;
