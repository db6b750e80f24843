//! A running container as the shim sees it: its process, its output on the way to the log and to attached clients,
//! its standard input.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use clock::Clock;
use rustix::io::Errno;

use super::log::{Log, Stream};
use crate::cgroup::Group;
use crate::record::ContainerRecord;

/// Bytes read at once: a pipe's capacity.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks read from one stream before others get their turn: 1 MiB.
const CHUNKS_PER_TURN: usize = 16;

/// A client that shares the container's streams.
pub(super) struct Attachment {
    pub(super) connection: u64,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) outputs: [Option<OwnedFd>; 2],
}

/// A container whose process was started and whose end was not yet recorded.
pub(super) struct Container {
    pub(super) record: ContainerRecord,
    pub(super) dir: PathBuf,
    pub(super) group: Group,
    pub(super) pid: i32,
    /// Standard output and error; with a terminal, its controlling end and nothing.
    pub(super) outputs: [Option<OwnedFd>; 2],
    /// Where standard input is written to; with a terminal, its controlling end again.
    pub(super) stdin: Option<OwnedFd>,
    /// Input that the process did not take yet. While there is some, no more is read.
    pub(super) stdin_pending: Vec<u8>,
    pub(super) log: Log,
    pub(super) attachments: Vec<Attachment>,
    pub(super) execs: u64,
}

impl Container {
    /// Moves what output there is; true when the stream ended.
    pub(super) fn pump(&mut self, index: usize, everything: bool, clock: &dyn Clock) -> bool {
        let stream = if index == 0 { Stream::Stdout } else { Stream::Stderr };
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut turns = 0;
        while everything || turns < CHUNKS_PER_TURN {
            turns += 1;
            let Some(fd) = self.outputs[index].as_ref() else { return true };
            match rustix::io::read(fd, &mut buffer) {
                Ok(count) if count > 0 => {
                    let bytes = &buffer[..count];
                    self.log.take(stream, bytes, clock);
                    self.attachments.retain_mut(|client| write_client(&client.outputs[index], bytes));
                }
                Err(Errno::AGAIN) => return false,
                Err(Errno::INTR) => {}
                // The end of a pipe; EIO is that of a terminal.
                Ok(_) | Err(_) => {
                    self.outputs[index] = None;
                    return true;
                }
            }
        }
        false
    }

    /// Moves what input attached client `at` sent.
    pub(super) fn take_input(&mut self, at: usize) {
        let Some(client) = self.attachments.get_mut(at) else { return };
        let Some(fd) = client.stdin.as_ref() else { return };
        let mut buffer = vec![0; CHUNK_BYTES];
        match rustix::io::read(fd, &mut buffer) {
            Ok(count) if count > 0 => {
                self.stdin_pending.extend(&buffer[..count]);
                self.flush_input();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => {
                client.stdin = None;
                if self.record.spec.stdin_once && !self.record.spec.tty {
                    self.stdin = None;
                }
            }
        }
    }

    /// Hands pending input to the process.
    pub(super) fn flush_input(&mut self) {
        let Some(fd) = &self.stdin else { return self.stdin_pending.clear() };
        match rustix::io::write(fd, &self.stdin_pending) {
            Ok(count) => drop(self.stdin_pending.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                self.stdin = None;
                self.stdin_pending.clear();
            }
        }
    }
}

/// False when the client is gone or too slow: the container does not wait for it.
fn write_client(fd: &Option<OwnedFd>, mut bytes: &[u8]) -> bool {
    let Some(fd) = fd else { return true };
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Makes reads and writes return at once.
pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)?)
}

/// The descriptors that a request brought, by stream.
pub(super) fn by_stream(streams: [bool; 3], fds: Vec<OwnedFd>) -> [Option<OwnedFd>; 3] {
    let mut fds = fds.into_iter();
    streams.map(|wanted| if wanted { fds.next() } else { None })
}

/// A second descriptor for the same thing.
pub(super) fn duplicate(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)?)
}
