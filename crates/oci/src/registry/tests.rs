//! Pulls from a registry on the loopback interface that misbehaves in all ways.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::*;
use crate::fixture::{self, Built, Layer};
use crate::manifest::media;
use crate::{ImageError, Images, InUse, Limits, Platform, Reference, StoreOptions};

/// How a fake registry misbehaves.
#[derive(Clone, Debug, Default)]
struct Faults {
    /// Demands a token from its own `/token`, which wants this `user:password` in base64; empty for anybody.
    bearer: Option<String>,
    /// Demands this `user:password` in base64.
    basic: Option<String>,
    /// Answers of trouble before the first good one.
    busy: VecDeque<u16>,
    /// Blobs break off after so many bytes, so often.
    breaks: usize,
    /// Blobs stop coming after some bytes, so often.
    stalls: usize,
    /// Ranges are not understood.
    no_ranges: bool,
    /// Blobs are other bytes of the same length.
    wrong: bool,
    /// Blobs have more bytes than said.
    longer: bool,
    /// Blobs are elsewhere.
    blobs_at: Option<String>,
    /// All is forbidden.
    forbidden: bool,
}

struct Fake {
    built: Built,
    faults: Mutex<Faults>,
    /// Path, and the credentials that came with it.
    log: Mutex<Vec<(String, Option<String>)>>,
    address: SocketAddr,
    /// Further documents by path.
    extra: Vec<(String, &'static str, Vec<u8>)>,
}

/// A body in pieces that may break or stop.
struct Pieces {
    pieces: VecDeque<Bytes>,
    end: End,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Proper,
    Broken,
    Stalled,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match (self.pieces.pop_front(), self.end) {
            (Some(piece), _) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            (None, End::Proper) => Poll::Ready(None),
            (None, End::Broken) => Poll::Ready(Some(Err(std::io::Error::other("broken")))),
            (None, End::Stalled) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.end == End::Proper
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}

fn respond(status: u16, headers: &[(header::HeaderName, String)], bytes: &[u8]) -> Response<Pieces> {
    let body = Pieces { pieces: [Bytes::copy_from_slice(bytes)].into(), end: End::Proper, bytes: bytes.len() as u64 };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in headers {
        response.headers_mut().insert(name.clone(), value.parse().unwrap());
    }
    response
}

impl Fake {
    async fn start(built: Built, faults: Faults) -> Arc<Fake> {
        Fake::start_with(built, faults, Vec::new()).await
    }

