//! Bad input over real HTTPS: each is refused with the right words, and the server is as before.

use bytes::Bytes;
use http::Method;
use serde_json::json;
use testkit::{RealServer, config_map, listen_for_complaints};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
/// Memory that abuse may take for a while: far above noise, far below what an unbounded buffer would.
const GROWTH_KB_MAX: u64 = 200 * 1024;

async fn server() -> (tempfile::TempDir, RealServer) {
    listen_for_complaints();
    let data = tempfile::tempdir().expect("a directory");
    let server = RealServer::start(data.path()).await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("kept", "1")).await.code, 201);
    (data, server)
}

/// The server answers, complained of nothing, and has what it had.
async fn is_as_before(server: &RealServer) {
    server.is_well().await;
    let kept = server.get(&format!("{CONFIG_MAPS}/kept")).await;
    assert_eq!(kept.body["data"]["value"], "1", "{}", kept.body);
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_queries_that_are_wrong() {
    let (_data, server) = server().await;
    let kept = format!("{CONFIG_MAPS}/kept");
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
        d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
        g: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let map = |more: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"bad"}}{more}}}"#);
    let named = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let pod = |cpu: &str| {
        json!({"metadata": {"name": "bad"}, "spec": {"containers": [
            {"name": "a", "image": "b", "resources": {"limits": {"cpu": cpu}}},
        ]}})
        .to_string()
    };
    let get = |query: &str| (Method::GET, format!("{CONFIG_MAPS}?{query}"), JSON, Vec::new());
    let post = |path: &str, content_type: &'static str, body: &[u8]| {
        (Method::POST, path.to_owned(), content_type, body.to_vec())
    };
    let patch =
        |content_type: &'static str, body: &str| (Method::PATCH, kept.clone(), content_type, body.as_bytes().to_vec());
    let rows = vec![
        // Bodies.
        (post(CONFIG_MAPS, JSON, b""), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, b"null"), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, b"[]"), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, b"{"), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, b"\xef\xbb\xbf{}"), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, map(r#","data":{"a":1e400}"#).as_bytes()), 400, "BadRequest"),
        (post(CONFIG_MAPS, JSON, map(r#","data":{"a":1}"#).as_bytes()), 400, "BadRequest"),
        (post(CONFIG_MAPS, YAML, laughs.as_bytes()), 400, "BadRequest"),
        (post(CONFIG_MAPS, YAML, b"a: b\n---\nc: d\n"), 400, "BadRequest"),
        (post(CONFIG_MAPS, YAML, b"a: .inf"), 400, "BadRequest"),
        (post(CONFIG_MAPS, "application/cbor", b"\xd9\xd9\xf7\xa0"), 415, "UnsupportedMediaType"),
        (post(CONFIG_MAPS, "application/vnd.kubernetes.protobuf", b"{}"), 400, "BadRequest"),
        (post(CONFIG_MAPS, "application/vnd.kubernetes.protobuf", b"k8s\0\xff\xff\xff\xff\xff"), 400, "BadRequest"),
        (post(CONFIG_MAPS, "text/plain", b"x"), 415, "UnsupportedMediaType"),
        // Duplicates and unknown fields count when the client says so.
        (
            post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), JSON, map(r#","data":{},"data":{}"#).as_bytes()),
            400,
            "BadRequest",
        ),
        (
            post(&format!("{CONFIG_MAPS}?fieldValidation=Strict"), JSON, map(r#","datum":{}"#).as_bytes()),
            400,
            "BadRequest",
        ),
        // Names.
        (post(CONFIG_MAPS, JSON, named("..").as_bytes()), 422, "Invalid"),
        (post(CONFIG_MAPS, JSON, named("a/b").as_bytes()), 422, "Invalid"),
        (post(CONFIG_MAPS, JSON, named("%2e%2e").as_bytes()), 422, "Invalid"),
        (post(CONFIG_MAPS, JSON, named("").as_bytes()), 422, "Invalid"),
        (post(CONFIG_MAPS, JSON, named("a\u{0}b").as_bytes()), 422, "Invalid"),
        // Quantities.
        (post(PODS, JSON, pod("0x1").as_bytes()), 400, "BadRequest"),
        (post(PODS, JSON, pod("1Ki1").as_bytes()), 400, "BadRequest"),
        (post(PODS, JSON, pod("١").as_bytes()), 400, "BadRequest"),
        // Revisions, pages, selectors.
        (get("resourceVersion=-1"), 400, "BadRequest"),
        (get("resourceVersion=18446744073709551616"), 400, "BadRequest"),
        (get("resourceVersion=9999999"), 504, "Timeout"),
        (get("continue=forged"), 400, "BadRequest"),
        (get("limit=many"), 400, "BadRequest"),
        (get("labelSelector=a%3D%3Db%3D%3Dc"), 400, "BadRequest"),
        (get("labelSelector=a+in+("), 400, "BadRequest"),
        (get("fieldSelector=spec.nothing%3Dx"), 400, "BadRequest"),
        (get("labelSelector=%ff"), 400, "BadRequest"),
        (get("resourceVersionMatch=exact&resourceVersion=1"), 422, "Invalid"),
        (get("resourceVersionMatch=Exact"), 422, "Invalid"),
        (get("sendInitialEvents=true"), 422, "Invalid"),
        (get("watch=1&sendInitialEvents=true"), 422, "Invalid"),
        (post(&format!("{CONFIG_MAPS}?fieldValidation=strict"), JSON, map("").as_bytes()), 422, "Invalid"),
        (post(&format!("{CONFIG_MAPS}?dryRun=yes"), JSON, map("").as_bytes()), 422, "Invalid"),
        (post(&format!("{CONFIG_MAPS}?fieldManager=%07"), JSON, map("").as_bytes()), 422, "Invalid"),
        ((Method::DELETE, format!("{kept}?propagationPolicy=None"), JSON, Vec::new()), 422, "Invalid"),
        // Patches.
        (patch(JSON_PATCH, r#"[{"op":"move","from":"/data","path":"/data/x"}]"#), 422, "Invalid"),
        (patch(JSON_PATCH, r#"[{"op":"remove","path":"/nothing"}]"#), 422, "Invalid"),
        (patch(JSON_PATCH, r#"[{"op":"add","path":"/metadata/finalizers/4294967296","value":"a/b"}]"#), 422, "Invalid"),
        (patch(JSON_PATCH, r#"{"op":"add"}"#), 400, "BadRequest"),
        (patch(MERGE, "[]"), 400, "BadRequest"),
        (patch(APPLY, "{}"), 422, "Invalid"),
        (patch("application/merge-patch", "{}"), 415, "UnsupportedMediaType"),
        // Methods and paths.
        ((Method::POST, kept.clone(), JSON, b"{}".to_vec()), 405, "MethodNotAllowed"),
        ((Method::GET, "//api/v1/pods".to_owned(), JSON, Vec::new()), 404, "NotFound"),
        ((Method::GET, "/api/v1/namespaces/../pods".to_owned(), JSON, Vec::new()), 404, "NotFound"),
        ((Method::GET, "/api/v1/namespaces/a%2fb/pods".to_owned(), JSON, Vec::new()), 404, "NotFound"),
        ((Method::GET, "/api/v1/pods;a=b".to_owned(), JSON, Vec::new()), 404, "NotFound"),
        (
            (Method::GET, "/api/v1/namespaces/default/namespaces/kube-system".to_owned(), JSON, Vec::new()),
            404,
            "NotFound",
        ),
    ];
    let mut wrong = Vec::new();
    for ((method, path, content_type, body), code, reason) in rows {
        let shown = format!("{method} {path} {}", String::from_utf8_lossy(&body));
        let answer = server.ask(method, &path, content_type, body).await;
        let fits = answer.code == code && answer.body["reason"] == reason;
        if !fits {
            wrong.push(format!("{shown:.160}\n  expected {code} {reason}, got {} {:.300}", answer.code, answer.body));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    is_as_before(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_somebody_by_saying_so() {
    let (_data, server) = server().await;
    let ask = async |headers: &[(&str, &str)]| {
        let mut request = http::Request::get(format!("{CONFIG_MAPS}/kept"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let stream = server.connect("http/1.1", None).await.expect("a connection");
        server.exchange(stream, request.body(Bytes::new()).expect("a request")).await.code
    };
    assert_eq!(ask(&[("x-remote-user", "admin"), ("x-remote-group", "system:masters")]).await, 403);
    assert_eq!(ask(&[("impersonate-user", "admin"), ("impersonate-group", "system:masters")]).await, 403);
    assert_eq!(ask(&[("impersonate-group", "system:masters")]).await, 400);
    assert_eq!(ask(&[("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")]).await, 401);
    assert_eq!(ask(&[("authorization", "Basic YWRtaW46YWRtaW4=")]).await, 403);
    is_as_before(&server).await;
    server.stop().await;
}

/// Sends raw bytes as the administrator and reads until the server ends or has answered enough.
async fn raw(server: &RealServer, bytes: &[u8]) -> String {
    let mut stream = server.connect_admin("http/1.1").await;
    stream.write_all(bytes).await.expect("sent");
    stream.shutdown().await.expect("said that no more comes");
    let mut answer = Vec::new();
    let _ = stream.take(64 * 1024).read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_that_is_wrong() {
    let (_data, server) = server().await;
    let post = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n");
    let body = config_map("bad", "1").to_string();
    // Lengths that lie, in either direction and twice; a compressed body, which nobody asked for; smuggling.
    raw(&server, format!("{post}content-length: {}\r\n\r\n{body}", body.len() + 10).as_bytes()).await;
    let short = raw(&server, format!("{post}content-length: 5\r\n\r\n{body}").as_bytes()).await;
    assert!(short.is_empty() || short.starts_with("HTTP/1.1 400"), "{short}");
    let twice = raw(&server, format!("{post}content-length: 5\r\ncontent-length: 6\r\n\r\n{body}").as_bytes()).await;
    assert!(twice.is_empty() || twice.starts_with("HTTP/1.1 400"), "{twice}");
    raw(&server, format!("{post}transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{body}").as_bytes()).await;
    raw(&server, format!("{post}transfer-encoding: chunked\r\n\r\nzz\r\n{body}").as_bytes()).await;
    raw(&server, b"\x00\x01\x02\x03\r\n\r\n").await;
    raw(&server, b"GET / HTTP/9.9\r\n\r\n").await;
    let gzip = http::Request::post(CONFIG_MAPS).header("content-type", JSON).header("content-encoding", "gzip");
    let gzip = server
        .send(gzip.body(Bytes::from_static(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0")).expect("a request"))
        .await;
    assert_eq!(gzip.code, 400, "{}", gzip.body);
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/bad")).await.code, 404, "nothing of these was made");
    is_as_before(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_say_nothing_or_half() {
    let (_data, server) = server().await;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(server.address).await.expect("a connection"));
    }
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut stream = server.connect_admin("http/1.1").await;
        stream
            .write_all(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
            .await
            .expect("sent");
        halves.push(stream);
    }
    is_as_before(&server).await;
    drop((held, halves));
    server.stop().await;
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:method GET`, `:scheme https`, `:authority a`, `:path /livez`.
const GET_LIVEZ: &[u8] = b"\x82\x87\x41\x01a\x44\x06/livez";

/// Sends frames of HTTP/2 until the server ends the connection or all are sent; how many bytes it took.
async fn flood(server: &RealServer, frames: impl Iterator<Item = Vec<u8>>) -> (bool, usize) {
    let stream = server.connect_admin("h2").await;
    let (read, mut write) = tokio::io::split(stream);
    let reading = tokio::spawn(drain(read));
    let outcome = pour(&mut write, frames).await;
    let _ = write.shutdown().await;
    reading.abort();
    outcome
}

async fn drain(mut read: impl AsyncRead + Unpin) {
    let mut into = vec![0; 16 * 1024];
    while read.read(&mut into).await.is_ok_and(|count| count > 0) {}
}

async fn pour(write: &mut (impl AsyncWrite + Unpin), frames: impl Iterator<Item = Vec<u8>>) -> (bool, usize) {
    let mut sent = 0;
    if write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.is_err() {
        return (true, sent);
    }
    for bytes in std::iter::once(frame(4, 0, 0, &[])).chain(frames) {
        if write.write_all(&bytes).await.is_err() {
            return (true, sent);
        }
        sent += bytes.len();
    }
    (false, sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames() {
    let (_data, server) = server().await;
    let before = resident_kb();
    let stream = |at: u32| at * 2 + 1;
    // Streams opened and reset at once (CVE-2023-44487).
    let resets =
        (0..100_000).flat_map(|at| [frame(1, 5, stream(at), GET_LIVEZ), frame(3, 0, stream(at), &[0, 0, 0, 8])]);
    let (ended, _) = flood(&server, resets).await;
    assert!(ended, "resets are counted");
    // Headers that never end: far more than headers may have.
    let endless = (0..10_000).map(|at| match at {
        0 => frame(1, 1, 1, GET_LIVEZ),
        _ => frame(9, 0, 1, &[b"\x40\x0aabcdefghij\x7f\xe1\x00".as_slice(), &[b'x'; 223]].concat()),
    });
    let (ended, _) = flood(&server, endless).await;
    assert!(ended, "headers have an end");
    // Empty data, settings and pings cost their sender more than the server.
    flood(&server, (0..50_000).map(|_| frame(4, 0, 0, &[]))).await;
    flood(&server, (0..50_000).map(|_| frame(6, 0, 0, &[0; 8]))).await;
    // Window updates of streams that do not exist, and of nothing (CVE-2025-8671).
    let (ended, _) = flood(
        &server,
        (0..100_000).flat_map(|at| [frame(1, 5, stream(at), GET_LIVEZ), frame(8, 0, stream(at), &[0; 4])]),
    )
    .await;
    assert!(ended, "faults of a stream are counted");
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < GROWTH_KB_MAX, "{grown} KiB");
    is_as_before(&server).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_never_read() {
    let (_data, server) = server().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect_admin("http/1.1").await;
        let request = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        silent.push(stream);
    }
    let before = resident_kb();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(server.connect_admin("http/1.1").await))
            .await
            .expect("HTTP");
    let connection = tokio::spawn(connection);
    let value = "x".repeat(2_000);
    for at in 0..2_000 {
        let patch = json!({"data": {"value": "1", "more": format!("{at}{value}")}}).to_string();
        let request =
            http::Request::patch(format!("{CONFIG_MAPS}/kept")).header("host", "a").header("content-type", MERGE);
        let request = request.body(http_body_util::Full::new(Bytes::from(patch))).expect("a request");
        sender.ready().await.expect("a connection");
        let response = sender.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), 200);
        http_body_util::BodyExt::collect(response.into_body()).await.expect("a body");
    }
    connection.abort();
    // 20 watchers of 2,000 events of 2 KB would be 80 MB had each its own queue; the shared history is bounded by itself.
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < GROWTH_KB_MAX, "{grown} KiB");
    is_as_before(&server).await;
    drop(silent);
    server.stop().await;
}
