//! WebSockets: the handshake on an ordinary request, limits, and a socket as a stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use client::Body;
use futures_core::Stream;
use futures_util::Sink;
use http::header::{CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY};
use http::header::{SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use meta::ApiError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::idle::Patience;
use crate::respond::full;

/// The largest message taken: clients send what they read from a pipe or a file, 32 KiB or, the careless ones, all.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// What is gathered before it is read and written: one message of ours.
const BUFFER_BYTES: usize = 32 * 1024;
/// What may wait to be written. We wait for each message to be taken, so that only answers to pings come on top.
const WAITING_BYTES_MAX: usize = 256 * 1024;
/// Protocols that a client may offer.
const OFFERS_MAX: usize = 32;

/// A server's end of a WebSocket.
pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A request for a WebSocket that is granted.
pub struct Handshake {
    /// The protocol agreed on; empty if the client named none.
    pub protocol: &'static str,
    key: HeaderValue,
    upgrade: OnUpgrade,
    patience: Option<Patience>,
}

impl Handshake {
    /// Reads a request. The first protocol of the client's that is among `accepted` is agreed on.
    pub fn of(http: &http::Request<Bytes>, accepted: &[&'static str]) -> Result<Handshake, ApiError> {
        let headers = http.headers();
        let required = || ApiError::bad_request("Upgrade request required");
        if !has_word(headers, &CONNECTION, "upgrade") {
            return Err(required());
        }
        if !has_word(headers, &UPGRADE, "websocket") {
            let asked = headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or("");
            let message =
                format!("unable to upgrade to {asked:?}: this server speaks WebSocket (kubectl 1.31 and later)");
            return Err(ApiError::bad_request(message));
        }
        let (Some(key), Some(upgrade)) = (headers.get(SEC_WEBSOCKET_KEY), http.extensions().get::<OnUpgrade>()) else {
            return Err(required());
        };
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(ApiError::bad_request("Sec-WebSocket-Version must be 13"));
        }
        let protocol = agree(headers, &SEC_WEBSOCKET_PROTOCOL, accepted)?;
        let patience = http.extensions().get::<Patience>().cloned();
        Ok(Handshake { protocol, key: key.clone(), upgrade: upgrade.clone(), patience })
    }

    /// The answer that grants it.
    pub fn response(&self) -> Response<Body> {
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if !self.protocol.is_empty() {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(self.protocol));
        }
        response
    }

    /// The socket, once the answer is sent; `None` when the client has gone.
    pub async fn socket(self) -> Option<Socket> {
        let upgraded = self.upgrade.await.ok()?;
        // A terminal may stand still for hours.
        self.patience.iter().for_each(Patience::extend);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_write_buffer_size(WAITING_BYTES_MAX)
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        Some(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await)
    }
}

/// The words of a header that is a list.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Whether a header that is a list has this word.
pub fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    words(headers, name).any(|found| found.eq_ignore_ascii_case(word))
}

/// The first protocol that the client offers and that is accepted.
pub fn agree(headers: &HeaderMap, name: &HeaderName, accepted: &[&'static str]) -> Result<&'static str, ApiError> {
    let offered: Vec<&str> = words(headers, name).take(OFFERS_MAX).collect();
    if offered.is_empty() && accepted.contains(&"") {
        return Ok("");
    }
    let found = offered.iter().find_map(|offer| accepted.iter().find(|known| *known == offer));
    found.copied().ok_or_else(|| {
        let known: Vec<&str> = accepted.iter().copied().filter(|name| !name.is_empty()).collect();
        ApiError::bad_request(format!(
            "unable to negotiate protocol: client supports {offered:?}, server accepts {known:?}"
        ))
    })
}

/// A socket whose messages are pieces of one stream of bytes.
pub struct ByteSocket {
    socket: Socket,
    /// What of the last message was not read yet.
    rest: Bytes,
}

impl ByteSocket {
    /// Around a socket.
    pub fn new(socket: Socket) -> ByteSocket {
        ByteSocket { socket, rest: Bytes::new() }
    }
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

impl AsyncRead for ByteSocket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(context)).map_err(broken)?;
        let piece = &bytes[..bytes.len().min(BUFFER_BYTES)];
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        Pin::new(&mut self.socket).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context).map_err(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_first_choice_that_is_known() {
        let known = ["", "v5.channel.k8s.io", "channel.k8s.io"];
        let check = |offers: &[&'static str], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for offer in offers {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offer));
            }
            assert_eq!(agree(&headers, &SEC_WEBSOCKET_PROTOCOL, &known).ok(), expected, "{offers:?}");
        };
        check(&[], Some(""));
        check(&["x, channel.k8s.io", "v5.channel.k8s.io"], Some("channel.k8s.io"));
        check(&["x"], None);
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        let check = |headers: &[(&str, &str)], expected: &str| {
            let mut request = http::Request::get("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let error = Handshake::of(&request.body(Bytes::new()).expect("a request"), &[""]).map(drop);
            assert!(error.expect_err("refused").message.contains(expected), "{headers:?}");
        };
        check(&[], "Upgrade request required");
        check(&[("upgrade", "websocket")], "Upgrade request required");
        check(&[("upgrade", "h2c"), ("connection", "Upgrade")], "h2c");
        let good = [("upgrade", "WebSocket"), ("connection", "keep-alive, Upgrade"), ("sec-websocket-key", "k")];
        check(&good, "Upgrade request required");
    }
}
