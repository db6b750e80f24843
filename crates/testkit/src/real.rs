//! A real server: its own data directory, its own port, real TLS; and what it complained about.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, SystemClock, SystemIds};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use pki::{Leaf, Pki, PkiConfig};
use rustls_pki_types::ServerName;
use serde_json::Value;
use server::{Config, StartError};
use tls::Trust;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing_subscriber::fmt::MakeWriter;

use crate::PATIENCE;

/// A server that runs in this process as `setpoint server` would.
pub struct RealServer {
    /// Where it answers.
    pub address: SocketAddr,
    data_dir: PathBuf,
    pki: Pki,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), StartError>>,
}

/// An answer with its headers.
#[derive(Debug)]
pub struct RealAnswer {
    /// HTTP status.
    pub code: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body; null when it is not JSON.
    pub body: Value,
}

impl RealServer {
    /// On a directory, which may hold a cluster already.
    pub async fn start(data_dir: &Path) -> RealServer {
        RealServer::start_by(Arc::new(SystemClock::new()), data_dir).await
    }

    /// The same by another clock.
    pub async fn start_by(clock: Arc<dyn Clock>, data_dir: &Path) -> RealServer {
        RealServer::start_with(clock, data_dir, |_| ()).await
    }

    /// The same, told something else.
    pub async fn start_with(clock: Arc<dyn Clock>, data_dir: &Path, change: impl FnOnce(&mut Config)) -> RealServer {
        let mut config = Config {
            data_dir: data_dir.to_owned(),
            names: Vec::new(),
            cluster_cidr: server::CLUSTER_CIDR.to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            kubeconfig: Some(data_dir.join("kubeconfig")),
            controllers: true,
            simulated_nodes: 0,
            node: None,
            compaction_interval: Duration::from_secs(300),
            connections_max: server::CONNECTIONS_MAX,
            git_version: "v1.37.0".to_owned(),
        };
        change(&mut config);
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, address) = oneshot::channel();
        let by = Arc::clone(&clock);
        let running = tokio::spawn(async move {
            let told = |told: server::Started| {
                let _ = started.send(told.address);
            };
            server::run_by(by, config, told, async { drop(stopped.await) }).await
        });
        let address = address.await.expect("the server starts");
        // What the server made is found, not made.
        let pki = Pki::load_or_create(PkiConfig::new(data_dir.join("pki")), clock, Arc::new(SystemIds)).expect("keys");
        RealServer { address, data_dir: data_dir.to_owned(), pki, stop, running }
    }

    /// Ends it in order.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let ended = tokio::time::timeout(PATIENCE, self.running).await.expect("it ends in time");
        ended.expect("no panic").expect("no error");
    }

    /// The kubeconfig that it wrote.
    pub fn kubeconfig(&self) -> String {
        std::fs::read_to_string(self.data_dir.join("kubeconfig")).expect("a kubeconfig")
    }

    /// The keys as they were at the start.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// A TLS connection that speaks `protocol` (`h2`, `http/1.1`); with a certificate it is the administrator's.
    pub async fn connect(&self, protocol: &str, with: Option<&Leaf>) -> std::io::Result<TlsStream<TcpStream>> {
        let roots = tls::authorities([self.pki.ca().der().clone()]).expect("an authority");
        let identity = with.map(|leaf| (vec![leaf.der().clone()], leaf.key().expect("a key")));
        let config = tls::client(Trust::Authorities(roots), identity, &[protocol.as_bytes()]).expect("fits");
        let socket = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    /// A connection of the administrator.
    pub async fn connect_admin(&self, protocol: &str) -> TlsStream<TcpStream> {
        self.connect(protocol, Some(&self.pki.admin())).await.expect("a connection")
    }

    /// Sends a request on a connection of its own, as the administrator.
    pub async fn send(&self, request: Request<Bytes>) -> RealAnswer {
        self.exchange(self.connect_admin("http/1.1").await, request).await
    }

    /// Sends a request on a connection.
    pub async fn exchange(&self, stream: TlsStream<TcpStream>, request: Request<Bytes>) -> RealAnswer {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = tokio::spawn(connection);
        let mut request = request.map(Full::new);
        request.headers_mut().entry("host").or_insert(http::HeaderValue::from_static("localhost"));
        let response = sender.send_request(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        connection.abort();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        RealAnswer { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// The same from its parts.
    pub async fn ask(&self, method: Method, path: &str, content_type: &str, body: impl Into<Bytes>) -> RealAnswer {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        self.send(request.header("user-agent", "test").body(body.into()).expect("a request")).await
    }

    /// GET.
    pub async fn get(&self, path: &str) -> RealAnswer {
        self.ask(Method::GET, path, "application/json", Bytes::new()).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> RealAnswer {
        self.ask(Method::POST, path, "application/json", body.to_string()).await
    }

    /// Fails unless the server answers and has what it had.
    pub async fn is_well(&self) {
        assert_eq!(self.get("/readyz").await.code, 200);
        assert_eq!(self.get("/api/v1/namespaces/kube-system").await.code, 200);
        let mut complaints = complaints();
        // The library says so itself when it has had enough of a peer.
        complaints.retain(|line| !line.contains(" h2::"));
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

static COMPLAINTS: LazyLock<Arc<Mutex<Vec<String>>>> = LazyLock::new(|| {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let writer = Lines(Arc::clone(&lines));
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).with_writer(writer);
    // Another test's subscriber sees the same.
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
    let panics = Arc::clone(&lines);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A test's own panics are told by the test.
        if info.location().is_some_and(|place| !place.file().contains("testkit")) {
            panics.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
        }
        before(info);
    }));
    lines
});

/// Listens for complaints from now on.
pub fn listen_for_complaints() {
    LazyLock::force(&COMPLAINTS);
}

/// What was logged as a warning or an error in this process, and its panics, since [`listen_for_complaints`].
pub fn complaints() -> Vec<String> {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;
    fn make_writer(&'a self) -> Lines {
        self.clone()
    }
}
