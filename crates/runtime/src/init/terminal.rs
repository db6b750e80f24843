//! Standard streams and terminals.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};

use super::user::Identity;
use super::{Doing, Outcome, Stdio};
use crate::sys::{self, packet};

/// Connects descriptors 0, 1 and 2: to a new terminal, whose other end is sent away, or to the streams given.
pub(super) fn connect(stdio: Stdio, user: &Identity) -> Outcome<()> {
    if let Some(channel) = stdio.terminal {
        return connect_terminal(&channel, stdio.console, user);
    }
    for (number, stream) in (0..).zip(stdio.streams) {
        let fd = match stream {
            Some(fd) => {
                // A process that is not root must be able to open /dev/stdout again.
                let owner = rustix::fs::Uid::from_raw(user.uid);
                rustix::fs::fchown(&fd, Some(owner), None).doing("chown a standard stream")?;
                fd
            }
            None => open_null()?,
        };
        sys::dup_onto(fd.as_fd(), number).doing("dup2")?;
    }
    Ok(())
}

fn open_null() -> Outcome<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).doing("open /dev/null")
}

fn connect_terminal(channel: &OwnedFd, console: bool, user: &Identity) -> Outcome<()> {
    use rustix::pty::OpenptFlags;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open("/dev/ptmx", flags, Mode::empty()).doing("open /dev/ptmx")?;
    rustix::pty::unlockpt(&master).doing("unlock the terminal")?;
    let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, peer).doing("open the terminal")?;
    let owner = rustix::fs::Uid::from_raw(user.uid);
    rustix::fs::fchown(&slave, Some(owner), None).doing("chown the terminal")?;
    if console {
        bind_console(&slave);
    }
    packet::send(channel.as_fd(), b"terminal", &[master.as_fd()]).doing("hand over the terminal")?;
    sys::set_controlling_terminal(slave.as_fd()).doing("set the controlling terminal")?;
    (0..3).try_for_each(|number| sys::dup_onto(slave.as_fd(), number)).doing("dup2")
}

/// `/dev/console` is the container's terminal; without it programs find the standard streams all the same.
fn bind_console(slave: &OwnedFd) {
    use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if let Ok(tree) = open_tree(slave, "", flags) {
        let _ = move_mount(tree, "", CWD, "/dev/console", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    }
}
