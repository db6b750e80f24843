//! gRPC as far as CRI needs it: one question and one answer, or one question and a stream of answers, on one HTTP/2
//! connection over a Unix socket, which is made again when the runtime was restarted.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// Bytes of one answer: what the kubelet takes, and more than a node full of pods lists.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long a runtime may take to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Before each message: a flag of compression and the length.
const PREFIX_BYTES: usize = 5;

/// Why a call brought no answer.
#[derive(Debug)]
pub enum CallError {
    /// The runtime refused, with a code of gRPC.
    Refused { code: u32, message: String },
    /// There was no answer in time.
    Late { limit: Duration },
    /// There is no way to the runtime, or its answer is none.
    Unreachable(io::Error),
}

/// gRPC's codes that are told apart.
pub mod code {
    pub const INVALID_ARGUMENT: u32 = 3;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const NOT_FOUND: u32 = 5;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const UNAVAILABLE: u32 = 14;
}

/// A way to a runtime.
pub struct Channel {
    socket: PathBuf,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

fn unreachable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CallError {
    CallError::Unreachable(io::Error::other(error))
}

impl Channel {
    /// A way that is not gone yet.
    pub fn new(socket: PathBuf) -> Channel {
        Channel { socket, sender: Mutex::new(None) }
    }

    /// Where it leads.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// One question (`/service/Method`) and its answer, within `limit`.
    pub async fn call<A: Message + Default>(
        &self,
        method: &str,
        question: &impl Message,
        limit: Duration,
    ) -> Result<A, CallError> {
        let frame = frame(question)?;
        let asked = async {
            let answer = self.send(method, frame, Some(limit)).await?;
            let refused = code_of(answer.headers());
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX + PREFIX_BYTES).collect().await;
            let body = body.map_err(unreachable)?;
            match body.trailers().and_then(code_of).or(refused) {
                Some((0, _)) => message(body.to_bytes()),
                Some((code, message)) => Err(CallError::Refused { code, message }),
                None => Err(unreachable("the answer has no status")),
            }
        };
        tokio::time::timeout(limit, asked).await.map_err(|_| CallError::Late { limit })?
    }

    /// One question and a stream of answers. It has no limit in time: an answer comes when something happens, and the stream
    /// ends with the connection.
    pub async fn listen(&self, method: &str, question: &impl Message) -> Result<Answers, CallError> {
        let answer = self.send(method, frame(question)?, None).await?;
        if let Some((code, message)) = code_of(answer.headers()).filter(|(code, _)| *code != 0) {
            return Err(CallError::Refused { code, message });
        }
        Ok(Answers { body: answer.into_body(), held: BytesMut::new() })
    }

    /// A connection that was closed meanwhile is made again; the request had not begun then.
    async fn send(
        &self,
        method: &str,
        frame: Bytes,
        limit: Option<Duration>,
    ) -> Result<http::Response<Incoming>, CallError> {
        let mut sender = self.sender().await?;
        let mut request = Request::post(format!("http://localhost{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(limit) = limit {
            request = request.header("grpc-timeout", format!("{}S", limit.as_secs().max(1)));
        }
        let request = request.body(Full::new(frame)).map_err(unreachable)?;
        let mut refused = match sender.try_send_request(request).await {
            Ok(answer) => return Ok(answer),
            Err(refused) => refused,
        };
        *self.sender.lock().await = None;
        let Some(request) = refused.take_message() else { return Err(unreachable(refused.into_error())) };
        let mut sender = self.sender().await?;
        sender.send_request(request).await.map_err(unreachable)
    }

    async fn sender(&self) -> Result<SendRequest<Full<Bytes>>, CallError> {
        let mut kept = self.sender.lock().await;
        if let Some(sender) = kept.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let connecting = async {
            let stream = UnixStream::connect(&self.socket).await.map_err(CallError::Unreachable)?;
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.max_header_list_size(64 << 10);
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "the connection to the container runtime ended");
                }
            });
            Ok(sender)
        };
        let sender = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let sender = sender.map_err(|_| CallError::Late { limit: CONNECT_TIMEOUT })??;
        *kept = Some(sender.clone());
        Ok(sender)
    }
}

/// Answers that come one after another. Dropping it ends the call.
pub struct Answers {
    body: Incoming,
    held: BytesMut,
}

impl Answers {
    /// The next; `None` at the end.
    pub async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, CallError> {
        loop {
            if let Some(length) = self.held.get(1..PREFIX_BYTES).and_then(|four| four.try_into().ok()) {
                let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                if length > ANSWER_BYTES_MAX {
                    return Err(unreachable("an answer is too long"));
                }
                if self.held.len() >= PREFIX_BYTES + length {
                    return message(self.held.split_to(PREFIX_BYTES + length).freeze()).map(Some);
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(error)),
                Some(Ok(frame)) => {
                    if let Some((code, message)) = frame.trailers_ref().and_then(code_of).filter(|(code, _)| *code != 0)
                    {
                        return Err(CallError::Refused { code, message });
                    }
                    if let Ok(data) = frame.into_data() {
                        self.held.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn frame(question: &impl Message) -> Result<Bytes, CallError> {
    let length = question.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).map_err(unreachable)?);
    question.encode(&mut frame).map_err(unreachable)?;
    Ok(frame.freeze())
}

fn message<A: Message + Default>(mut frame: Bytes) -> Result<A, CallError> {
    if frame.len() < PREFIX_BYTES || frame.get_u8() != 0 {
        return Err(unreachable("the answer is cut or compressed"));
    }
    let length = usize::try_from(frame.get_u32()).unwrap_or(usize::MAX);
    if frame.len() != length {
        return Err(unreachable("the answer has another length than it says"));
    }
    A::decode(frame).map_err(unreachable)
}

/// Status and message; the message comes with percent signs.
fn code_of(headers: &http::HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let text = headers.get("grpc-message").map_or(&b""[..], |value| value.as_bytes());
    Some((code, unescape(text)))
}

fn unescape(text: &[u8]) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match escaped.and_then(|two| u8::from_str_radix(two, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                plain.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn messages_of_errors() {
        let check = |text: &str, expected: &str| assert_eq!(unescape(text.as_bytes()), expected);
        check("plain", "plain");
        check("100%25 of%0Ait", "100% of\nit");
        check("%zz %", "%zz %");
        check("%C3%A4", "\u{e4}");
    }

    #[test]
    fn frames_go_there_and_back() {
        let question = wire::Id { id: "x".repeat(300) };
        let bytes = frame(&question).expect("a frame");
        assert_eq!(message::<wire::Id>(bytes.clone()).expect("a message"), question);
        for bad in [bytes.slice(..4), bytes.slice(..100), Bytes::from_static(&[1, 0, 0, 0, 0])] {
            assert!(message::<wire::Id>(bad).is_err());
        }
    }
}
