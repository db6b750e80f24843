//! `pods/exec` and `pods/attach`: a process's streams over a WebSocket.

use std::pin::Pin;
use std::time::Duration;

use api::pod_streams::{self, SessionOptions};
use client::Body;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::Response;
use meta::{ApiError, ObjectExt};
use runtime::{ExecSpec, Session, TerminalSize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::{Asked, IDLE_TIMEOUT, id_of};
use crate::channels::{self, Outcome, PROTOCOLS, Protocol, Said};
use crate::websocket::{Handshake, Socket};

/// Read from a process at once, and sent as one message.
const CHUNK_BYTES: usize = 32 * 1024;
/// How long the output of a process that has ended may be silent before it counts as ended too: a descendant that goes
/// on may hold it open for ever.
const SILENCE: Duration = Duration::from_millis(250);
/// How often a silent client is sent something: a send to one that has gone fails.
const PING_EVERY: Duration = Duration::from_secs(15);
/// How long the last words may take to be taken.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers by changing to a WebSocket. What goes wrong after that is told on it, as upstream does.
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
    let hand = asked.app.nodes.hand(node)?;
    let handshake = Handshake::of(asked.http, &PROTOCOLS)?;
    let (place, response) = (asked.place()?, handshake.response());
    let (id, stopping) = (id_of(&pod), asked.app.stopping.subscribe());
    tokio::spawn(async move {
        let protocol = Protocol::named(handshake.protocol);
        let Some(socket) = handshake.socket().await else { return };
        let opened = if is_exec {
            hand.exec(&id, &container, &spec_of(&options)).await
        } else {
            hand.attach(&id, &container, options.stdin).await
        };
        let doing = if is_exec { "error executing command in container" } else { "error attaching to container" };
        let opened = opened.map_err(|error| ApiError::internal(format!("{doing}: {}", error.message())));
        carry(socket, protocol, opened, &options, stopping).await;
        drop(place);
    });
    Ok(response)
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

/// Carries bytes until the process has ended or the client has gone; then the session is dropped, which ends it.
async fn carry(
    socket: Socket,
    protocol: Protocol,
    opened: Result<Session, ApiError>,
    options: &SessionOptions,
    mut stopping: watch::Receiver<bool>,
) {
    let (sink, mut source) = socket.split();
    let mut speaker = Speaker { sink, protocol };
    let session = match opened {
        Ok(session) => session,
        Err(error) => return speaker.farewell(&mut source, &Outcome::Failed(error)).await,
    };
    let moved = Notify::new();
    let listener =
        Listener { protocol, stdin: session.stdin.filter(|_| options.stdin), resize: session.resize, moved: &moved };
    let output = Output {
        stdout: session.stdout,
        stderr: session.stderr,
        exit: session.exit,
        wanted: [options.stdout, options.stderr],
        is_exec: !options.command.is_empty(),
        moved: &moved,
    };
    let outcome = tokio::select! {
        outcome = output.run(&mut speaker) => outcome,
        () = listener.run(&mut source) => None,
        () = idle(&moved) => Some(Outcome::Failed(ApiError::internal("the session was idle for too long"))),
        _ = stopping.wait_for(|stopping| *stopping) => {
            Some(Outcome::Failed(ApiError::internal("the server is stopping")))
        }
    };
    if let Some(outcome) = outcome {
        speaker.farewell(&mut source, &outcome).await;
    }
}

async fn idle(moved: &Notify) {
    while tokio::time::timeout(IDLE_TIMEOUT, moved.notified()).await.is_ok() {}
}

/// What is told to the client.
struct Speaker {
    sink: SplitSink<Socket, Message>,
    protocol: Protocol,
}

/// The client has gone.
struct Gone;

impl Speaker {
    /// Waits until the message is on its way: a slow client slows the process down.
    async fn say(&mut self, message: Message) -> Result<(), Gone> {
        self.sink.send(message).await.map_err(|_| Gone)
    }

    async fn tell(&mut self, channel: u8, bytes: &[u8]) -> Result<(), Gone> {
        self.say(self.protocol.message(channel, bytes)).await
    }

    /// How it ended, and the end. The client's own end is waited for, so that none of it is lost.
    async fn farewell(mut self, source: &mut SplitStream<Socket>, outcome: &Outcome) {
        let said = async {
            if let Some(message) = self.protocol.outcome(outcome) {
                self.say(message).await?;
            }
            self.say(Message::Close(Some(normal_end()))).await?;
            while source.next().await.is_some_and(|message| message.is_ok()) {}
            Ok::<_, Gone>(())
        };
        // Who does not take it does without.
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, said).await;
    }
}

