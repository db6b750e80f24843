//! `pods/exec` and `pods/attach`: a process's streams over a WebSocket or SPDY.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::pod_streams::{self, SessionOptions};
use client::Body;
use contract::{ExecSpec, Session, TerminalSize};
use http::Response;
use meta::{ApiError, ObjectExt};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::voice::{self, Ear, FAREWELL_TIMEOUT, Gone, Voice};
use super::{Asked, IDLE_TIMEOUT, id_of};
use crate::channels::{self, Outcome, PROTOCOLS, Protocol, STREAM_PROTOCOLS, Said};
use crate::nodes::{NodeHand, PodId};
use crate::upgrade;
use crate::websocket::Handshake;

/// Read from a process at once, and sent as one message.
const CHUNK_BYTES: usize = 32 * 1024;
/// How long the output of a process that has ended may be silent before it counts as ended too: a descendant that goes
/// on may hold it open for ever.
const SILENCE: Duration = Duration::from_millis(250);
/// How often a silent client is sent something: a send to one that has gone fails.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Answers by changing to a WebSocket or to SPDY. What goes wrong after that is told there, as upstream does.
pub async fn answer(asked: &Asked<'_>) -> Result<Response<Body>, ApiError> {
    let is_exec = asked.target.subresource == "exec";
    let options = SessionOptions::from_query(asked.query, is_exec)?;
    let pod = asked.pod().await?;
    let container = pod_streams::container_of(&pod, &options.container)?;
    let node = pod.text(&["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", pod.name())));
    }
    if matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        let phase = pod.text(&["status", "phase"]);
        let message = format!("cannot exec into a container in a completed pod; current phase is {phase}");
        return Err(ApiError::bad_request(message));
    }
    let process = Process { hand: asked.app.hand(node)?, pod: id_of(&pod), container, options, is_exec };
    let stopping = asked.app.stopping.subscribe();
    if let Some(handshake) = upgrade::Handshake::of(asked.http, &STREAM_PROTOCOLS).transpose()? {
        let (place, response) = (asked.place()?, handshake.response());
        tokio::spawn(async move {
            over_spdy(handshake, &process, stopping).await;
            drop(place);
        });
        return Ok(response);
    }
    let handshake = Handshake::of(asked.http, &PROTOCOLS)?;
    let (place, response) = (asked.place()?, handshake.response());
    tokio::spawn(async move {
        let protocol = Protocol::named(handshake.protocol);
        if let Some(socket) = handshake.socket().await {
            let (voice, ear) = voice::of_socket(socket, protocol);
            process.carry(voice, ear, stopping).await;
        }
        drop(place);
    });
    Ok(response)
}

/// Carries a session over streams that the client opens first.
async fn over_spdy(handshake: upgrade::Handshake, process: &Process, stopping: watch::Receiver<bool>) {
    // The third version brought sizes of terminals.
    let protocol = Protocol::named(handshake.protocol);
    let has_sizes = handshake.protocol.starts_with("v3.") || handshake.protocol.starts_with("v4.");
    let options = &process.options;
    let all = [
        ("error", true),
        ("stdin", options.stdin),
        ("stdout", options.stdout),
        ("stderr", options.stderr),
        ("resize", options.tty && has_sizes),
    ];
    let types: Vec<&str> = all.iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| *kind).collect();
    let Some(connection) = handshake.connection().await else { return };
    let (sender, mut opened) = mpsc::channel(all.len());
    let mut carrying = std::pin::pin!(spdy::carry(connection, sender));
    let session = async {
        if let Some((voice, ear)) = voice::of_streams(&mut opened, &types, protocol).await {
            process.carry(voice, ear, stopping).await;
        }
    };
    tokio::select! {
        // The client has gone.
        _ = &mut carrying => return,
        () = session => {}
    }
    // The client ends the connection when it has taken everything.
    let _ = tokio::time::timeout(FAREWELL_TIMEOUT, carrying).await;
}

/// What is asked for.
struct Process {
    hand: Arc<dyn NodeHand>,
    pod: PodId,
    container: String,
    options: SessionOptions,
    is_exec: bool,
}

fn spec_of(options: &SessionOptions) -> ExecSpec {
    ExecSpec {
        command: options.command.clone(),
        tty: options.tty,
        stdin: options.stdin,
        stdout: options.stdout,
        stderr: options.stderr,
    }
}

impl Process {
    /// Carries bytes until the process has ended or the client has gone; then the session is dropped, which ends it.
    async fn carry(&self, mut voice: Voice, mut ear: Ear, mut stopping: watch::Receiver<bool>) {
        let session = match self.open().await {
            Ok(session) => session,
            Err(error) => return voice.farewell(ear, &Outcome::Failed(error)).await,
        };
        let (moved, options) = (Notify::new(), &self.options);
        let listener =
            Listener { stdin: session.stdin.filter(|_| options.stdin), resize: session.resize, moved: &moved };
        let output = Output {
            stdout: session.stdout,
            stderr: session.stderr,
            exit: session.exit,
            wanted: [options.stdout, options.stderr],
            is_exec: self.is_exec,
            moved: &moved,
        };
        let failed = |why: &str| Some(Outcome::Failed(ApiError::internal(why)));
        let outcome = tokio::select! {
            outcome = output.run(&mut voice) => outcome,
            () = listener.run(&mut ear) => None,
            () = idle(&moved) => failed("the session was idle for too long"),
            _ = stopping.wait_for(|stopping| *stopping) => failed("the server is stopping"),
        };
        if let Some(outcome) = outcome {
            voice.farewell(ear, &outcome).await;
        }
    }

