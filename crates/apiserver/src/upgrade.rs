//! The change of an ordinary request to SPDY, as client-go's older executors ask for it.

use bytes::Bytes;
use client::Body;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use meta::ApiError;

use crate::idle::Patience;
use crate::respond::full;
use crate::websocket::{agree, has_word};

const SPDY: &str = "SPDY/3.1";
const PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// A request for SPDY that is granted.
pub struct Handshake {
    /// What the streams mean, agreed on; empty if the client named nothing.
    pub protocol: &'static str,
    upgrade: OnUpgrade,
    patience: Option<Patience>,
}

impl Handshake {
    /// Reads a request; `None` when it does not ask for SPDY.
    pub fn of(http: &http::Request<Bytes>, accepted: &[&'static str]) -> Option<Result<Handshake, ApiError>> {
        let headers = http.headers();
        if !has_word(headers, &CONNECTION, "upgrade") || !has_word(headers, &UPGRADE, SPDY) {
            return None;
        }
        let upgrade = http.extensions().get::<OnUpgrade>()?.clone();
        let patience = http.extensions().get::<Patience>().cloned();
        Some(agree(headers, &PROTOCOL, accepted).map(|protocol| Handshake { protocol, upgrade, patience }))
    }

    /// The answer that grants it.
    pub fn response(&self) -> Response<Body> {
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
        if !self.protocol.is_empty() {
            headers.insert(PROTOCOL, HeaderValue::from_static(self.protocol));
        }
        response
    }

    /// The connection, once the answer is sent; `None` when the client has gone.
    pub async fn connection(self) -> Option<TokioIo<Upgraded>> {
        let upgraded = self.upgrade.await.ok()?;
        self.patience.iter().for_each(Patience::extend);
        Some(TokioIo::new(upgraded))
    }
}
