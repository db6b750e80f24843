//! The transport to an API server that is somewhere else.
//!
//! Watches and other requests have connections of their own: over HTTP/2 a server allows about a hundred streams a
//! connection, and watches never give theirs back.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::sync::Semaphore;

use crate::connect::Connector;
use crate::{Access, Acting, Body, BoxFuture, CallError, Transport, retry, tls};

/// Requests under way at a time, watches aside: below the hundred streams of a connection, and a sixth of what a
/// server lets in altogether.
const CALLS_MAX: usize = 64;
/// Watches of one connection.
const WATCHES_PER_CONNECTION: usize = 64;
/// Connections for watches: 1,024 collections.
const WATCH_CONNECTIONS: usize = 16;
/// How long an answer may take to begin; API servers give up after 60 s themselves.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(65);
/// An idle connection is asked whether it lives, and given up when it does not say so (client-go: 30 s and 15 s).
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection is kept that nobody uses (client-go: 90 s).
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Idle connections kept for HTTP/1.1, where each carries one request.
const IDLE_MAX: usize = 8;
/// How long a token from a file is used before the file is read again (client-go: a minute).
const TOKEN_AGE_MAX: Duration = Duration::from_secs(60);

type Pool = Client<Connector, Full<Bytes>>;

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
pub enum HttpsError {
    /// The certificates, keys or names of the kubeconfig do not work.
    #[error("cannot use context {context:?}: {why}")]
    Unusable {
        /// The context.
        context: String,
        /// What is wrong.
        why: String,
    },
}

/// A transport over HTTPS: HTTP/2, or HTTP/1.1 where the server has nothing else.
pub struct Https {
    server: Uri,
    calls: Pool,
    under_way: Semaphore,
    watches: Vec<Watches>,
    bearer: Option<Bearer>,
    clock: Arc<dyn Clock>,
}

/// The watches of one connection.
struct Watches {
    pool: Pool,
    open: Arc<AtomicUsize>,
}

enum Bearer {
    Fixed(HeaderValue),
    File { path: PathBuf, read: Mutex<Option<(Duration, HeaderValue)>> },
}

impl Https {
    /// The way to the server that `access` names, as whom it names. Nothing is sent before the first request.
    pub fn open(access: &Access, clock: Arc<dyn Clock>) -> Result<Arc<dyn Transport>, HttpsError> {
        let unusable = |why: String| HttpsError::Unusable { context: access.context.clone(), why };
        let named = |name: &String| ServerName::try_from(name.clone()).map_err(|e| unusable(format!("{name:?}: {e}")));
        let server_name = access.server_name.as_ref().map(named).transpose()?;
        let connector = Connector::new(tls::config(access).map_err(unusable)?, server_name);
        let watches = || Watches { pool: pool(&connector), open: Arc::default() };
        let https: Arc<dyn Transport> = Arc::new(Https {
            server: access.server.clone(),
            calls: pool(&connector),
            under_way: Semaphore::new(CALLS_MAX),
            watches: (0..WATCH_CONNECTIONS).map(|_| watches()).collect(),
            bearer: bearer(access).map_err(unusable)?,
            clock,
        });
        match &access.credential.act_as {
            None => Ok(https),
            Some((user, groups)) => match Acting::new(https, user, groups) {
                Some(acting) => Ok(Arc::new(acting)),
                None => Err(unusable(format!("nobody can be called {user:?}"))),
            },
        }
    }

