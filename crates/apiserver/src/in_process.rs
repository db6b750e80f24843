//! The transport of components that live in the server's own process: the same handler, no socket.

use std::sync::Arc;

use admit::UserInfo;
use bytes::Bytes;
use client::{Body, BoxFuture, CallError, Transport};
use http::{Request, Response};

use crate::app::App;
use crate::authn::Peer;
use crate::handler;

/// Sends requests as one user. Built-in components have no privilege beyond what their user is granted.
pub struct InProcess {
    app: Arc<App>,
    peer: Peer,
}

impl InProcess {
    /// A transport that acts as `user`.
    pub fn new(app: Arc<App>, user: UserInfo) -> InProcess {
        InProcess { app, peer: Peer { user: Some(Arc::new(user)), is_inside: true } }
    }
}

impl Transport for InProcess {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
        Box::pin(async move { Ok(handler::handle(&self.app, &self.peer, request).await) })
    }
}
