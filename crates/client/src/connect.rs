//! Connections for the pool: TCP, TLS, and which HTTP was agreed on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long TCP and TLS may take together (client-go: 30 s to dial and 10 s for TLS).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens TLS connections.
#[derive(Clone)]
pub struct Connector {
    tls: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// A connector; `server_name` stands in for the host where it is given.
    pub fn new(tls: ClientConfig, server_name: Option<ServerName<'static>>) -> Connector {
        Connector { tls: Arc::new(tls), server_name }
    }

    async fn connect(self, to: Uri) -> io::Result<Secured> {
        let host = to.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = match self.server_name {
            Some(name) => name,
            None => ServerName::try_from(host.clone()).map_err(io::Error::other)?,
        };
        let stream = TcpStream::connect((host.as_str(), to.port_u16().unwrap_or(443))).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(self.tls).connect(name, stream).await?;
        Ok(Secured(TokioIo::new(stream)))
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.clone().connect(to);
        Box::pin(async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(done) => done,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time")),
            }
        })
    }
}

/// A TLS connection, as the pool wants it.
pub struct Secured(TokioIo<TlsStream<TcpStream>>);

impl Connection for Secured {
    fn connected(&self) -> Connected {
        let (_, session) = self.0.inner().get_ref();
        match session.alpn_protocol() {
            Some(b"h2") => Connected::new().negotiated_h2(),
            _ => Connected::new(),
        }
    }
}

impl Read for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
