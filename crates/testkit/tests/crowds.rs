//! More at a time than is allowed: requests and connections, over real sockets. What is too much is told so at once, what
//! is within the bound goes on, and afterwards there is room again.

use std::sync::{Arc, Mutex, PoisonError};

use apiserver::{App, InProcess, Peer, serve_connection};
use bytes::Bytes;
use client::Transport;
use clock::SystemClock;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use store::{Ack, Collection, Event, Listener, Mem, ReadError, Revision, Snapshot, Store, Txn};
use testkit::{Cluster, RealServer, config_map, listen_for_complaints};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// As upstream's `--max-mutating-requests-inflight`.
const WRITES_MAX: usize = 200;

/// A store whose medium can be held.
struct Held {
    store: Arc<Mem>,
    waiting: Mutex<Option<Vec<(Txn, Ack)>>>,
    count: watch::Sender<usize>,
}

impl Held {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Option<Vec<(Txn, Ack)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self) {
        *self.waiting() = Some(Vec::new());
    }

    /// Carries out what waits, at one go, and holds what comes then.
    fn flush(&self) {
        let waiting = self.waiting().replace(Vec::new());
        self.count.send_replace(0);
        waiting.into_iter().flatten().for_each(|(txn, ack)| self.store.submit(txn, ack));
    }

    fn let_go(&self) {
        let waiting = self.waiting().take();
        waiting.into_iter().flatten().for_each(|(txn, ack)| self.store.submit(txn, ack));
    }
}

impl Store for Held {
    fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        self.store.snapshot_at(revision)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        let mut waiting = self.waiting();
        match waiting.as_mut() {
            Some(held) => {
                held.push((txn, ack));
                self.count.send_replace(held.len());
            }
            None => {
                drop(waiting);
                self.store.submit(txn, ack);
            }
        }
    }

    fn events(&self, of: &Collection, after: Revision, limit: usize) -> Result<(Vec<Event>, Revision), ReadError> {
        self.store.events(of, after, limit)
    }

    fn listen(&self, listener: Listener) {
        self.store.listen(listener);
    }

    fn compact(&self, through: Revision) {
        self.store.compact(through);
    }
}

/// Serves plain HTTP to the administrator.
async fn served(app: Arc<App>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let admin = admit::UserInfo::new("admin", [admit::user::MASTERS]).authenticated();
    let peer = Peer { user: Some(Arc::new(admin)), ..Peer::default() };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(Arc::clone(&app), peer.clone(), stream));
        }
    });
    address
}

