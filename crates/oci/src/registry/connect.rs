//! One request on one connection. Registries are asked a dozen times for an image; a pool of connections would save
//! little (TLS sessions are resumed) and bring stale connections.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tls::{ClientConfig, RootCertStore, Trust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::hosts::{Hosts, Target, TlsOptions};
use crate::error::ImageError;
use crate::limits::Limits;

/// Of the head of an answer, and of what is read ahead of its body.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Connects to registries.
pub(super) struct Connector {
    hosts: Hosts,
    /// By the names of `Hosts::tls`; the empty one for everybody else.
    tls: BTreeMap<String, OnceLock<Result<Arc<ClientConfig>, String>>>,
}

/// What is asked with.
#[derive(Default)]
pub(super) struct Ask {
    pub headers: HeaderMap,
    /// The fields of a form; then it is sent and not only asked for.
    pub form: Option<String>,
}

/// The answer, whose body is still to be read. The connection ends with it.
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    stall_timeout: Duration,
    connection: AbortHandle,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Answer {
    /// The next piece of the body; none at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ImageError> {
        loop {
            let frame = match tokio::time::timeout(self.stall_timeout, self.body.frame()).await {
                Err(_) => return Err(ImageError::unavailable("no byte came", format!("for {:?}", self.stall_timeout))),
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => frame.map_err(|error| ImageError::unavailable("the connection broke", error))?,
            };
            // Trailers are nobody's concern.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, if it is no longer than `bytes_max`.
    pub async fn bytes(mut self, what: &str, bytes_max: u64) -> Result<Vec<u8>, ImageError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await? {
            if (whole.len() + piece.len()) as u64 > bytes_max {
                return Err(ImageError::TooLarge(format!("{what}: more than {bytes_max} bytes")));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }

    /// The text of a header.
    pub fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Connector {
    pub fn new(hosts: Hosts) -> Connector {
        let names = hosts.tls.keys().cloned().chain([String::new()]);
        Connector { tls: names.map(|name| (name, OnceLock::new())).collect(), hosts }
    }

    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Asks once.
    pub async fn ask(&self, target: &Target, ask: Ask, limits: &Limits) -> Result<Answer, ImageError> {
        self.hosts.permit(target)?;
        let connecting = tokio::time::timeout(limits.connect_timeout, self.connect(target)).await;
        let stream = match connecting {
            Ok(stream) => stream?,
            Err(_) => return Err(ImageError::unavailable(format!("connect to {}", target.authority()), "timed out")),
        };
        let failed = |error: hyper::Error| ImageError::unavailable(format!("ask {target}"), error);
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(READ_AHEAD_BYTES);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let connection = tokio::spawn(connection).abort_handle();
        let request = request(target, ask)?;
        let answer = match tokio::time::timeout(limits.stall_timeout, sender.send_request(request)).await {
            Ok(Ok(answer)) => answer,
            other => {
                connection.abort();
                return Err(match other {
                    Ok(Err(error)) => failed(error),
                    _ => ImageError::unavailable(format!("ask {target}"), "no answer came in time"),
                });
            }
        };
        let (head, body) = answer.into_parts();
        let stall_timeout = limits.stall_timeout;
        Ok(Answer { status: head.status, headers: head.headers, body, stall_timeout, connection })
    }

    async fn connect(&self, target: &Target) -> Result<Box<dyn Stream>, ImageError> {
        let failed =
            |error: std::io::Error| ImageError::unavailable(format!("connect to {}", target.authority()), error);
        let tcp = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(failed)?;
        if !target.tls {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(target.host.clone())
            .map_err(|error| ImageError::unavailable(format!("connect to {}", target.authority()), error))?;
        let connector = tokio_rustls::TlsConnector::from(self.tls(target)?);
        Ok(Box::new(connector.connect(name, tcp).await.map_err(failed)?))
    }

    /// Reads the machine's authorities at the first need.
    fn tls(&self, target: &Target) -> Result<Arc<ClientConfig>, ImageError> {
        let name = self.hosts.tls_name(target).unwrap_or_default();
        let read = || tls_config(&self.hosts.authorities_pem, self.hosts.tls.get(name));
        let config = self.tls.get(name).map_or_else(read, |config| config.get_or_init(read).clone());
        config.map_err(|text| ImageError::unavailable("cannot use TLS", text))
    }
}

/// What requests go over.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

fn request(target: &Target, ask: Ask) -> Result<Request<Full<Bytes>>, ImageError> {
    let path = if target.path.is_empty() { "/" } else { &target.path };
    let is_form = ask.form.is_some();
    let mut request = Request::builder().uri(path).body(Full::from(ask.form.unwrap_or_default()));
    if let Ok(request) = &mut request {
        *request.headers_mut() = ask.headers;
        if is_form {
            *request.method_mut() = http::Method::POST;
            let form = http::HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers_mut().insert(http::header::CONTENT_TYPE, form);
        }
        if let Ok(host) = target.authority().parse() {
            request.headers_mut().insert(http::header::HOST, host);
        }
        let agent = http::HeaderValue::from_static(concat!("setpoint/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(http::header::USER_AGENT, agent);
    }
    request.map_err(|error| ImageError::unavailable(format!("ask {target}"), error))
}

/// TLS as everybody speaks it who trusts the machine's authorities and these, and has nothing to show.
pub(super) fn tls_config(authorities_pem: &[u8], options: Option<&TlsOptions>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::warn!(%error, "some of the machine's certificate authorities cannot be read");
    }
    roots.add_parsable_certificates(native.certs);
    let own = options.map_or(&[][..], |options| &options.authorities_pem);
    for authorities in [authorities_pem, own] {
        let read = tls::certificates(authorities)
            .map_err(|why| format!("the certificate authorities cannot be read: {why}"))?;
        if read.is_empty() && !authorities.is_empty() {
            return Err("there is no certificate in the file of authorities; it must be PEM".to_owned());
        }
        roots.add_parsable_certificates(read);
    }
    let trust = if options.is_some_and(|options| options.is_unverified) {
        Trust::Anybody { checks_signatures: true }
    } else if roots.is_empty() {
        return Err("this machine trusts no certificate authority; install the package ca-certificates".to_owned());
    } else {
        Trust::Authorities(roots)
    };
    let Some((certificate, key)) = options.and_then(|options| options.client.as_ref()) else {
        return tls::client(trust, None, &[]).map(Arc::new);
    };
    let chain =
        tls::certificates(certificate).map_err(|why| format!("the client's certificate cannot be read: {why}"))?;
    let key = tls::private_key(key).map_err(|why| format!("the client's key cannot be read: {why}"))?;
    let config = tls::client(trust, Some((chain, key)), &[]);
    config.map(Arc::new).map_err(|why| format!("the client's certificate and key do not fit: {why}"))
}