    async fn open(&self) -> Result<Session, ApiError> {
        let (opened, doing) = if self.is_exec {
            let opened = self.hand.exec(&self.pod, &self.container, &spec_of(&self.options)).await;
            (opened, "error executing command in container")
        } else {
            let opened = self.hand.attach(&self.pod, &self.container, self.options.stdin).await;
            (opened, "error attaching to container")
        };
        opened.map_err(|error| ApiError::internal(format!("{doing}: {}", error.message())))
    }
}

async fn idle(moved: &Notify) {
    while tokio::time::timeout(IDLE_TIMEOUT, moved.notified()).await.is_ok() {}
}

/// What the client tells.
struct Listener<'s> {
    stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    resize: Option<mpsc::Sender<TerminalSize>>,
    moved: &'s Notify,
}

impl Listener<'_> {
    /// Resolves when the client has gone. A process that takes no input holds the client up.
    async fn run(mut self, ear: &mut Ear) {
        while let Some(said) = ear.hear().await {
            match said {
                Said::Bytes(channels::STDIN, bytes) => self.write(&bytes).await,
                Said::Bytes(channels::RESIZE, bytes) => self.resize(&bytes),
                Said::Closed(channels::STDIN) => self.stdin = None,
                Said::Bytes(..) | Said::Closed(_) => {}
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.moved.notify_one();
        if let Some(stdin) = &mut self.stdin
            && stdin.write_all(bytes).await.is_err()
        {
            // The process takes no more; it may go on all the same.
            self.stdin = None;
        }
    }

    fn resize(&self, bytes: &[u8]) {
        let size: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let side = |name: &str| size.int(&[name]).and_then(|length| u16::try_from(length).ok());
        if let (Some(resize), Some(width), Some(height)) = (&self.resize, side("Width"), side("Height")) {
            // When sizes wait already, another comes soon: a window that is pulled.
            let _ = resize.try_send(TerminalSize { width, height });
        }
    }
}

type Source = Option<Pin<Box<dyn AsyncRead + Send>>>;

/// What the process tells.
struct Output<'s> {
    stdout: Source,
    stderr: Source,
    exit: oneshot::Receiver<contract::SessionExit>,
    /// Outputs that the client wants; the others are read all the same, or the process would stand still.
    wanted: [bool; 2],
    is_exec: bool,
    moved: &'s Notify,
}

impl Output<'_> {
    /// Resolves with the outcome when the process has ended, without one when the client has gone.
    async fn run(mut self, voice: &mut Voice) -> Option<Outcome> {
        self.relay(voice).await.ok()
    }

    async fn relay(&mut self, voice: &mut Voice) -> Result<Outcome, Gone> {
        // The first message tells the client that the session stands.
        let first = if self.wanted[0] {
            channels::STDOUT
        } else if self.wanted[1] {
            channels::STDERR
        } else {
            channels::ERROR
        };
        voice.tell(first, &[]).await?;
        let mut buffers = [vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]];
        let [out_buffer, err_buffer] = &mut buffers;
        let mut outcome = None;
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.reset();
        loop {
            let is_closed = self.stdout.is_none() && self.stderr.is_none();
            if let Some(outcome) = outcome.take_if(|_| is_closed) {
                return Ok(outcome);
            }
            // An attachment whose outputs end before the container does was let go: the client was too slow.
            let is_let_go = is_closed && !self.is_exec;
            tokio::select! {
                read = read(&mut self.stdout, out_buffer) => {
                    pass(voice, &mut self.stdout, (channels::STDOUT, self.wanted[0]), read, out_buffer).await?;
                }
                read = read(&mut self.stderr, err_buffer) => {
                    pass(voice, &mut self.stderr, (channels::STDERR, self.wanted[1]), read, err_buffer).await?;
                }
                exit = &mut self.exit, if outcome.is_none() => outcome = Some(self.outcome(exit)),
                () = tokio::time::sleep(SILENCE), if outcome.is_some() || is_let_go => {
                    let slow = || Outcome::Failed(ApiError::internal("the client was too slow for the container"));
                    return Ok(outcome.unwrap_or_else(slow));
                }
                _ = ping.tick() => {
                    voice.ping().await?;
                    continue;
                }
            }
            self.moved.notify_one();
        }
    }

    fn outcome(&self, exit: Result<contract::SessionExit, oneshot::error::RecvError>) -> Outcome {
        match exit {
            Ok(Ok(code)) => Outcome::Exited(if self.is_exec { code } else { 0 }),
            Ok(Err(error)) => Outcome::Failed(ApiError::internal(error)),
            Err(_) => Outcome::Failed(ApiError::internal("the session ended without a word")),
        }
    }
}

/// Waits for ever on a stream that has ended.
async fn read(stream: &mut Source, buffer: &mut [u8]) -> std::io::Result<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await,
        None => std::future::pending().await,
    }
}

async fn pass(
    voice: &mut Voice,
    stream: &mut Source,
    (channel, is_wanted): (u8, bool),
    read: std::io::Result<usize>,
    buffer: &[u8],
) -> Result<(), Gone> {
    match read {
        Ok(count) if count > 0 && is_wanted => voice.tell(channel, &buffer[..count]).await,
        Ok(count) if count > 0 => Ok(()),
        _ => {
            *stream = None;
            Ok(())
        }
    }
}
