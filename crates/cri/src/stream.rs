//! Exec, attach and port-forward: the runtime names an address, where SPDY carries the streams.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use contract::{Connection, Error, Result, Session, SessionExit, TerminalSize};
use http::header::{CONNECTION, HeaderName, UPGRADE};
use http::{Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use spdy::{CHUNK_BYTES, Output, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// How long the runtime may take to open the streams.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Between a stream and who reads it.
const PIPE_BYTES: usize = 64 << 10;
/// Sizes waiting to be told; only the last matters.
const RESIZES_KEPT: usize = 4;
/// How a session ended is a short JSON text.
const OUTCOME_BYTES_MAX: usize = 64 << 10;
/// How long outputs may follow after the outcome.
const REST_TIMEOUT: Duration = Duration::from_secs(10);

const PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// What streams of a session mean; the fourth version brought exit codes.
const SESSION: &str = "v4.channel.k8s.io";
/// What streams of a connection mean.
const FORWARD: &str = "portforward.k8s.io";
const SPDY: &str = "SPDY/3.1";

/// Which streams a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// Streams at `url` by their types.
async fn open(
    url: &str,
    protocol: &'static str,
    streams: Vec<BTreeMap<String, String>>,
) -> Result<(Vec<Stream>, impl Future<Output = io::Result<()>> + use<>)> {
    let doing = || format!("open streams at {url}");
    let connection = tokio::time::timeout(OPEN_TIMEOUT, upgrade(url, protocol)).await;
    let connection = connection.map_err(|_| Error::Timeout {
        what: doing(),
        limit_ms: u64::try_from(OPEN_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
    })?;
    Ok(spdy::dial(connection.map_err(Error::io(doing()))?, streams))
}

/// The address of a URL. Bytes go unencrypted, therefore only within this machine.
fn address(uri: &Uri) -> io::Result<SocketAddr> {
    let refuse = |why: &str| io::Error::new(io::ErrorKind::Unsupported, format!("{uri}: {why}"));
    if uri.scheme_str() != Some("http") {
        return Err(refuse("the runtime streams over TLS, which is of no use within a machine and not supported"));
    }
    let host = uri.host().unwrap_or("").trim_matches(['[', ']']);
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: std::net::IpAddr = host.parse().map_err(|_| refuse("no address"))?;
    if !ip.is_loopback() {
        return Err(refuse("the runtime streams to the network instead of loopback"));
    }
    Ok(SocketAddr::new(ip, uri.port_u16().unwrap_or(80)))
}

async fn upgrade(url: &str, protocol: &'static str) -> io::Result<TokioIo<Upgraded>> {
    let uri: Uri = url.parse().map_err(io::Error::other)?;
    let stream = TcpStream::connect(address(&uri)?).await?;
    stream.set_nodelay(true)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    tokio::spawn(connection.with_upgrades());
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let host = uri.authority().map_or("localhost", http::uri::Authority::as_str);
    let request = Request::post(path)
        .header(http::header::HOST, host)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, SPDY)
        .header(PROTOCOL, protocol)
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(io::Error::other(format!("the runtime answers {}", answer.status())));
    }
    let agreed = answer.headers().get(&PROTOCOL).is_none_or(|agreed| agreed.as_bytes() == protocol.as_bytes());
    if !agreed {
        return Err(io::Error::other(format!("the runtime does not speak {protocol}")));
    }
    Ok(TokioIo::new(hyper::upgrade::on(answer).await.map_err(io::Error::other)?))
}

fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Joins a session's streams.
pub async fn session(url: &str, wanted: Wanted) -> Result<Session> {
    let all = [
        ("error", true),
        ("stdin", wanted.stdin),
        ("stdout", wanted.stdout),
        ("stderr", wanted.stderr && !wanted.tty),
        ("resize", wanted.tty),
    ];
    let kinds: Vec<&str> = all.iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| *kind).collect();
    let streams = kinds.iter().map(|kind| headers(&[("streamtype", *kind)])).collect();
    let (opened, carrying) = open(url, SESSION, streams).await?;
    let mut found: BTreeMap<&str, Stream> = kinds.into_iter().zip(opened).collect();
    let mut take = |kind: &str| found.remove(kind);
    let error = take("error").ok_or_else(|| Error::WrongState("no stream for the outcome".to_owned()))?;
    let mut pumps = tokio::task::JoinSet::new();
    let stdin = take("stdin").map(|stream| {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(pump_in(theirs, stream));
        Box::pin(ours) as std::pin::Pin<Box<dyn AsyncWrite + Send>>
    });
    let mut output = |kind: &str| {
        take(kind).map(|stream| {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            pumps.spawn(pump_out(stream, theirs));
            Box::pin(ours) as std::pin::Pin<Box<dyn AsyncRead + Send>>
        })
    };
    let (stdout, stderr) = (output("stdout"), output("stderr"));
    let resize = take("resize").map(resizer);
    let (told, exit) = oneshot::channel();
    tokio::spawn(run(carrying, error, pumps, told));
    Ok(Session { stdin, stdout, stderr, resize, exit })
}

