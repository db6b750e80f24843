//! Byte streams between a client and a process: exec, attach, port-forward.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::error::Result;
use crate::status::Event;

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// A command to run in a running container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecSpec {
    pub command: Vec<String>,
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// How a session ended.
pub type SessionExit = Result<i32>;

/// A running exec, or an attachment to a container. Dropping it ends the session: an exec is killed with its
/// descendants, an attachment is let go.
pub struct Session {
    /// Dropping it closes the process's standard input.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    pub stdout: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Absent with a terminal, which has one output only.
    pub stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Sizes of the terminal; absent without one.
    pub resize: Option<mpsc::Sender<TerminalSize>>,
    /// The exit code, once it ends. Output may still be read afterwards.
    pub exit: oneshot::Receiver<SessionExit>,
}

/// What [`exec_sync`](crate::ContainerRuntime::exec_sync) brings back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub exit_code: i32,
    /// Each cut at [`ExecOutput::OUTPUT_BYTES_MAX`].
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl ExecOutput {
    /// 16 MiB: what CRI runtimes keep of the output of a probe or hook.
    pub const OUTPUT_BYTES_MAX: usize = 16 << 20;
    /// Used when the caller gives none: no probe or hook of Kubernetes runs unbounded.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
}

/// State changes, in order for each sandbox.
pub struct Events {
    receiver: broadcast::Receiver<Event>,
}

impl Events {
    /// Reads from a channel of events: for implementations of the trait.
    pub fn new(receiver: broadcast::Receiver<Event>) -> Events {
        Events { receiver }
    }

    /// The next change. `Err(Lagged)` when this reader was too slow and some were dropped: list again.
    /// `Ok(None)` once the runtime is gone.
    pub async fn next(&mut self) -> std::result::Result<Option<Event>, Lagged> {
        match self.receiver.recv().await {
            Ok(event) => Ok(Some(event)),
            Err(broadcast::error::RecvError::Closed) => Ok(None),
            Err(broadcast::error::RecvError::Lagged(missed)) => Err(Lagged { missed }),
        }
    }
}

/// Events were dropped because the reader was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{missed} events were missed")]
pub struct Lagged {
    pub missed: u64,
}