async fn ask(at: std::net::SocketAddr, method: Method, path: String, body: Value) -> (u16, HeaderMap, Value) {
    let stream = TcpStream::connect(at).await.expect("a connection");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
    tokio::spawn(connection);
    let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("host", "a");
    let request = request.header("content-type", "application/json").body(Full::new(bytes)).expect("a request");
    let response = sender.send_request(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn held_cluster() -> (Cluster, Arc<Held>) {
    let mut held = None;
    let cluster = Cluster::api_through(|store| {
        let through = Arc::new(Held { store, waiting: Mutex::default(), count: watch::Sender::new(0) });
        held = Some(Arc::clone(&through));
        through
    });
    let cluster = cluster.await;
    (cluster, held.expect("it was made"))
}

/// On a medium that takes what waits at one go, as a group commit does, everybody who chose an address at the same time chose
/// against the others.
#[tokio::test]
async fn a_crowd_of_services_finds_addresses() {
    /// Far more than one request may be tried.
    const CROWD: usize = 100;
    let (cluster, held) = held_cluster().await;
    let cluster = Arc::new(cluster);
    held.hold();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "web-"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}}});
    let created: Vec<_> = (0..CROWD)
        .map(|_| {
            let (cluster, service) = (Arc::clone(&cluster), service.clone());
            tokio::spawn(async move { cluster.post("/api/v1/namespaces/default/services", &service).await })
        })
        .collect();
    let medium = tokio::spawn(async move {
        let mut count = held.count.subscribe();
        while count.wait_for(|count| *count > 0).await.is_ok() {
            // Whoever can come comes before the medium is ready.
            for _ in 0..CROWD {
                tokio::task::yield_now().await;
            }
            held.flush();
        }
    });
    let mut addresses = std::collections::BTreeSet::new();
    for answer in created {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.body);
        addresses.insert(answer.body["spec"]["clusterIP"].to_string());
    }
    assert_eq!(addresses.len(), CROWD);
    medium.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_requests_at_a_time_are_told_to_come_back() {
    let (cluster, held) = held_cluster().await;
    let at = served(Arc::clone(&cluster.app)).await;
    let create = |name: String| ask(at, Method::POST, CONFIG_MAPS.to_owned(), config_map(&name, "1"));
    held.hold();
    let within: Vec<_> = (0..WRITES_MAX).map(|at| tokio::spawn(create(format!("within-{at}")))).collect();
    held.count.subscribe().wait_for(|count| *count == WRITES_MAX).await.expect("it lives");
    let (code, headers, status) = create("above".to_owned()).await;
    assert_eq!((code, status["reason"].as_str()), (429, Some("TooManyRequests")), "{status}");
    assert_eq!(headers.get("retry-after").map(|value| value.as_bytes()), Some(&b"1"[..]));
    assert_eq!(status["details"]["retryAfterSeconds"], 1, "{status}");
    // Reads have a bound of their own, and the health of the server none.
    assert_eq!(ask(at, Method::GET, CONFIG_MAPS.to_owned(), Value::Null).await.0, 200);
    assert_eq!(ask(at, Method::GET, "/readyz".to_owned(), Value::Null).await.0, 200);
    held.let_go();
    for request in within {
        assert_eq!(request.await.expect("no panic").0, 201);
    }
    assert_eq!(create("above".to_owned()).await.0, 201, "there is room again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_inside_waits_for_itself_and_for_nobody_else() {
    let (cluster, held) = held_cluster().await;
    let at = served(Arc::clone(&cluster.app)).await;
    let admin = admit::UserInfo::new("admin", [admit::user::MASTERS]).authenticated();
    let inside = Arc::new(InProcess::new(Arc::clone(&cluster.app), admin));
    let create_inside = |name: String| {
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            let body = Bytes::from(config_map(&name, "1").to_string());
            let request = Request::builder().method(Method::POST).uri(CONFIG_MAPS);
            let request = request.header("content-type", "application/json").body(body).expect("a request");
            inside.call(request).await.map(|response| response.status().as_u16()).unwrap_or(0)
        })
    };
    let create = |name: String| tokio::spawn(ask(at, Method::POST, CONFIG_MAPS.to_owned(), config_map(&name, "1")));
    held.hold();
    let within: Vec<_> = (0..3 * WRITES_MAX).map(|at| create_inside(format!("inside-{at}"))).collect();
    let users: Vec<_> = (0..WRITES_MAX).map(|at| create(format!("outside-{at}"))).collect();
    // More are at the store than users alone may have there; the others inside wait for a place.
    held.count.subscribe().wait_for(|count| *count > WRITES_MAX).await.expect("it lives");
    held.let_go();
    for user in users {
        assert_eq!(user.await.expect("no panic").0, 201);
    }
    for request in within {
        assert_eq!(request.await.expect("no panic"), 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_makes_many_nodes_is_not_turned_away_by_its_own_limit() {
    let data = tempfile::tempdir().expect("a directory");
    let nodes = 2 * WRITES_MAX;
    let many = |config: &mut server::Config| config.simulated_nodes = nodes;
    let server = RealServer::start_with(Arc::new(SystemClock::new()), data.path(), many).await;
    let found = server.get("/api/v1/nodes").await;
    assert_eq!(found.body["items"].as_array().map(Vec::len), Some(nodes));
    server.stop().await;
}

/// So many connections are held; each takes two descriptors here, where both of its ends are.
const CONNECTIONS: u64 = 10_000;
/// Long: nothing here measures time.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
/// What everything else in the process may need.
const OTHER_FILES: u64 = 1_000;
/// A connection that says nothing holds its socket and a task, not buffers for requests.
const CONNECTION_KB_MAX: u64 = 16;

/// Raises the limit of open files; how many connections fit.
fn room_for_connections() -> u64 {
    let wanted = Some(2 * CONNECTIONS + OTHER_FILES);
    let now = getrlimit(Resource::Nofile);
    // Who may not raise the hard limit raises the soft one as far as it goes.
    if setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: now.maximum.max(wanted) }).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    CONNECTIONS.min(files.saturating_sub(OTHER_FILES) / 2)
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Whether a connection is let in: it then learns that it does not speak TLS.
async fn is_let_in(server: &RealServer) -> bool {
    let Ok(mut stream) = TcpStream::connect(server.address).await else { return false };
    let said = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    let mut answer = [0; 1];
    said.is_ok() && stream.read(&mut answer).await.is_ok_and(|read| read > 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_silent_connections_are_bounded() {
    listen_for_complaints();
    let bound = room_for_connections();
    let data = tempfile::tempdir().expect("a directory");
    let connections_max = u32::try_from(bound).expect("few enough");
    let clock = Arc::new(SystemClock::new());
    let server = RealServer::start_with(clock, data.path(), |config| config.connections_max = connections_max).await;
    let before = resident_kb();
    let mut silent = Vec::new();
    for _ in 0..bound {
        silent.push(TcpStream::connect(server.address).await.expect("a connection"));
    }
    // Those who say nothing lose their places after a while, so it may take more than one.
    let mut tries = 0;
    while is_let_in(&server).await {
        tries += 1;
        assert!(tries < bound, "nobody is turned away");
        silent.push(TcpStream::connect(server.address).await.expect("a connection"));
    }
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < bound * CONNECTION_KB_MAX, "{grown} KiB for {bound} connections");
    drop(silent);
    let let_in = async { while !is_let_in(&server).await {} };
    tokio::time::timeout(PATIENCE, let_in).await.expect("there is room again");
    server.is_well().await;
    server.stop().await;
}