/// Carries a session until it has ended or nobody waits for its end.
async fn run(
    carrying: impl Future<Output = io::Result<()>>,
    error: Stream,
    mut pumps: tokio::task::JoinSet<()>,
    mut told: oneshot::Sender<SessionExit>,
) {
    let mut carrying = std::pin::pin!(carrying);
    // The connection may end right behind the outcome, which then waits in its stream.
    let mut outcome = std::pin::pin!(read_outcome(error));
    let mut is_carried = false;
    let ended = tokio::select! {
        outcome = &mut outcome => Some(outcome),
        () = told.closed() => None,
        _ = &mut carrying => {
            // Its streams end with it: what has come is read.
            is_carried = true;
            Some(outcome.await)
        }
    };
    let Some(ended) = ended else { return };
    let rest = async { while pumps.join_next().await.is_some() {} };
    // The outputs' last bytes come over the connection.
    let moving = async {
        if !is_carried {
            let _ = carrying.await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = rest => {}
        () = moving => {}
        () = tokio::time::sleep(REST_TIMEOUT) => {}
    }
    // Nobody may wait any more.
    let _ = told.send(ended);
}

async fn read_outcome(mut error: Stream) -> SessionExit {
    let mut text = Vec::new();
    while let Some(piece) = error.input.recv().await {
        if text.len() + piece.len() <= OUTCOME_BYTES_MAX {
            text.extend_from_slice(&piece);
        }
    }
    exit_of(&text)
}

/// A `Status`: success, an exit code, or words.
fn exit_of(text: &[u8]) -> SessionExit {
    if text.is_empty() {
        return Err(Error::WrongState("the session was cut off".to_owned()));
    }
    let status: Value = serde_json::from_slice(text).unwrap_or_default();
    let word = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or("");
    if word("status") == "Success" {
        return Ok(0);
    }
    let causes = status.pointer("/details/causes").and_then(Value::as_array);
    let is_code = |cause: &&Value| cause.get("reason").and_then(Value::as_str) == Some("ExitCode");
    let code =
        causes.into_iter().flatten().find(is_code).and_then(|cause| cause.get("message")?.as_str()?.parse().ok());
    match (word("reason"), code) {
        ("NonZeroExitCode", Some(code)) => Ok(code),
        _ if word("message").is_empty() => Err(Error::WrongState(String::from_utf8_lossy(text).into_owned())),
        _ => Err(crate::answer::start_error(Error::WrongState(word("message").to_owned()))),
    }
}

async fn pump_in(mut from: DuplexStream, stream: Stream) {
    let Stream { output, .. } = stream;
    let given_up = output.given_up();
    tokio::select! { () = send_all(&mut from, output) => {}, () = given_up => {} }
}

async fn pump_out(stream: Stream, mut to: DuplexStream) {
    // The way back stays open: ending it would tell the runtime that nobody reads.
    let Stream { mut input, output: _kept, .. } = stream;
    while let Some(bytes) = input.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // Who reads may have gone.
    let _ = to.shutdown().await;
}

fn resizer(stream: Stream) -> mpsc::Sender<TerminalSize> {
    let (sizes, mut told) = mpsc::channel::<TerminalSize>(RESIZES_KEPT);
    tokio::spawn(async move {
        let Stream { mut output, .. } = stream;
        while let Some(TerminalSize { width, height }) = told.recv().await {
            let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
            if output.send(text.into()).await.is_err() {
                return;
            }
        }
        output.finish().await;
    });
    sizes
}

/// Connects to a port.
pub async fn forward(url: &str, port: u16) -> Result<Box<dyn Connection>> {
    let port = port.to_string();
    let stream = |kind: &str| headers(&[("streamtype", kind), ("port", &port), ("requestid", "0")]);
    let (opened, carrying) = open(url, FORWARD, vec![stream("error"), stream("data")]).await?;
    let Ok([error, data]) = <[Stream; 2]>::try_from(opened) else {
        return Err(Error::WrongState("no streams for the connection".to_owned()));
    };
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move {
        tokio::select! {
            _ = carrying => {}
            () = join(theirs, error, data) => {}
        }
    });
    Ok(Box::new(ours))
}

/// Both ways, until both have ended or the port's side says what is wrong.
async fn join(pipe: DuplexStream, error: Stream, data: Stream) {
    let Stream { input: mut words, output, .. } = error;
    output.finish().await;
    let (mut from_us, mut to_us) = tokio::io::split(pipe);
    let Stream { mut input, output, .. } = data;
    let inward = send_all(&mut from_us, output);
    let outward = async {
        while let Some(bytes) = input.recv().await {
            if to_us.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // Who reads may have gone.
        let _ = to_us.shutdown().await;
    };
    let refused = async {
        match words.recv().await {
            Some(why) => tracing::debug!(why = %String::from_utf8_lossy(&why), "a connection to a pod failed"),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = async { tokio::join!(inward, outward) } => {}
        () = refused => {}
    }
}

async fn send_all(from: &mut (impl AsyncRead + Unpin), mut output: Output) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
    {
        if output.send(Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default())).await.is_err() {
            return;
        }
    }
    output.finish().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes() {
        let check = |text: &str, expected: std::result::Result<i32, &str>| {
            let found = exit_of(text.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check(r#"{"metadata":{},"status":"Success"}"#, Ok(0));
        check(
            concat!(
                r#"{"status":"Failure","reason":"NonZeroExitCode","#,
                r#""details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#
            ),
            Ok(7),
        );
        check(r#"{"status":"Failure","reason":"InternalError","message":"no such file"}"#, Err("no such file"));
        check("", Err("the session was cut off"));
        check("nonsense", Err("nonsense"));
    }

    #[test]
    fn streams_stay_on_this_machine() {
        let check = |url: &str, expected: Option<&str>| {
            let found = address(&url.parse().expect("a URL")).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{url}");
        };
        check("http://127.0.0.1:40001/exec/x", Some("127.0.0.1:40001"));
        check("http://localhost:1/exec/x", Some("127.0.0.1:1"));
        check("http://[::1]:2/attach/x", Some("[::1]:2"));
        check("https://127.0.0.1:1/exec/x", None);
        check("http://192.0.2.1:1/exec/x", None);
        check("http://example.com/exec/x", None);
    }
}