/// Code 1000: clients take every other for a failure.
fn normal_end() -> CloseFrame {
    CloseFrame { code: CloseCode::Normal, reason: Default::default() }
}

/// What the client tells.
struct Listener<'s> {
    protocol: Protocol,
    stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    resize: Option<mpsc::Sender<TerminalSize>>,
    moved: &'s Notify,
}

impl Listener<'_> {
    /// Resolves when the client has gone. A process that takes no input holds the client up.
    async fn run(mut self, source: &mut SplitStream<Socket>) {
        while let Some(Ok(message)) = source.next().await {
            if message.is_close() {
                return;
            }
            match self.protocol.said(message) {
                Some(Said::Bytes(channels::STDIN, bytes)) => self.write(&bytes).await,
                Some(Said::Bytes(channels::RESIZE, bytes)) => self.resize(&bytes),
                Some(Said::Closed(channels::STDIN)) => self.stdin = None,
                _ => {}
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
    exit: oneshot::Receiver<runtime::SessionExit>,
    /// Outputs that the client wants; the others are read all the same, or the process would stand still.
    wanted: [bool; 2],
    is_exec: bool,
    moved: &'s Notify,
}

impl Output<'_> {
    /// Resolves with the outcome when the process has ended, without one when the client has gone.
    async fn run(mut self, speaker: &mut Speaker) -> Option<Outcome> {
        match self.relay(speaker).await {
            Ok(outcome) => Some(outcome),
            Err(Gone) => None,
        }
    }

    async fn relay(&mut self, speaker: &mut Speaker) -> Result<Outcome, Gone> {
        // The first message tells the client that the session stands.
        let first = if self.wanted[0] {
            channels::STDOUT
        } else if self.wanted[1] {
            channels::STDERR
        } else {
            channels::ERROR
        };
        speaker.tell(first, &[]).await?;
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
                    pass(speaker, &mut self.stdout, (channels::STDOUT, self.wanted[0]), read, out_buffer).await?;
                }
                read = read(&mut self.stderr, err_buffer) => {
                    pass(speaker, &mut self.stderr, (channels::STDERR, self.wanted[1]), read, err_buffer).await?;
                }
                exit = &mut self.exit, if outcome.is_none() => outcome = Some(self.outcome(exit)),
                () = tokio::time::sleep(SILENCE), if outcome.is_some() || is_let_go => {
                    let slow = || Outcome::Failed(ApiError::internal("the client was too slow for the container"));
                    return Ok(outcome.unwrap_or_else(slow));
                }
                _ = ping.tick() => {
                    speaker.say(Message::Ping(Default::default())).await?;
                    continue;
                }
            }
            self.moved.notify_one();
        }
    }

    fn outcome(&self, exit: Result<runtime::SessionExit, oneshot::error::RecvError>) -> Outcome {
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
    speaker: &mut Speaker,
    stream: &mut Source,
    (channel, is_wanted): (u8, bool),
    read: std::io::Result<usize>,
    buffer: &[u8],
) -> Result<(), Gone> {
    match read {
        Ok(count) if count > 0 && is_wanted => speaker.tell(channel, &buffer[..count]).await,
        Ok(count) if count > 0 => Ok(()),
        _ => {
            *stream = None;
            Ok(())
        }
    }
}
