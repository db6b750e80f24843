//! The way to the hand of a node on another machine: one connection a question.
//!
//! Whoever asks sends an [`Ask`] as one line of JSON; the node answers with a line, and what belongs to it follows: the
//! pieces of a log, the streams of a process ([`frame`]), or the bytes of a connection as they are. Ending the connection
//! ends what it carries, on both sides. Who may ask is decided by whoever accepts the connection.

mod answer;
mod ask;
pub mod dial;
mod frame;
mod session;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use client::BoxFuture;
use contract::{Connection, ExecSpec, Session};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

pub use answer::answer;
use ask::{Ask, Reply};
use frame::{Frame, Kind};

use crate::nodes::{LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PAGE_BYTES_MAX, Page, PodId};
use api::pod_streams::LogOptions;

/// What is spoken, as TLS agrees on it.
pub const PROTOCOL: &[u8] = b"setpoint-node/1";
/// Longest line: a command's words are bounded by the head of the request that brought them, which is smaller.
const LINE_BYTES_MAX: u64 = 256 * 1024;
/// How long an answer may take to begin: above the runtime's own limit for starting something.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(95);
/// Pieces of a log that wait for a slow reader.
const PIECES_MAX: usize = 4;

/// A connection whose peer has been checked.
pub type Secured = Pin<Box<dyn Connection>>;

/// Opens connections to one node and checks that it is that node.
pub type Dial = Arc<dyn Fn() -> BoxFuture<'static, std::io::Result<Secured>> + Send + Sync>;

/// The hand of a node on another machine.
pub struct RemoteNode {
    name: String,
    dial: Dial,
}

type Reading = BufReader<Secured>;

impl RemoteNode {
    /// The hand of the node that `dial` connects to.
    pub fn new(name: impl Into<String>, dial: Dial) -> RemoteNode {
        RemoteNode { name: name.into(), dial }
    }

    async fn ask(&self, ask: &Ask) -> Result<(Reading, Reply), NodeError> {
        let lost = |error: std::io::Error| {
            NodeError::Internal(format!("error dialing backend: node {:?}: {error}", self.name))
        };
        let exchange = async {
            let mut connection = BufReader::new((self.dial)().await?);
            write_line(connection.get_mut(), ask).await?;
            let reply: Reply = read_line(&mut connection).await?;
            Ok((connection, reply))
        };
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, exchange).await.unwrap_or_else(|_| Err(late()));
        let (connection, reply) = answered.map_err(lost)?;
        match reply.error() {
            Some(error) => Err(error),
            None => Ok((connection, reply)),
        }
    }
}

impl NodeHand for RemoteNode {
    fn log<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText> {
        Box::pin(async move {
            let (mut connection, _) = self.ask(&Ask::log(id, options)).await?;
            let (pieces, text) = mpsc::channel(PIECES_MAX);
            tokio::spawn(async move {
                while let Ok(Some(Frame { kind: Kind::Stdout, bytes })) = frame::read(&mut connection).await {
                    if bytes.is_empty() || pieces.send(bytes).await.is_err() {
                        return;
                    }
                }
            });
            Ok(text)
        })
    }

    fn exec<'a>(&'a self, pod: &'a PodId, container: &'a str, spec: &'a ExecSpec) -> NodeAnswer<'a, Session> {
        Box::pin(async move {
            let (connection, reply) = self.ask(&Ask::exec(pod, container, spec)).await?;
            Ok(session::of_connection(connection, reply.streams()))
        })
    }

    fn attach<'a>(&'a self, pod: &'a PodId, container: &'a str, stdin: bool) -> NodeAnswer<'a, Session> {
        Box::pin(async move {
            let (connection, reply) = self.ask(&Ask::attach(pod, container, stdin)).await?;
            Ok(session::of_connection(connection, reply.streams()))
        })
    }

    fn usage(&self) -> NodeAnswer<'_, NodeUsage> {
        Box::pin(async move {
            let (_, reply) = self.ask(&Ask::Usage).await?;
            reply.usage().ok_or_else(|| NodeError::Internal(format!("node {:?} tells no usage", self.name)))
        })
    }

    fn page(&self, page: Page) -> NodeAnswer<'_, Bytes> {
        Box::pin(async move {
            let (mut connection, _) = self.ask(&Ask::Page { page }).await?;
            let lost = |error: std::io::Error| NodeError::Internal(format!("node {:?}: {error}", self.name));
            tokio::time::timeout(ANSWER_TIMEOUT, read_page(&mut connection))
                .await
                .map_err(|_| lost(late()))?
                .map_err(lost)
        })
    }

    fn forward<'a>(&'a self, pod: &'a PodId, port: u16) -> NodeAnswer<'a, Box<dyn Connection>> {
        Box::pin(async move {
            let (connection, _) = self.ask(&Ask::forward(pod, port)).await?;
            // What was read ahead stays in the buffer.
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }
}

fn late() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "it does not answer in time")
}

/// A page up to its end, which is an empty frame: a connection that breaks makes no page.
async fn read_page(connection: &mut Reading) -> std::io::Result<Bytes> {
    let mut page = BytesMut::new();
    while let Some(Frame { kind: Kind::Stdout, bytes }) = frame::read(connection).await? {
        if bytes.is_empty() {
            return Ok(page.freeze());
        }
        if page.len() + bytes.len() > PAGE_BYTES_MAX {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "its page is too long"));
        }
        page.extend_from_slice(&bytes);
    }
    Err(std::io::ErrorKind::UnexpectedEof.into())
}

async fn write_line(to: &mut Secured, line: &impl serde::Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(std::io::Error::other)?;
    text.push(b'\n');
    to.write_all(&text).await?;
    to.flush().await
}

async fn read_line<T: serde::de::DeserializeOwned>(from: &mut Reading) -> std::io::Result<T> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&line).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests;
