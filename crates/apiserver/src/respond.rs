//! Answers as HTTP responses. Lists are streamed from stored bytes: memory is one chunk a list, not one list.

use std::sync::Arc;

use api::{Answer, Body as AnswerBody, ListAnswer, Representation};
use bytes::{BufMut, Bytes, BytesMut};
use client::{Body, BoxError};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use meta::{ApiError, Time};
use serde_json::{Value, json};

use crate::app::App;
use crate::stream;

/// Bytes gathered before a chunk of a list is sent: large enough that framing costs nothing, small enough that a
/// hundred lists at once stay within a few megabytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Most warnings sent, and their length in all (upstream's limits).
const WARNINGS_BYTES_MAX: usize = 4_096;

/// A body of bytes at hand.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A JSON response.
pub fn json_response(code: u16, bytes: impl Into<Bytes>) -> Response<Body> {
    typed_response(code, "application/json", full(bytes))
}

/// A response of any type.
pub fn typed_response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A tree as a JSON response.
pub fn tree_response(code: u16, tree: &Value) -> Response<Body> {
    json_response(code, serde_json::to_vec(tree).unwrap_or_default())
}

/// An error as a `Status`.
pub fn error_response(error: &ApiError) -> Response<Body> {
    let mut response = tree_response(error.code, &error.to_value());
    let retry_after = error.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if retry_after > 0
        && let Ok(value) = HeaderValue::from_str(&retry_after.to_string())
    {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// An answer in the form asked for.
pub fn answer_response(
    app: &Arc<App>,
    answer: Answer,
    form: Representation,
    kind: &Arc<kinds::KindDef>,
) -> Response<Body> {
    let now = app.clock.now();
    let code = answer.code;
    let mut response = match answer.body {
        AnswerBody::Entry(entry) => json_response(code, api::represent_entry(kind, form, &entry, now)),
        AnswerBody::Tree(tree) => {
            // Statuses and other foreign kinds are never rows.
            let form = if tree["kind"] == *kind.kind { form } else { Representation::Object };
            json_response(code, api::represent_tree(kind, form, tree, now))
        }
        AnswerBody::Raw(bytes) => json_response(code, bytes),
        AnswerBody::List(list) => typed_response(code, "application/json", list_body(*list, form, now)),
        AnswerBody::Watch(watch) => typed_response(code, "application/json", stream::body(app, *watch, form)),
    };
    add_warnings(&mut response, &answer.warnings);
    response
}

/// One `Warning: 299 - "..."` header each.
fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let mut seen = std::collections::BTreeSet::new();
    let mut bytes_left = WARNINGS_BYTES_MAX;
    for warning in warnings.iter().filter(|w| seen.insert(w.as_str())) {
        let text: String = warning.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if text.len() > bytes_left {
            return;
        }
        bytes_left -= text.len();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
}

fn list_body(list: ListAnswer, form: Representation, now: Time) -> Body {
    let head = list_head(&list, form);
    let mut chunks = ListChunks { list, form, now, next: 0, head: Some(head), finished: false };
    // A short list is sent whole, with its length.
    let first = chunks.next_chunk().unwrap_or_default();
    if chunks.finished {
        return full(first);
    }
    ListBody { first: Some(first), chunks }.boxed_unsync()
}

/// Everything before the first item.
fn list_head(list: &ListAnswer, form: Representation) -> Vec<u8> {
    let (api_version, kind) = form.list_kind(&list.kind);
    let mut metadata = json!({"resourceVersion": list.revision.0.to_string()});
    if !list.page.continue_token.is_empty() {
        metadata["continue"] = json!(list.page.continue_token);
    }
    if let Some(remaining) = list.page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let mut head = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
    let items = match form {
        Representation::Table(_) => {
            head["columnDefinitions"] = api::table_head(&list.kind, true)["columnDefinitions"].take();
            "rows"
        }
        _ => "items",
    };
    let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
    // The closing brace comes after the items.
    bytes.pop();
    bytes.extend_from_slice(format!(",\"{items}\":[").as_bytes());
    bytes
}

struct ListChunks {
    list: ListAnswer,
    form: Representation,
    now: Time,
    next: usize,
    head: Option<Vec<u8>>,
    finished: bool,
}

impl ListChunks {
    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.finished {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES.min(1024 + (self.list.entries.len() - self.next) * 512));
        if let Some(head) = self.head.take() {
            chunk.put_slice(&head);
        }
        while let Some(entry) = self.list.entries.get(self.next) {
            if chunk.len() >= CHUNK_BYTES {
                return Some(chunk.freeze());
            }
            if self.next > 0 {
                chunk.put_u8(b',');
            }
            chunk.put_slice(&api::represent_list_item(&self.list.kind, self.form, entry, self.now));
            self.next += 1;
        }
        chunk.put_slice(b"]}");
        self.finished = true;
        Some(chunk.freeze())
    }
}

struct ListBody {
    first: Option<Bytes>,
    chunks: ListChunks,
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = self.first.take().or_else(|| self.chunks.next_chunk());
        std::task::Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }
}
