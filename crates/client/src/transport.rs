//! The seam between a client and a server: one request, one response with a streamed body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

/// An error of a body under way.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// A streamed body.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// A future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// No response came: the request may or may not have been carried out.
#[derive(Debug)]
pub struct CallError {
    /// What failed.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

/// Reads a whole body of at most `bytes_max` bytes.
pub async fn read_all(mut body: Body, bytes_max: usize) -> Result<Bytes, CallError> {
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| CallError { message: error.to_string() })?;
        let Ok(data) = frame.into_data() else { continue };
        if gathered.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        if gathered.len() + data.len() > bytes_max {
            return Err(CallError { message: format!("the answer has more than {bytes_max} bytes") });
        }
        gathered.extend_from_slice(&data);
    }
    Ok(gathered.freeze())
}

/// Carries requests to an API server.
pub trait Transport: Send + Sync {
    /// Sends one request. The path and query stand in the request's URI; host and credentials are the transport's.
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>>;
}
