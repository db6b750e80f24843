//! Sockets: TLS, HTTP/1.1 and HTTP/2, limits on what a peer may hold, orderly shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use api::BODY_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use client::Body;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use meta::ApiError;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::authn::Peer;
use crate::idle::{Busy, Impatient, Patience, Turn};
use crate::{handler, respond};

/// Connections at a time: each holds a few kilobytes and a file descriptor.
pub const CONNECTIONS_MAX: u32 = 16_384;
/// How long a peer may take for its TLS handshake, its request head, and its request body.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEAD_TIMEOUT: Duration = Duration::from_secs(32);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Of a body that is too large, this much more is taken off the line: a few times what is allowed, so that whoever is only
/// somewhat above it reads the answer.
const DISCARD_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;
/// Streams of one HTTP/2 connection (upstream's limit), and how many resets of a stream's first moments it may have.
const STREAMS_MAX: u32 = 100;
const RESETS_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 1_024;
/// Window of a stream and of a connection: one list chunk in flight is enough on the networks that we serve.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Bytes of a request's headers: four times the largest that anybody sends (a token with many claims, a user with many
/// groups). Upstream leaves Go's default of 1 MiB, with which 16,384 connections could make the server hold 16 GiB.
const HEADERS_BYTES_MAX: u32 = 64 * 1024;
/// A silent HTTP/2 peer is asked whether it is there, and dropped when it does not say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The kernel asks the same of every connection that is silent for so long.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// How long connections may take to end after the server was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// What a listener serves.
pub struct ServeConfig {
    /// The bound socket.
    pub listener: TcpListener,
    /// Certificates; read anew for every connection, so that a renewed one is used at once.
    pub tls: Arc<dyn Fn() -> Arc<tls::ServerConfig> + Send + Sync>,
    /// The user that a verified client certificate (DER) names.
    pub certificate_user: fn(&[u8]) -> Option<UserInfo>,
    /// Connections at a time; more are closed at once.
    pub connections_max: u32,
}

/// Serves until `stop` resolves, then drains.
pub async fn serve(app: Arc<App>, config: ServeConfig, stop: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(config.connections_max as usize));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = config.listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((socket, address)) = accepted else {
            // Out of descriptors, most likely: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            drop(socket);
            continue;
        };
        let (app, acceptor) = (Arc::clone(&app), TlsAcceptor::from((config.tls)()));
        let certificate_user = config.certificate_user;
        tokio::spawn(async move {
            if let Some((stream, peer)) = handshake(acceptor, socket, address, certificate_user).await {
                serve_connection(app, peer, stream).await;
            }
            drop(place);
        });
    }
    app.stop();
    // Each connection ends by itself once the app has stopped, and gives its place back.
    let all_ended = places.acquire_many(config.connections_max);
    if tokio::time::timeout(DRAIN_TIMEOUT, all_ended).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

/// Serves one connection whose peer is known, until it ends, has been idle for too long, or the app stops. What
/// [`serve`] does behind TLS: for those who have a stream that is no socket.
pub async fn serve_connection<S>(app: Arc<App>, peer: Peer, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let busy = Busy::new();
    let mut stopping = app.stopping.subscribe();
    let (turns, patience) = (busy.clone(), Patience::default());
    let stream = Impatient::new(stream, patience.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(patience.clone());
        answer(Arc::clone(&app), peer.clone(), request, turns.turn())
    });
    let server = server();
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = busy.idle() => None,
        _ = stopping.wait_for(|stopping| *stopping) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            // Who does not end then is cut off.
            tokio::time::timeout(DRAIN_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

fn server() -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEADERS_BYTES_MAX as usize);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    server
}

async fn handshake(
    acceptor: TlsAcceptor,
    socket: TcpStream,
    address: SocketAddr,
    certificate_user: fn(&[u8]) -> Option<UserInfo>,
) -> Option<(tokio_rustls::server::TlsStream<TcpStream>, Peer)> {
    // Small answers must not wait for an acknowledgement that the peer delays.
    let _ = socket.set_nodelay(true);
    // One that has vanished is found out even while nothing is to be sent: a log that is followed may be silent.
    let _ = sockopt::set_socket_keepalive(&socket, true);
    let _ = sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_AFTER);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%address, %error, "a TLS handshake failed");
            return None;
        }
        Err(_) => return None,
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(|der| certificate_user(der)).map(UserInfo::authenticated).map(Arc::new);
    Some((stream, Peer { user, is_inside: false }))
}

async fn answer(
    app: Arc<App>,
    peer: Peer,
    request: Request<Incoming>,
    turn: Turn,
) -> Result<Response<Body>, std::convert::Infallible> {
    let (parts, body) = request.into_parts();
    let response = match read_body(body).await {
        Ok(bytes) => handler::handle(&app, &peer, Request::from_parts(parts, bytes)).await,
        Err(error) => respond::error_response(&error),
    };
    Ok(response.map(|body| turn.until_end_of(body).boxed_unsync()))
}

/// Reads a body within its limits of size and time.
async fn read_body(mut body: Incoming) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(BODY_TIMEOUT, async {
        let gathered = gather(&mut body).await?;
        if gathered.is_none() {
            discard(&mut body).await?;
        }
        Ok::<_, hyper::Error>(gathered)
    });
    match read.await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(ApiError::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}"))),
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the request body could not be read: {error}"))),
        Err(_) => Err(ApiError::new(408, meta::Reason::Timeout, "the request body did not arrive in time")),
    }
}

/// The whole body, or nothing as soon as it is known to be too large.
async fn gather(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if gathered.len() + data.len() > BODY_BYTES_MAX {
            return Ok(None);
        }
        if gathered.is_empty() && body.is_end_stream() {
            return Ok(Some(data));
        }
        gathered.extend_from_slice(&data);
    }
    Ok(Some(gathered.freeze()))
}

/// Reads on and keeps nothing, up to a limit: many clients listen only when they have sent all, and would be told of a
/// broken connection instead of the reason.
async fn discard(body: &mut Incoming) -> Result<(), hyper::Error> {
    let mut discarded = 0;
    while discarded < DISCARD_BYTES_MAX
        && let Some(frame) = body.frame().await
    {
        discarded += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(())
}