    async fn start_with(built: Built, faults: Faults, extra: Vec<(String, &'static str, Vec<u8>)>) -> Arc<Fake> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (faults, log) = (Mutex::new(faults), Mutex::default());
        let fake = Arc::new(Fake { built, faults, log, address, extra });
        let serving = Arc::clone(&fake);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let fake = Arc::clone(&serving);
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(|request: Request<Incoming>| {
                        let answer = fake.answer(request.uri().to_string(), request.headers());
                        async { Ok::<_, Infallible>(answer) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        fake
    }

    fn answer(&self, path: String, headers: &HeaderMap) -> Response<Pieces> {
        let credentials = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        self.log.lock().unwrap().push((path.clone(), credentials.clone()));
        let mut faults = self.faults.lock().unwrap();
        if let Some(status) = faults.busy.pop_front() {
            return respond(status, &[(header::RETRY_AFTER, "0".to_owned())], b"");
        }
        if path.starts_with("/token") {
            let wanted = faults.bearer.clone().filter(|login| !login.is_empty()).map(|login| format!("Basic {login}"));
            let status = if wanted.is_some() && wanted != credentials { 401 } else { 200 };
            return respond(status, &[], br#"{"token":"t0k"}"#);
        }
        let challenge = |text: String| {
            respond(401, &[(header::WWW_AUTHENTICATE, text)], br#"{"errors":[{"code":"UNAUTHORIZED"}]}"#)
        };
        if faults.bearer.is_some() && credentials.as_deref() != Some("Bearer t0k") {
            return challenge(format!("Bearer realm=\"http://{}/token\",service=\"fake\"", self.address));
        }
        if let Some(login) = &faults.basic
            && credentials != Some(format!("Basic {login}"))
        {
            return challenge("Basic realm=\"fake\"".to_owned());
        }
        if faults.forbidden {
            return respond(403, &[], br#"{"errors":[{"code":"DENIED","message":"go\naway"}]}"#);
        }
        self.content(&path, headers, &mut faults)
    }

    fn content(&self, path: &str, headers: &HeaderMap, faults: &mut Faults) -> Response<Pieces> {
        let path = path.split('?').next().unwrap();
        let kind = |text: &str| [(header::CONTENT_TYPE, text.to_owned())];
        if let Some((_, media_type, bytes)) = self.extra.iter().find(|(extra, _, _)| extra == path) {
            return respond(200, &kind(media_type), bytes);
        }
        let last = path.rsplit('/').next().unwrap();
        let digest = crate::Digest::parse(last).unwrap_or_else(|| self.built.manifest.clone());
        let Some(bytes) = self.built.blobs.get(&digest) else { return respond(404, &[], b"") };
        if path.contains("/manifests/") {
            return if last == "gone" {
                respond(404, &[], b"")
            } else {
                respond(200, &kind(media::OCI_MANIFEST), bytes)
            };
        }
        if let Some(elsewhere) = &faults.blobs_at {
            return respond(307, &[(header::LOCATION, format!("{elsewhere}{path}"))], b"");
        }
        blob(bytes, headers, faults)
    }

    fn reference(&self, rest: &str) -> Reference {
        Reference::parse(&format!("{}/{rest}", self.address)).unwrap()
    }

    fn asked(&self, part: &str) -> Vec<Option<String>> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(path, _)| path.contains(part)).map(|(_, credentials)| credentials.clone()).collect()
    }
}

fn blob(bytes: &[u8], headers: &HeaderMap, faults: &mut Faults) -> Response<Pieces> {
    let range = headers.get(header::RANGE).filter(|_| !faults.no_ranges);
    let offset: usize = range.map_or(0, |range| range.to_str().unwrap()[6..].trim_end_matches('-').parse().unwrap());
    let mut body = bytes[offset..].to_vec();
    if faults.wrong {
        body.iter_mut().for_each(|byte| *byte ^= 1);
    }
    if faults.longer {
        body.extend_from_slice(b"and more");
    }
    let mut response = respond(if offset > 0 { 206 } else { 200 }, &[], &body);
    if offset > 0 {
        let range = format!("bytes {offset}-{}/{}", bytes.len() - 1, bytes.len());
        response.headers_mut().insert(header::CONTENT_RANGE, range.parse().unwrap());
    }
    let end = match (faults.breaks, faults.stalls) {
        (0, 0) => return response,
        (0, _) => {
            faults.stalls -= 1;
            End::Stalled
        }
        _ => {
            faults.breaks -= 1;
            End::Broken
        }
    };
    response.body_mut().pieces = [Bytes::copy_from_slice(&body[..body.len().min(40)])].into();
    response.body_mut().end = end;
    response
}

struct Bench {
    root: tempfile::TempDir,
    images: Images,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let limits = Limits {
            retry_pause: Duration::from_millis(1),
            stall_timeout: Duration::from_millis(200),
            attempts_max: 3,
            ..Limits::default()
        };
        let platform = Platform::new("linux", "amd64", "");
        let images = Images::open(root.path(), StoreOptions { limits, platform, ..StoreOptions::default() }).unwrap();
        Bench { root, images }
    }

    async fn pull(&self, reference: &Reference, keyring: Keyring, hosts: Hosts) -> Result<crate::Image, ImageError> {
        let options = PullOptions { keyring, ..PullOptions::new(Registries::new(hosts)) };
        self.images.pull(reference, &options).await
    }
}

fn keyring(registry: &str, username: &str) -> Keyring {
    let mut keyring = Keyring::default();
    keyring.add(registry, Login { username: username.to_owned(), password: "pw".to_owned() });
    keyring
}

/// `user:pw`
const USER: &str = "dXNlcjpwdw==";

/// Pulls from a registry with `faults`, as `user` of that registry.
async fn pull_with(faults: Faults) -> (Result<crate::Image, ImageError>, Bench, Arc<Fake>) {
    let (bench, fake) = (Bench::new(), Fake::start(fixture::small(), faults).await);
    let result =
        bench.pull(&fake.reference("a/b:v1"), keyring(&fake.address.to_string(), "user"), Hosts::default()).await;
    (result, bench, fake)
}

#[tokio::test]
async fn troubles_that_pass_do_not_matter() {
    let some = |text: &str| Some(text.to_owned());
    let faults = [
        Faults::default(),
        Faults { bearer: some(""), ..Faults::default() },
        Faults { bearer: some(USER), ..Faults::default() },
        Faults { basic: some(USER), ..Faults::default() },
        Faults { busy: [503, 429].into(), ..Faults::default() },
        Faults { breaks: 2, ..Faults::default() },
        Faults { breaks: 2, no_ranges: true, ..Faults::default() },
        Faults { stalls: 1, ..Faults::default() },
    ];
    for faults in faults {
        let (result, bench, fake) = pull_with(faults.clone()).await;
        let image = result.unwrap_or_else(|error| panic!("{faults:?}: {}", error.message()));
        assert_eq!((&image.id, &image.digest), (&fake.built.config, &fake.built.manifest));
        assert_eq!(std::fs::read_to_string(image.layers[1].join("new")).unwrap(), "new");
        assert_eq!(bench.images.get(&image.name).unwrap(), Some(image));
        assert_eq!(std::fs::read_dir(bench.root.path().join("partial")).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn troubles_that_stay_are_told() {
    let check = async |faults: Faults, is_kind: fn(&ImageError) -> bool, text: &str| {
        let (result, bench, _fake) = pull_with(faults.clone()).await;
        let error = result.unwrap_err();
        assert!(is_kind(&error) && error.message().contains(text), "{faults:?}: {error:?}");
        assert!(!error.message().contains("pw") && !error.message().contains(USER));
        assert!(bench.images.list().unwrap().is_empty());
        // What was begun is kept for the next try, and is garbage otherwise.
        bench.images.sweep(&InUse::default()).unwrap();
        for left in ["partial", "blobs/sha256", "layers", "tmp"] {
            assert_eq!(std::fs::read_dir(bench.root.path().join(left)).unwrap().count(), 0, "{left}");
        }
    };
    let unauthorized: fn(&ImageError) -> bool = |e| matches!(e, ImageError::Unauthorized(_));
    let damaged: fn(&ImageError) -> bool = |e| matches!(e, ImageError::Damaged(_));
    let unavailable: fn(&ImageError) -> bool = |e| matches!(e, ImageError::Unavailable { .. });
    let other = Some("b3RoZXI6cHc=".to_owned());
    check(
        Faults { bearer: other.clone(), ..Faults::default() },
        unauthorized,
        "failed to authorize: failed to fetch oauth token",
    )
    .await;
    check(Faults { basic: other, ..Faults::default() }, unauthorized, "pull access denied").await;
    check(
        Faults { forbidden: true, ..Faults::default() },
        |e| matches!(e, ImageError::Denied(_)),
        "403 Forbidden: DENIED: goaway",
    )
    .await;
    check(Faults { wrong: true, ..Faults::default() }, damaged, "unexpected digest").await;
    check(Faults { longer: true, ..Faults::default() }, damaged, "more than the").await;
    check(Faults { busy: [503; 9].into(), ..Faults::default() }, unavailable, "503 Service Unavailable").await;
    check(Faults { busy: [429; 9].into(), ..Faults::default() }, unavailable, "toomanyrequests").await;
    check(Faults { breaks: 9, no_ranges: true, ..Faults::default() }, unavailable, "sha256:").await;
    check(Faults { stalls: 9, no_ranges: true, ..Faults::default() }, unavailable, "no byte came").await;
    check(Faults { blobs_at: Some(String::new()), ..Faults::default() }, damaged, "more than 5 redirections").await;
    let plain = Some("http://198.51.100.1".to_owned());
    check(
        Faults { blobs_at: plain, ..Faults::default() },
        |e| matches!(e, ImageError::Denied(_)),
        "plain HTTP is not allowed",
    )
    .await;
}

#[tokio::test]
async fn nothing_and_nobody_are_told_apart() {
    let (bench, fake) = (Bench::new(), Fake::start(fixture::small(), Faults::default()).await);
    let error = bench.pull(&fake.reference("a:gone"), Keyring::default(), Hosts::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{}/a:gone: not found", fake.address));
    // A port that nobody listens on.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = Reference::parse(&format!("{}/a", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let error = bench.pull(&nobody, Keyring::default(), Hosts::default()).await.unwrap_err();
    assert!(
        matches!(error, ImageError::Unavailable { .. }) && error.message().contains("onnection refused"),
        "{error:?}"
    );
}

#[tokio::test]
async fn credentials_stay_with_their_host() {
    let elsewhere = Fake::start(fixture::small(), Faults::default()).await;
    let blobs_at = Some(format!("http://{}", elsewhere.address));
    let (result, _bench, fake) =
        pull_with(Faults { basic: Some(USER.to_owned()), blobs_at, ..Faults::default() }).await;
    result.unwrap();
    assert!(fake.asked("/blobs/").iter().all(Option::is_some));
    let foreign = elsewhere.asked("/blobs/");
    assert!(foreign.len() == 3 && foreign.iter().all(Option::is_none), "{foreign:?}");
}

#[tokio::test]
async fn mirrors_are_asked_first() {
    let mirror = Fake::start(fixture::small(), Faults { bearer: Some("no".to_owned()), ..Faults::default() }).await;
    let (bench, fake) = (
        Bench::new(),
        Fake::start(fixture::small(), Faults { basic: Some(USER.to_owned()), ..Faults::default() }).await,
    );
    let registry = fake.address.to_string();
    let mirrors = [(registry.clone(), vec![format!("http://{}/cache", mirror.address).into()])].into();
    let hosts = Hosts { mirrors, ..Hosts::default() };
    bench.pull(&fake.reference("a:v1"), keyring(&registry, "user"), hosts.clone()).await.unwrap();
    let log = mirror.log.lock().unwrap().clone();
    assert_eq!(log[0].0, format!("/cache/v2/a/manifests/v1?ns={registry}"));
    // The registry's credentials are none of the mirror's business.
    assert!(log.iter().all(|(_, credentials)| credentials.is_none()), "{log:?}");
    *mirror.faults.lock().unwrap() = Faults::default();
    let before = fake.log.lock().unwrap().len();
    bench.pull(&fake.reference("a:v2"), Keyring::default(), hosts).await.unwrap();
    assert_eq!(fake.log.lock().unwrap().len(), before);
}

#[tokio::test]
async fn lists_lead_to_this_machine() {
    let built = fixture::small();
    let entry = |digest: &crate::Digest, architecture: &str| {
        serde_json::json!({"mediaType": media::OCI_MANIFEST, "digest": digest, "size": 1,
            "platform": {"os": "linux", "architecture": architecture}})
    };
    let other = crate::Digest::of(b"other");
    let list = |entries: &[serde_json::Value]| {
        serde_json::json!({"schemaVersion": 2, "mediaType": media::DOCKER_LIST, "manifests": entries})
            .to_string()
            .into_bytes()
    };
    let good = list(&[entry(&other, "arm64"), entry(&built.manifest, "amd64")]);
    let digest = crate::Digest::of(&good);
    let extra = vec![
        ("/v2/a/manifests/list".to_owned(), media::DOCKER_LIST, good),
        ("/v2/a/manifests/arm".to_owned(), media::DOCKER_LIST, list(&[entry(&other, "arm64")])),
        ("/v2/a/manifests/huge".to_owned(), media::OCI_MANIFEST, vec![b' '; 5 << 20]),
        ("/v2/a/manifests/lie".to_owned(), media::DOCKER_LIST, built.blobs[&built.manifest].clone()),
    ];
    let (bench, fake) = (Bench::new(), Fake::start_with(built, Faults::default(), extra).await);
    let image = bench.pull(&fake.reference("a:list"), Keyring::default(), Hosts::default()).await.unwrap();
    assert_eq!((&image.digest, &image.id), (&digest, &fake.built.config));
    assert_eq!(image.repo_digest(), format!("{}/a@{digest}", fake.address));
    let check = async |tag: &str, text: &str| {
        let error = bench.pull(&fake.reference(tag), Keyring::default(), Hosts::default()).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    };
    check("a:arm", "no match for platform in manifest: linux/amd64 is not among [linux/arm64]").await;
    check("a:huge", "more than 4194304 bytes").await;
    check("a:lie", "not what its media type").await;
    check(&format!("a@{other}"), "not found").await;
}

#[tokio::test]
async fn pulls_of_one_layer_share_its_download() {
    let layer = Layer::new().file("f", &"f".repeat(3 << 20)).done();
    let built = fixture::image(&[(layer.clone(), layer.clone())]);
    let (bench, fake) = (Bench::new(), Fake::start(built, Faults::default()).await);
    let mut pulls = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (images, reference) = (bench.images.clone(), fake.reference(&format!("a:v{n}")));
        pulls.spawn(async move { images.pull(&reference, &PullOptions::new(Registries::new(Hosts::default()))).await });
    }
    while let Some(done) = pulls.join_next().await {
        done.unwrap().unwrap();
    }
    assert_eq!(fake.asked(crate::Digest::of(&layer).as_str()).len(), 1);
    assert_eq!(bench.images.list().unwrap().len(), 8);
}