    fn prepared(&self, request: Request<Bytes>) -> Result<Request<Bytes>, CallError> {
        let (mut parts, body) = request.into_parts();
        parts.uri = join(&self.server, &parts.uri).map_err(|error| CallError { message: error.to_string() })?;
        parts.headers.remove(HOST);
        if let Some(token) = self.bearer.as_ref().map(|bearer| bearer.value(&*self.clock)).transpose()? {
            parts.headers.insert(AUTHORIZATION, token);
        }
        Ok(Request::from_parts(parts, body))
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Body>, CallError> {
        let lost = |message: &str| CallError { message: message.to_owned() };
        let _turn = self.under_way.acquire().await.map_err(|_| lost("the transport is closed"))?;
        let mut tries = 0;
        loop {
            let request = self.prepared(request.clone())?;
            let path = request.uri().path().to_owned();
            let answer = send(&self.calls, request).await?;
            match retry::wait(&path, answer.status(), answer.headers()) {
                Some(span) if tries < retry::RETRIES_MAX => {
                    tries += 1;
                    tokio::time::sleep(span).await;
                }
                _ => return Ok(answer),
            }
        }
    }

    async fn watch(&self, request: Request<Bytes>) -> Result<Response<Body>, CallError> {
        let request = self.prepared(request)?;
        let free = |watches: &&Watches| watches.open.load(Ordering::Relaxed) < WATCHES_PER_CONNECTION;
        let watches = self.watches.iter().find(free).ok_or_else(|| CallError {
            message: format!("more than {} watches", WATCH_CONNECTIONS * WATCHES_PER_CONNECTION),
        })?;
        let place = Place::take(&watches.open);
        let answer = send(&watches.pool, request).await?;
        // The place is given back with the body.
        Ok(answer.map(|body| body.map_frame(move |frame| place.holding(frame)).boxed_unsync()))
    }
}

/// One watch's place on a connection.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Place {
        open.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(open))
    }

    /// Passes a frame on; whoever calls this keeps the place.
    fn holding<F>(&self, frame: F) -> F {
        frame
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transport for Https {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
        Box::pin(async move {
            match is_watch(request.uri()) {
                true => self.watch(request).await,
                false => self.ask(request).await,
            }
        })
    }
}

fn pool(connector: &Connector) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_adaptive_window(true)
        .build(connector.clone())
}

fn bearer(access: &Access) -> Result<Option<Bearer>, String> {
    // As in client-go the file wins: it is the fresher one.
    match (&access.credential.token_file, &access.credential.token) {
        (Some(path), _) => Ok(Some(Bearer::File { path: path.clone(), read: Mutex::default() })),
        (None, Some(token)) => Ok(Some(Bearer::Fixed(header(&token.0)?))),
        (None, None) => Ok(None),
    }
}

fn header(token: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| "the token is no token".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

impl Bearer {
    fn value(&self, clock: &dyn Clock) -> Result<HeaderValue, CallError> {
        let (path, read) = match self {
            Bearer::Fixed(value) => return Ok(value.clone()),
            Bearer::File { path, read } => (path, read),
        };
        let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.monotonic();
        if let Some((_, value)) = read.as_ref().filter(|(at, _)| now.saturating_sub(*at) < TOKEN_AGE_MAX) {
            return Ok(value.clone());
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        match (text.and_then(|text| header(&text)), read.as_ref()) {
            (Ok(value), _) => Ok(read.insert((now, value)).1.clone()),
            // The last one may still be good.
            (Err(_), Some((_, value))) => Ok(value.clone()),
            (Err(error), None) => Err(CallError { message: format!("{}: {error}", path.display()) }),
        }
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=1" | "watch=true")))
}

/// The server's address with the request's path behind its own.
fn join(server: &Uri, request: &Uri) -> Result<Uri, http::Error> {
    let path = format!("{}{}", server.path().trim_end_matches('/'), request);
    let path: PathAndQuery = path.parse().map_err(http::Error::from)?;
    let mut parts = server.clone().into_parts();
    parts.path_and_query = Some(path);
    Ok(Uri::from_parts(parts)?)
}

async fn send(pool: &Pool, request: Request<Bytes>) -> Result<Response<Body>, CallError> {
    let sent = pool.request(request.map(Full::new));
    match tokio::time::timeout(ANSWER_TIMEOUT, sent).await {
        Ok(Ok(answer)) => Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync())),
        Ok(Err(error)) => Err(CallError { message: stdx::chain(&error) }),
        Err(_) => Err(CallError { message: format!("no answer within {} seconds", ANSWER_TIMEOUT.as_secs()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_stands_behind_the_servers_own() {
        let check = |server: &str, request: &str, expected: &str| {
            let joined = join(&server.parse().expect("a server"), &request.parse().expect("a path")).expect("joined");
            assert_eq!(joined.to_string(), expected);
        };
        check("https://a:6443", "/api/v1/pods?watch=1", "https://a:6443/api/v1/pods?watch=1");
        check("https://a/clusters/x/", "/apis", "https://a/clusters/x/apis");
    }

    #[test]
    fn watches_are_told_from_other_requests() {
        let check = |uri: &str, expected: bool| assert_eq!(is_watch(&uri.parse().expect("a path")), expected, "{uri}");
        check("/api/v1/pods?watch=1&resourceVersion=4", true);
        check("/api/v1/pods?limit=1&watch=true", true);
        check("/api/v1/pods?fieldManager=watch", false);
        check("/api/v1/pods", false);
    }
}
