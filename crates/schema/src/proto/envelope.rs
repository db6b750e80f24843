//! The envelope: four magic bytes, then `runtime.Unknown`.

use super::ProtoError;
use super::wire::{Fields, Writer};

/// What every protobuf body begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// `runtime.Unknown`: the kind of an object beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `apiVersion`; may be empty.
    pub api_version: String,
    /// `kind`; may be empty.
    pub kind: String,
    /// The object's message.
    pub raw: &'b [u8],
    /// How `raw` is compressed; empty in practice.
    pub content_encoding: String,
    /// What `raw` is; empty means protobuf.
    pub content_type: String,
}

/// Opens an envelope.
pub fn unwrap_envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    let missing =
        || ProtoError::new("provided data does not appear to be a protobuf message, expected prefix 6b387300");
    let mut fields = Fields::of(bytes.strip_prefix(MAGIC).ok_or_else(missing)?);
    let mut envelope = Envelope::default();
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 => read_type_meta(raw.bytes()?, &mut envelope)?,
            2 => envelope.raw = raw.bytes()?,
            3 => envelope.content_encoding = raw.text()?,
            4 => envelope.content_type = raw.text()?,
            _ => {}
        }
    }
    Ok(envelope)
}

fn read_type_meta(message: &[u8], envelope: &mut Envelope<'_>) -> Result<(), ProtoError> {
    let mut fields = Fields::of(message);
    while let Some((number, raw)) = fields.next()? {
        match number {
            1 => envelope.api_version = raw.text()?,
            2 => envelope.kind = raw.text()?,
            _ => {}
        }
    }
    Ok(())
}

/// Closes an envelope around an object's message.
pub fn wrap_envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Writer::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut unknown = Writer { out: MAGIC.to_vec() };
    unknown.bytes(1, &type_meta.out);
    unknown.bytes(2, raw);
    unknown.bytes(3, b"");
    unknown.bytes(4, b"");
    unknown.out
}
