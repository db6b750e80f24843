//! Raw bytes on a connection of the real server: HTTP/1.1 and HTTP/2, without TLS.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use admit::tokens::{SignatureError, SignatureVerifier, TokenConfig, TokenSigner};
use admit::user::MASTERS;
use apiserver::{App, AppConfig, Identity, Peer, serve_connection};
use clock::{ManualClock, SeededIds};
use meta::Time;
use serde_json::json;
use store::{Mem, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::inputs;

/// More than this is not read: a list of everything is smaller.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Virtual time: far beyond every limit of the server's, so that only a connection that never ends is one.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// After so many writes the server starts anew: each input meets about the same one.
const REVISIONS_MAX: u64 = 500;

struct Nobody;

impl SignatureVerifier for Nobody {
    fn verify(&self, _: &str, _: &str, _: &[u8], _: &[u8]) -> Result<(), SignatureError> {
        Err(SignatureError::UnknownKey)
    }
}

impl TokenSigner for Nobody {
    fn algorithm(&self) -> &str {
        "ES256"
    }
    fn key_id(&self) -> &str {
        "nobody"
    }
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("nobody signs".to_owned())
    }
}

struct World {
    runtime: Runtime,
    app: Arc<App>,
}

impl World {
    fn new() -> World {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let identity = Identity {
            tokens: TokenConfig { issuer: "me".to_owned(), audiences: vec!["me".to_owned()], ..TokenConfig::default() },
            signer: Arc::new(Nobody),
            verifier: Arc::new(Nobody),
            key_set: json!({"keys": []}),
        };
        let store: Arc<dyn Store> = Arc::new(Mem::default());
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let ids = Arc::new(SeededIds::new(1));
        let app = App::new(AppConfig { store, clock, ids, identity, git_version: "v1.37.0".to_owned() });
        app.become_ready();
        World { runtime, app }
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

/// The first byte chooses who is connected: an administrator or nobody. The connection ends, and the server is there.
pub fn http_raw(data: &[u8]) {
    let Some((who, bytes)) = data.split_first() else { return };
    WORLD.with_borrow_mut(|world| {
        if world.app.snapshot().revision().0 > REVISIONS_MAX {
            *world = World::new();
        }
        let admin = UserInfo::new("admin", [MASTERS]).authenticated();
        let admin = Peer { user: Some(Arc::new(admin)), ..Peer::default() };
        let peer = if who % 4 == 0 { Peer::default() } else { admin.clone() };
        converse(world, peer, bytes);
        let answer = converse(world, admin, b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
    });
}

/// Sends the bytes, then is silent but there, and reads what is answered until the server has had enough.
fn converse(world: &World, peer: Peer, bytes: &[u8]) -> Vec<u8> {
    let app = Arc::clone(&world.app);
    world.runtime.block_on(async move {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let serving = tokio::spawn(serve_connection(app, peer, theirs));
        let (mut read, mut write) = tokio::io::split(ours);
        let bytes = bytes.to_vec();
        let writing = tokio::spawn(async move {
            // The server may have heard enough before the end.
            let _ = write.write_all(&bytes).await;
            write
        });
        let mut answer = Vec::new();
        let mut reader = (&mut read).take(ANSWER_BYTES_MAX);
        let read_in_time = tokio::time::timeout(PATIENCE, reader.read_to_end(&mut answer)).await;
        assert!(read_in_time.is_ok(), "the connection never ends");
        drop(read);
        drop(writing.await.expect("no panic"));
        serving.await.expect("no panic in the connection");
        answer
    })
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "1GET /api/v1/pods?limit=1&watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
        "1POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n{\"metadata\":{\"name\":\"fuzz\"}}",
        "1POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n3\r\n1}\n\r\n0\r\n\r\n",
        "1GET /apis HTTP/1.1\r\nHost: a\r\nImpersonate-User: x\r\nAuthorization: Bearer a.b.c\r\n\r\nGET /version HTTP/1.0\r\n\r\n",
        "0GET //api/v1/../pods HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ]);
    seeds.push([b"1".to_vec(), h2_get(b"/api/v1/namespaces")].concat());
    seeds.push([b"1".to_vec(), h2_get(b"/livez"), frame(3, 0, 1, &[0, 0, 0, 8]), frame(6, 0, 0, &[0; 8])].concat());
    seeds.push([b"0".to_vec(), h2_get(b"/"), frame(9, 4, 1, &[0x82]), frame(8, 0, 0, &[0, 0, 255, 255])].concat());
    seeds
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream][..], payload].concat()
}

/// Preface, settings and a GET: `:method GET`, `:scheme https`, `:authority a`, `:path`.
fn h2_get(path: &[u8]) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap_or(0);
    let headers = [&[0x82, 0x87, 0x41, 0x01, b'a', 0x44, length][..], path].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 5, 1, &headers)].concat()
}
