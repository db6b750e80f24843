//! One message with descriptors over a Unix socket that keeps message bounds (`SOCK_SEQPACKET`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Bytes in a message: below the default send buffer of 208 KiB, with room for a long command line.
pub(crate) const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Descriptors with a message: standard streams and one more.
pub(crate) const FDS_MAX: usize = 4;

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// The path of a socket by way of its directory's descriptor: socket addresses hold 107 bytes only.
fn address(dir: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    use std::os::fd::AsRawFd;
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?)
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Listens at `dir/name`, which must not exist.
pub(crate) fn listen(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let fd = socket()?;
    rustix::net::bind(&fd, &address(&open_dir(dir)?, name)?)?;
    rustix::net::listen(&fd, 64)?;
    Ok(fd)
}

/// Connects to `dir/name`.
pub(crate) fn connect(dir: &Path, name: &str) -> io::Result<OwnedFd> {
    let fd = socket()?;
    rustix::net::connect(&fd, &address(&open_dir(dir)?, name)?)?;
    Ok(fd)
}

/// Accepts a connection; does not wait.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// Sends one message; does not wait.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message; does not wait. `None` at the end.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    let got = rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(got.bytes);
    bytes.shrink_to_fit();
    Ok(Some((bytes, fds)))
}
