//! The client's end of a session: what it says and what it is told, over channels of a WebSocket or streams of SPDY.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use spdy::{Output, Stream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::channels::{self, Outcome, Protocol, Said};
use crate::websocket::Socket;

/// How long the last words may take to be taken.
pub const FAREWELL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to open the streams that it asked for (upstream's limit).
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The client has gone.
pub struct Gone;

/// What the client is told.
pub enum Voice {
    /// Over channels.
    Channels(SplitSink<Socket, Message>, Protocol),
    /// Over streams.
    Streams {
        /// Standard output and error.
        outputs: [Option<Output>; 2],
        /// How it ended.
        error: Output,
        /// How that is worded.
        protocol: Protocol,
    },
}

/// What the client says.
pub enum Ear {
    /// Over channels.
    Channels(SplitStream<Socket>, Protocol),
    /// Over streams.
    Streams {
        /// Standard input.
        stdin: Option<mpsc::Receiver<Bytes>>,
        /// Sizes of the terminal.
        resize: Option<mpsc::Receiver<Bytes>>,
        /// The ways back of these. Ending them tells the client that no more is taken.
        kept: Vec<Output>,
    },
}

/// Both ends of a WebSocket.
pub fn of_socket(socket: Socket, protocol: Protocol) -> (Voice, Ear) {
    let (sink, source) = socket.split();
    (Voice::Channels(sink, protocol), Ear::Channels(source, protocol))
}

/// Waits for the streams named by their types; `None` when the client does not open them.
pub async fn of_streams(
    opened: &mut mpsc::Receiver<Stream>,
    types: &[&str],
    protocol: Protocol,
) -> Option<(Voice, Ear)> {
    let mut found: Vec<Option<Stream>> = types.iter().map(|_| None).collect();
    let all = async {
        while found.iter().any(Option::is_none) {
            let stream = opened.recv().await?;
            let kind = stream.headers.get("streamtype").map_or("", String::as_str);
            // What was not asked for is reset.
            if let Some(at) = types.iter().position(|wanted| *wanted == kind) {
                found[at] = Some(stream);
            }
        }
        Some(())
    };
    tokio::time::timeout(OPEN_TIMEOUT, all).await.ok()??;
    let mut take = |kind: &str| found.get_mut(types.iter().position(|wanted| *wanted == kind)?)?.take();
    let voice = Voice::Streams {
        outputs: ["stdout", "stderr"].map(|kind| take(kind).map(|stream| stream.output)),
        error: take("error")?.output,
        protocol,
    };
    let mut kept = Vec::new();
    let [stdin, resize] = ["stdin", "resize"].map(|kind| {
        let Stream { input, output, .. } = take(kind)?;
        kept.push(output);
        Some(input)
    });
    Some((voice, Ear::Streams { stdin, resize, kept }))
}

impl Voice {
    /// Waits until the bytes are on their way: a slow client slows the process down.
    pub async fn tell(&mut self, channel: u8, bytes: &[u8]) -> Result<(), Gone> {
        match self {
            Voice::Channels(sink, protocol) => sink.send(protocol.message(channel, bytes)).await.map_err(|_| Gone),
            // An empty frame would tell nothing.
            Voice::Streams { .. } if bytes.is_empty() => Ok(()),
            Voice::Streams { outputs, .. } => {
                let output = match channel {
                    channels::STDOUT => &mut outputs[0],
                    _ => &mut outputs[1],
                };
                debug_assert!(bytes.len() <= spdy::CHUNK_BYTES);
                if let Some(stream) = output
                    && stream.send(Bytes::copy_from_slice(bytes)).await.is_err()
                {
                    // Given up by the client; when it has gone, its connection ends too.
                    *output = None;
                }
                Ok(())
            }
        }
    }

    /// A sign of life: it cannot be sent to a client that has gone. SPDY has its own.
    pub async fn ping(&mut self) -> Result<(), Gone> {
        match self {
            Voice::Channels(sink, _) => sink.send(Message::Ping(Bytes::new())).await.map_err(|_| Gone),
            Voice::Streams { .. } => Ok(()),
        }
    }

    /// How it ended, and the end. Who does not take it does without.
    pub async fn farewell(self, ear: Ear, outcome: &Outcome) {
        let said = async {
            match (self, ear) {
                (Voice::Channels(sink, protocol), Ear::Channels(source, _)) => {
                    close_socket((sink, source), protocol, outcome).await;
                }
                (Voice::Streams { outputs, error, protocol }, Ear::Streams { kept, .. }) => {
                    let ended = kept.into_iter().chain(outputs.into_iter().flatten()).collect();
                    close_streams(ended, error, protocol, outcome).await;
                }
                // Both come from the same client.
                (Voice::Channels(..), Ear::Streams { .. }) | (Voice::Streams { .. }, Ear::Channels(..)) => {}
            }
        };
        let _ = tokio::time::timeout(FAREWELL_TIMEOUT, said).await;
    }
}

/// The client's own end is waited for, so that nothing is lost.
async fn close_socket(
    (mut sink, mut source): (SplitSink<Socket, Message>, SplitStream<Socket>),
    protocol: Protocol,
    outcome: &Outcome,
) {
    let last = protocol.outcome(outcome).map(|words| protocol.message(channels::ERROR, words.as_bytes()));
    // Code 1000: clients take every other for a failure.
    let close = Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: Default::default() }));
    for message in last.into_iter().chain([close]) {
        if sink.send(message).await.is_err() {
            return;
        }
    }
    while source.next().await.is_some_and(|message| message.is_ok()) {}
}

async fn close_streams(ended: Vec<Output>, mut error: Output, protocol: Protocol, outcome: &Outcome) {
    for output in ended {
        output.finish().await;
    }
    if let Some(words) = protocol.outcome(outcome) {
        for piece in words.as_bytes().chunks(spdy::CHUNK_BYTES) {
            // A client that has gone needs no words.
            let _ = error.send(Bytes::copy_from_slice(piece)).await;
        }
    }
    error.finish().await;
}

impl Ear {
    /// The next word; `None` when the client has gone. (One that speaks SPDY has gone when its connection ends.)
    pub async fn hear(&mut self) -> Option<Said> {
        match self {
            Ear::Channels(source, protocol) => loop {
                let message = source.next().await?.ok().filter(|message| !message.is_close())?;
                if let Some(said) = protocol.said(message) {
                    return Some(said);
                }
            },
            Ear::Streams { stdin, resize, .. } => tokio::select! {
                bytes = receive(stdin) => Some(match bytes {
                    Some(bytes) => Said::Bytes(channels::STDIN, bytes),
                    None => Said::Closed(channels::STDIN),
                }),
                Some(bytes) = receive(resize) => Some(Said::Bytes(channels::RESIZE, bytes)),
            },
        }
    }
}

/// `None` once, at the end; then never again.
async fn receive(from: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    let Some(receiver) = from else { return std::future::pending().await };
    let bytes = receiver.recv().await;
    if bytes.is_none() {
        *from = None;
    }
    bytes
}
