//! Bodies of requests: from bytes of a media type to an object that conforms to its kind's schema.

use bytes::Bytes;
use kinds::KindDef;
use meta::{ApiError, Gvk, ObjectExt};
use schema::{Mode, Schema, json, proto};
use serde_json::Value;

use crate::{FieldValidation, yaml};

/// Most bytes of a body, as upstream has it: 3 MiB.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Most warnings about fields in one answer; one field a time is enough for a person to find the rest.
const FIELD_WARNINGS_MAX: usize = 100;

/// What the bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// `application/json`, and bodies that do not say.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
    /// `application/json-patch+json`.
    JsonPatch,
    /// `application/merge-patch+json`.
    MergePatch,
    /// `application/strategic-merge-patch+json`.
    StrategicMergePatch,
    /// `application/apply-patch+yaml`.
    ApplyYaml,
}

impl MediaType {
    /// Reads a `Content-Type`; parameters are ignored. `None` for what is not known here.
    pub fn parse(content_type: &str) -> Option<MediaType> {
        match content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase().as_str() {
            "" | "application/json" => Some(MediaType::Json),
            "application/yaml" | "application/x-yaml" | "text/yaml" => Some(MediaType::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(MediaType::Protobuf),
            "application/json-patch+json" => Some(MediaType::JsonPatch),
            "application/merge-patch+json" => Some(MediaType::MergePatch),
            "application/strategic-merge-patch+json" => Some(MediaType::StrategicMergePatch),
            "application/apply-patch+yaml" => Some(MediaType::ApplyYaml),
            _ => None,
        }
    }
}

/// A body as it came.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    /// What it is.
    pub media_type: MediaType,
    /// The bytes, at most [`BODY_BYTES_MAX`].
    pub bytes: Bytes,
}

/// A decoded body.
pub(crate) struct Decoded {
    /// The object, conforming to the schema.
    pub object: Value,
    /// The schema does not know all that was sent.
    pub has_unknown: bool,
    /// Unknown and duplicate fields, in upstream's words.
    pub warnings: Vec<String>,
}

/// Decodes an object of the kind `gvk` with `schema`.
pub(crate) fn decode(
    payload: &Payload,
    gvk: &Gvk,
    schema: &Schema,
    validation: FieldValidation,
) -> Result<Decoded, ApiError> {
    let (mut tree, complaints) = tree_of(payload, gvk, schema)?;
    expect_kind(&mut tree, gvk)?;
    conform(tree, schema, validation, complaints)
}

/// Decodes a part of an object (an apply configuration), in which zero values count. Whether merging takes it is the
/// first question, so that complaints wait to be [`judged`] and unknown fields are none of them.
pub(crate) fn decode_partial(payload: &Payload, gvk: &Gvk, schema: &Schema) -> Result<Decoded, ApiError> {
    let (mut tree, duplicates) = tree_of(payload, gvk, schema)?;
    expect_kind(&mut tree, gvk)?;
    let conformed = conformed(tree, schema, Mode::Partial)?;
    Ok(Decoded { object: conformed.value, has_unknown: !conformed.unknown.is_empty(), warnings: duplicates })
}

/// Drops what the schema does not know, refuses wrong types, and deals with complaints as the request asks.
pub(crate) fn conform(
    tree: Value,
    schema: &Schema,
    validation: FieldValidation,
    duplicates: Vec<String>,
) -> Result<Decoded, ApiError> {
    let conformed = conformed(tree, schema, Mode::Whole)?;
    let has_unknown = !conformed.unknown.is_empty();
    let mut complaints = conformed.unknown;
    complaints.extend(duplicates);
    Ok(Decoded { object: conformed.value, has_unknown, warnings: judged(complaints, validation)? })
}

fn conformed(tree: Value, schema: &Schema, mode: Mode) -> Result<schema::Conformed, ApiError> {
    schema::conform_as(schema, tree, mode).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// What becomes of complaints: an error, warnings or nothing.
pub(crate) fn judged(mut complaints: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, ApiError> {
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(ApiError::bad_request(format!("strict decoding error: {}", complaints.join(", "))))
        }
        FieldValidation::Warn => {
            complaints.truncate(FIELD_WARNINGS_MAX);
            Ok(complaints)
        }
        _ => Ok(Vec::new()),
    }
}

