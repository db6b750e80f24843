//! The server's end of a conversation with a shim, and descriptors as async streams.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::record;
use crate::shim::protocol::{Reply, Request};
use crate::sys::{self, packet};

/// How often a full backlog is tried again: a shim takes 64 callers at once within milliseconds.
const CONNECT_TRIES: u32 = 100;

/// One conversation.
pub(super) struct Channel {
    socket: AsyncFd<OwnedFd>,
}

impl Channel {
    /// Calls the shim of the sandbox at `dir`.
    pub(super) async fn connect(dir: &Path) -> io::Result<Channel> {
        let mut tries = 0;
        loop {
            match packet::connect(dir, record::SOCKET) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && tries < CONNECT_TRIES => tries += 1,
                other => return Ok(Channel { socket: sys::register(other?)? }),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) async fn send(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(request)?;
        if bytes.len() > packet::MESSAGE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command line is too long"));
        }
        loop {
            let mut guard = self.socket.writable().await?;
            match guard.try_io(|socket| packet::send(socket.as_fd(), &bytes, fds)) {
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// The next answer; `None` when the shim hung up.
    pub(super) async fn receive(&self) -> io::Result<Option<(Reply, Vec<OwnedFd>)>> {
        loop {
            let mut guard = self.socket.readable().await?;
            match guard.try_io(|socket| packet::receive(socket.as_fd())) {
                Ok(Ok(Some((bytes, fds)))) => return Ok(Some((serde_json::from_slice(&bytes)?, fds))),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(e)) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Ok(Err(e)) => return Err(e),
                Err(_would_block) => {}
            }
        }
    }
}

/// A pipe or terminal as a stream. The end of a terminal, which the kernel reports as an error, is an ordinary end.
pub(super) struct FdStream {
    fd: AsyncFd<OwnedFd>,
}

impl FdStream {
    pub(super) fn new(fd: OwnedFd) -> io::Result<FdStream> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        Ok(FdStream { fd: sys::register(fd)? })
    }

    /// Reads what is there; does not wait.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        read(self.fd.get_ref(), buffer)
    }
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(fd, buffer) {
        Err(rustix::io::Errno::IO) => Ok(0),
        other => Ok(other?),
    }
}

impl AsyncRead for FdStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(context))?;
            let space = buffer.initialize_unfilled();
            match guard.try_io(|fd| read(fd.get_ref(), space)) {
                Ok(result) => return Poll::Ready(result.map(|count| buffer.advance(count))),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for FdStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_write_ready(context))?;
            match guard.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
