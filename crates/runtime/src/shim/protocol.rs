//! What the server and a shim say to each other. One connection a conversation, one packet a message.

use serde::{Deserialize, Serialize};

use contract::EventKind;

/// From the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Answered by `Done`, then by `Event`s until the connection ends.
    Subscribe,
    /// Answered by `Started` or `Failed`.
    Start { container: String },
    /// To the first process. Answered by `Done`.
    Signal { container: String, signal: i32 },
    /// Kills the whole cgroup. Answered by `Done`; the end comes as an event.
    Kill { container: String },
    /// Standard streams come as descriptors in order, those that `streams` names. Answered by `Started` (with the
    /// terminal's descriptor) or `Failed`, then by `Exited`. Hanging up kills the process and its descendants.
    Exec { container: String, command: Vec<String>, tty: bool, streams: [bool; 3] },
    /// Descriptors as with `Exec`. Answered by `Done` (with the terminal's descriptor), then by `Exited`.
    Attach { container: String, streams: [bool; 3] },
    /// Answered by `Done` with a socket of the sandbox's network, not connected.
    Socket { ipv6: bool },
    /// Forgets a container that has ended or never started, and removes its cgroup. Answered by `Done`.
    Forget { container: String },
    /// Kills everything and ends the shim. The end of the connection is the answer.
    Stop,
}

/// From the shim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Started { pid: i32 },
    Failed { message: String, exit_code: i32 },
    Exited { exit_code: i32 },
    Event(EventKind),
}
