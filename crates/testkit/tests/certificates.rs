//! Certificates at their end: the server starts with expired ones and renews them while it runs.

use std::sync::Arc;

use clock::{Clock, ManualClock, SystemClock, SystemIds};
use meta::Time;
use pki::{Pki, PkiConfig};
use testkit::RealServer;

const DAY: i64 = 24 * 60 * 60;

fn days_ago(days: i64) -> Time {
    Time::from_secs(SystemClock::new().now().as_secs() - days * DAY)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_with_expired_certificates() {
    let data = tempfile::tempdir().expect("a directory");
    let then = Arc::new(ManualClock::at(days_ago(800)));
    let old = Pki::load_or_create(PkiConfig::new(data.path().join("pki")), then, Arc::new(SystemIds)).expect("keys");
    let (ca, leaf) = (old.ca().pem().to_owned(), old.server());
    assert!(leaf.until() < days_ago(0), "the certificate has expired");
    let server = RealServer::start(data.path()).await;
    assert_eq!(server.pki().ca().pem(), ca, "the authority stays");
    // The client here checks the server's certificate as everybody does, and shows one of its own.
    assert_eq!(server.get("/readyz").await.code, 200);
    assert_eq!(server.get("/api/v1/namespaces/kube-system").await.code, 200);
    let expired = server.connect("http/1.1", Some(&old.admin())).await;
    assert!(refused(expired).await, "an expired certificate proves nothing");
    server.stop().await;
}

/// TLS 1.3 tells the client of a refused certificate with the first bytes that it reads.
async fn refused(stream: std::io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let Ok(mut stream) = stream else { return true };
    let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    stream.read(&mut [0; 16]).await.is_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_renewed_while_the_server_runs() {
    let data = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::at(days_ago(360)));
    let server = RealServer::start_by(clock.clone(), data.path()).await;
    let shown = async || {
        let stream = server.connect_admin("http/1.1").await;
        stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned().expect("a certificate")
    };
    let (first, kubeconfig) = (shown().await, server.kubeconfig());
    assert_eq!(shown().await, first, "nothing is due");
    // An open connection lives on with what it was begun with.
    let open = server.connect_admin("http/1.1").await;
    clock.jump_to(days_ago(0));
    let second = shown().await;
    assert_ne!(second, first, "the next connection shows a new one");
    assert_eq!(shown().await, second);
    assert_ne!(server.kubeconfig(), kubeconfig, "people get a new one too");
    let request = http::Request::get("/readyz").body(bytes::Bytes::new()).expect("a request");
    assert_eq!(server.exchange(open, request).await.code, 200);
    server.stop().await;
}
