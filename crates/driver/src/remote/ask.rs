//! Requests of the copy: whole answers and lines of a stream.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use client::{Body, CallError, Transport};
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;

/// Most bytes of a page: 500 objects of half a megabyte.
const PAGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest line of a stream: an object is at most 1.5 MiB, and some servers allow twice that.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
const USER_AGENT: &str = concat!("setpoint/", env!("CARGO_PKG_VERSION"));

/// In what form objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    Whole,
    /// Their metadata alone.
    Metadata,
}

impl Form {
    fn accept(self, is_list: bool) -> &'static str {
        match (self, is_list) {
            (Form::Whole, _) => "application/json",
            (Form::Metadata, true) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (Form::Metadata, false) => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        }
    }
}

/// Sends a GET.
pub async fn open(
    transport: &Arc<dyn Transport>,
    path: &str,
    accept: &'static str,
) -> Result<Response<Body>, CallError> {
    let request = Request::get(path).header("accept", accept).header("user-agent", USER_AGENT).body(Bytes::new());
    transport.call(request.map_err(|error| CallError { message: error.to_string() })?).await
}

/// Reads an answer: its status and its tree.
pub async fn read(transport: &Arc<dyn Transport>, path: &str, accept: &'static str) -> Result<(u16, Value), CallError> {
    let answer = open(transport, path, accept).await?;
    let status = answer.status().as_u16();
    let bytes = client::read_all(answer.into_body(), PAGE_BYTES_MAX).await?;
    Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
}

/// Reads what must be there.
pub async fn get(transport: &Arc<dyn Transport>, path: &str, form: Form) -> Result<Value, CallError> {
    match read(transport, path, form.accept(false)).await? {
        (200, tree) => Ok(tree),
        (code, tree) => {
            let message = tree.get("message").and_then(Value::as_str).unwrap_or_default();
            Err(CallError { message: format!("{path}: {code} {message}") })
        }
    }
}

/// Reads one object's metadata: the status and the tree.
pub async fn metadata(transport: &Arc<dyn Transport>, path: &str) -> Result<(u16, Value), CallError> {
    read(transport, path, Form::Metadata.accept(false)).await
}

/// Reads a page of a list: the status and the tree.
pub async fn list(transport: &Arc<dyn Transport>, path: &str, form: Form) -> Result<(u16, Value), CallError> {
    read(transport, path, form.accept(true)).await
}

/// Opens a stream; the error is the status, 0 when no answer came.
pub async fn watch(transport: &Arc<dyn Transport>, path: &str, form: Form) -> Result<Lines, u16> {
    let answer = open(transport, path, form.accept(false)).await.map_err(|error| {
        tracing::debug!(path, %error, "no answer");
        0u16
    })?;
    match answer.status().as_u16() {
        200 => Ok(Lines { body: answer.into_body(), left: BytesMut::new(), seen: 0 }),
        code => Err(code),
    }
}

/// The lines of a body.
pub struct Lines {
    body: Body,
    left: BytesMut,
    /// Bytes of `left` that hold no end of a line.
    seen: usize,
}

impl Lines {
    /// The next line; `None` when there are no more, for whatever reason.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(at) = self.left[self.seen..].iter().position(|byte| *byte == b'\n') {
                let line = self.left.split_to(self.seen + at + 1).freeze();
                self.seen = 0;
                return Some(line);
            }
            self.seen = self.left.len();
            if self.left.len() > LINE_BYTES_MAX {
                return None;
            }
            let data = self.body.frame().await?.ok()?.into_data().unwrap_or_default();
            self.left.extend_from_slice(&data);
        }
    }
}