fn tree_of(payload: &Payload, gvk: &Gvk, schema: &Schema) -> Result<(Value, Vec<String>), ApiError> {
    match payload.media_type {
        MediaType::Protobuf => {
            let refuse = |error: String| ApiError::bad_request(format!("unable to decode the protobuf body: {error}"));
            let envelope = proto::unwrap_envelope(&payload.bytes).map_err(|e| refuse(e.to_string()))?;
            let mut tree = proto::decode(schema, envelope.raw).map_err(|e| refuse(e.to_string()))?;
            tree.put(&["apiVersion"], or(&envelope.api_version, &gvk.api_version()));
            tree.put(&["kind"], or(&envelope.kind, &gvk.kind));
            Ok((tree, Vec::new()))
        }
        MediaType::Yaml | MediaType::ApplyYaml => {
            let (tree, duplicates) = yaml::decode(&payload.bytes)?;
            Ok((tree, duplicates))
        }
        _ => {
            let decoded = json::decode(&payload.bytes).map_err(|error| ApiError::bad_request(error.to_string()))?;
            Ok((decoded.value, decoded.duplicates))
        }
    }
}

fn or<'a>(given: &'a str, otherwise: &'a str) -> &'a str {
    if given.is_empty() { otherwise } else { given }
}

/// The body must say, or leave out, the kind that the address means.
pub(crate) fn expect_kind(tree: &mut Value, gvk: &Gvk) -> Result<(), ApiError> {
    if !tree.is_object() {
        return Err(ApiError::bad_request("the body of the request must be a JSON object"));
    }
    let (expected, given) = (gvk.api_version(), tree.text(&["apiVersion"]).to_owned());
    if !given.is_empty() && given != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    let kind = tree.text(&["kind"]).to_owned();
    if !kind.is_empty() && kind != gvk.kind {
        return Err(ApiError::bad_request(format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            gvk.kind
        )));
    }
    tree.put(&["apiVersion"], expected);
    tree.put(&["kind"], gvk.kind.clone());
    Ok(())
}

/// Any JSON or YAML object (patches, DeleteOptions), without a schema.
pub(crate) fn decode_any(payload: &Payload) -> Result<Value, ApiError> {
    match payload.media_type {
        MediaType::Yaml | MediaType::ApplyYaml => Ok(yaml::decode(&payload.bytes)?.0),
        _ => json::decode(&payload.bytes).map(|d| d.value).map_err(|e| ApiError::bad_request(e.to_string())),
    }
}

/// Decodes the body of a request whose kind is not the address's own (TokenRequest).
pub fn decode_as(request: &crate::Request, gvk: &Gvk, schema: &str) -> Result<Value, ApiError> {
    let schema = schema::builtin(schema).ok_or_else(|| ApiError::internal(format!("{schema} has no schema")))?;
    Ok(decode(&request.body, gvk, schema, request.options.field_validation)?.object)
}

/// Decodes the body of a request for the kind that its address names.
pub fn decode_own(request: &crate::Request) -> Result<Value, ApiError> {
    let kind = &request.target.kind;
    Ok(decode(&request.body, &kind.gvk(), kind.schema.get(), request.options.field_validation)?.object)
}

/// DeleteOptions, which may come as any kind of body or not at all.
pub(crate) fn decode_delete_options(payload: &Payload, _kind: &KindDef) -> Result<Value, ApiError> {
    if payload.bytes.is_empty() {
        return Ok(Value::Null);
    }
    if payload.media_type != MediaType::Protobuf {
        return decode_any(payload);
    }
    let refuse = |error: String| ApiError::bad_request(format!("unable to decode DeleteOptions: {error}"));
    let schema = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
        .ok_or_else(|| ApiError::internal("DeleteOptions has no schema"))?;
    let envelope = proto::unwrap_envelope(&payload.bytes).map_err(|e| refuse(e.to_string()))?;
    proto::decode(schema, envelope.raw).map_err(|e| refuse(e.to_string()))
}
