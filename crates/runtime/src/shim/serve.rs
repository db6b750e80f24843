//! The shim's loop: waits for the server, for children and for output, and acts on what comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::container::{Attachment, by_stream, set_nonblocking};
use super::protocol::{Reply, Request};
use super::{Connection, Exec, Shim};
use crate::init::Failure;
use crate::sys::{self, packet};
use contract::EventKind;

/// Conversations at once: an exec, an attachment or a request each.
const CONNECTIONS_MAX: usize = 512;

/// What became ready.
#[derive(Clone, Debug)]
enum Source {
    Listener,
    Children,
    Connection(u64),
    Output(String, usize),
    Input(String, usize),
    InputPending(String),
}

/// Empties the signal descriptor; how many arrived does not matter.
pub(super) fn drain_signals(fd: &OwnedFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(fd, &mut buffer).is_ok_and(|count| count > 0) {}
}

impl Shim {
    /// Serves until told to stop.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        while !self.stopping {
            for (source, hangup) in self.wait()? {
                self.act(source, hangup);
            }
        }
        Ok(())
    }

    /// Everything that is watched.
    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut list = vec![(Source::Children, self.children.as_fd(), PollFlags::IN)];
        if self.connections.len() < CONNECTIONS_MAX {
            list.push((Source::Listener, self.listener.as_fd(), PollFlags::IN));
        }
        for (id, connection) in &self.connections {
            list.push((Source::Connection(*id), connection.socket.as_fd(), PollFlags::IN));
        }
        for (id, container) in &self.containers {
            for (index, fd) in container.outputs.iter().enumerate() {
                list.extend(fd.as_ref().map(|fd| (Source::Output(id.clone(), index), fd.as_fd(), PollFlags::IN)));
            }
            if container.stdin_pending.is_empty() {
                let inputs = container.attachments.iter().enumerate();
                list.extend(inputs.filter_map(|(at, client)| {
                    Some((Source::Input(id.clone(), at), client.stdin.as_ref()?.as_fd(), PollFlags::IN))
                }));
            } else if let Some(fd) = &container.stdin {
                list.push((Source::InputPending(id.clone()), fd.as_fd(), PollFlags::OUT));
            }
        }
        list
    }

    /// Waits without limit; what comes back is whether the other side hung up as well.
    fn wait(&self) -> io::Result<Vec<(Source, bool)>> {
        let list = self.sources();
        let mut fds: Vec<PollFd<'_>> =
            list.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let ready = list.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready
            .map(|((source, ..), fd)| (source.clone(), fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)))
            .collect())
    }

    fn act(&mut self, source: Source, hangup: bool) {
        match source {
            Source::Children => {
                drain_signals(&self.children);
                self.collect();
            }
            Source::Listener => self.accept(),
            Source::Connection(id) => self.listen_to(id, hangup),
            Source::Output(id, index) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.pump(index, false, &self.clock);
                }
            }
            Source::Input(id, at) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.take_input(at);
                }
            }
            Source::InputPending(id) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.flush_input();
                }
            }
        }
    }

    fn accept(&mut self) {
        // The client may have gone meanwhile.
        if let Ok(socket) = packet::accept(self.listener.as_fd()) {
            self.next_connection += 1;
            let connection = Connection { socket, subscribed: false, exec: false };
            self.connections.insert(self.next_connection, connection);
        }
    }

    fn listen_to(&mut self, id: u64, hangup: bool) {
        let Some(connection) = self.connections.get(&id) else { return };
        match packet::receive(&connection.socket) {
            Ok(Some((bytes, fds))) => match serde_json::from_slice(&bytes) {
                Ok(request) => self.answer(id, request, fds),
                Err(e) => self.fail(id, &Failure::new(format!("request not understood: {e}"))),
            },
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !hangup => {}
            Ok(None) | Err(_) => self.hang_up(id),
        }
    }

    /// The end of a conversation is the end of what it was about.
    fn hang_up(&mut self, id: u64) {
        let was_exec = self.connections.remove(&id).is_some_and(|connection| connection.exec);
        for container in self.containers.values_mut() {
            let Some(at) = container.attachments.iter().position(|client| client.connection == id) else { continue };
            let client = container.attachments.remove(at);
            if container.record.spec.stdin_once && client.stdin.is_some() && !container.record.spec.tty {
                container.stdin = None;
            }
        }
        if was_exec && let Some(exec) = self.execs.iter().find(|exec| exec.connection == id) {
            if let Some(container) = self.containers.get(&exec.container) {
                let _ = container.group.child(&exec.group_name).kill();
            }
            let _ = sys::kill(exec.pid, libc::SIGKILL);
        }
    }

    fn answer(&mut self, id: u64, request: Request, fds: Vec<OwnedFd>) {
        match request {
            Request::Subscribe => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.subscribed = true;
                }
                self.send(id, &Reply::Done, &[]);
                self.record_ends();
                for (container, exit) in &self.unrecorded {
                    let event = EventKind::ContainerExited { container: container.clone(), exit: exit.clone() };
                    self.send(id, &Reply::Event(event), &[]);
                }
            }
            Request::Start { container } => match self.start(&container) {
                Ok(pid) => {
                    self.publish(EventKind::ContainerStarted { container });
                    self.send(id, &Reply::Started { pid }, &[]);
                }
                Err(failure) => self.fail(id, &failure),
            },
            Request::Signal { container, signal } => self.signal(id, &container, signal),
            Request::Kill { container } => {
                let killed = self.containers.get(&container).map_or(Ok(()), |container| container.group.kill());
                self.settle(id, killed);
            }
            Request::Exec { container, command, tty, streams } => {
                let streams = by_stream(streams, fds);
                self.exec(id, container, &command, tty, streams);
            }
            Request::Attach { container, streams } => self.attach(id, &container, by_stream(streams, fds)),
            Request::Socket { ipv6 } => self.socket(id, ipv6),
            Request::Forget { container } => {
                let removed = if self.containers.contains_key(&container) {
                    Err(io::Error::other(format!("container {container} is running")))
                } else {
                    self.unrecorded.remove(&container);
                    self.pod_group.child(&container).remove()
                };
                self.settle(id, removed);
            }
            Request::Stop => {
                self.stop();
                self.stopping = true;
            }
        }
    }

    fn signal(&mut self, id: u64, container: &str, signal: i32) {
        // One that has ended has no use for a signal; its number may already be another's.
        let sent = self.containers.get(container).map_or(Ok(()), |container| sys::kill(container.pid, signal));
        self.settle(id, sent);
    }

    fn exec(&mut self, id: u64, container: String, command: &[String], tty: bool, streams: [Option<OwnedFd>; 3]) {
        match self.spawn_exec(&container, command, tty, streams) {
            Ok((pid, group_name, terminal)) => {
                self.execs.push(Exec { pid, connection: id, container, group_name });
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.exec = true;
                }
                let fds: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
                self.send(id, &Reply::Started { pid }, &fds);
            }
            Err(failure) => self.fail(id, &failure),
        }
    }

    fn attach(&mut self, id: u64, name: &str, streams: [Option<OwnedFd>; 3]) {
        let nonblocking = streams.iter().flatten().try_for_each(|fd| set_nonblocking(fd.as_fd()));
        let terminal = self.terminal_of(name);
        let Some(container) = self.containers.get_mut(name) else {
            return self.fail(id, &Failure::new(format!("container {name} is not running")));
        };
        let [stdin, stdout, stderr] = streams;
        let stdin = stdin.filter(|_| container.stdin.is_some());
        container.attachments.push(Attachment { connection: id, stdin, outputs: [stdout, stderr] });
        match nonblocking {
            Ok(()) => {
                let fds: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
                self.send(id, &Reply::Done, &fds);
            }
            Err(e) => self.settle(id, Err(e)),
        }
    }

    /// A socket belongs to the namespace it is made in, whoever uses it later.
    fn socket(&mut self, id: u64, ipv6: bool) {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        let family = if ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = || socket_with(family, SocketType::STREAM, flags, None).map_err(io::Error::from);
        let made = match &self.namespaces.net {
            Some(fd) => self.host.within(fd.as_fd(), open),
            None => open(),
        };
        match made {
            Ok(socket) => self.send(id, &Reply::Done, &[socket.as_fd()]),
            Err(e) => self.settle(id, Err(e)),
        }
    }

    fn settle(&mut self, id: u64, result: io::Result<()>) {
        match result {
            Ok(()) => self.send(id, &Reply::Done, &[]),
            Err(e) => self.fail(id, &Failure::new(e.to_string())),
        }
    }

    fn fail(&mut self, id: u64, failure: &Failure) {
        let reply = Reply::Failed { message: failure.message.clone(), exit_code: failure.exit_code };
        self.send(id, &reply, &[]);
    }

    /// Sends without waiting: a server that does not read its answers is dropped, and asks again.
    pub(super) fn send(&self, id: u64, reply: &Reply, fds: &[BorrowedFd<'_>]) {
        if let (Some(connection), Ok(bytes)) = (self.connections.get(&id), serde_json::to_vec(reply)) {
            let _ = packet::send(connection.socket.as_fd(), &bytes, fds);
        }
    }

    /// Tells every subscriber. One that cannot take it is cut off, so that it notices.
    pub(super) fn publish(&mut self, event: EventKind) {
        let Ok(bytes) = serde_json::to_vec(&Reply::Event(event)) else { return };
        self.connections.retain(|_, connection| {
            !connection.subscribed || packet::send(connection.socket.as_fd(), &bytes, &[]).is_ok()
        });
    }
}
