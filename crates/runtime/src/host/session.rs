//! Exec, attach and port-forward: the shim only joins descriptors, the copying is done here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpSocket;
use tokio::sync::{mpsc, oneshot};

use super::channel::{Channel, FdStream};
use super::sandbox::Sandbox;
use super::{ANSWER_TIMEOUT, Runtime, START_TIMEOUT, timed};
use crate::shim::protocol::{Reply, Request};
use contract::Connection;
use contract::ContainerState;
use contract::{Error, Result};
use contract::{ExecOutput, ExecSpec, Session, SessionExit, TerminalSize};

/// Sizes waiting to be set; only the last matters.
const RESIZES_KEPT: usize = 4;
/// Output that may wait for an attached client: the container does not, so a client that falls behind by more is let
/// go. The most that the kernel gives without asking.
const ATTACHED_BYTES: usize = 1 << 20;
/// Read at once.
const CHUNK_BYTES: usize = 32 << 10;

/// Our ends and theirs.
#[derive(Default)]
struct Pipes {
    ours: [Option<OwnedFd>; 3],
    theirs: [Option<OwnedFd>; 3],
}

fn open_pipes(wanted: [bool; 3]) -> io::Result<Pipes> {
    let mut pipes = Pipes::default();
    for (at, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ours, theirs) = if at == 0 { (writer, reader) } else { (reader, writer) };
        pipes.ours[at] = Some(ours);
        pipes.theirs[at] = Some(theirs);
    }
    Ok(pipes)
}

impl Runtime {
    /// Opens a conversation with a first answer; the descriptors sent are closed here.
    async fn converse(
        &self,
        sandbox: &Sandbox,
        request: &Request,
        theirs: [Option<OwnedFd>; 3],
    ) -> Result<(Channel, Reply, Vec<OwnedFd>)> {
        let shim = |e: io::Error| Error::Shim { id: sandbox.record.id.clone(), message: e.to_string() };
        timed("starting the session", START_TIMEOUT, async {
            let channel = Channel::connect(&sandbox.dir).await.map_err(shim)?;
            let fds: Vec<BorrowedFd<'_>> = theirs.iter().flatten().map(AsFd::as_fd).collect();
            channel.send(request, &fds).await.map_err(shim)?;
            match channel.receive().await.map_err(shim)? {
                Some((Reply::Failed { message, exit_code }, _)) => Err(Error::Start { message, exit_code }),
                Some((reply, fds)) => Ok((channel, reply, fds)),
                None => Err(shim(io::ErrorKind::ConnectionReset.into())),
            }
        })
        .await
    }

    fn running(&self, id: &str) -> Result<(std::sync::Arc<Sandbox>, bool)> {
        let sandbox = self.owner(id)?;
        let view = self.container(&sandbox, id)?;
        if view.state() != ContainerState::Running {
            return Err(Error::WrongState(format!("container {id} is not running")));
        }
        Ok((sandbox, view.record.spec.tty))
    }

    pub(super) async fn open_exec(&self, id: &str, spec: &ExecSpec) -> Result<Session> {
        let (sandbox, _) = self.running(id)?;
        let wanted = if spec.tty { [false; 3] } else { [spec.stdin, spec.stdout, spec.stderr] };
        let pipes = open_pipes(wanted).map_err(Error::io("make pipes"))?;
        let request =
            Request::Exec { container: id.to_owned(), command: spec.command.clone(), tty: spec.tty, streams: wanted };
        let (channel, _, fds) = self.converse(&sandbox, &request, pipes.theirs).await?;
        let terminal = if spec.tty { fds.into_iter().next() } else { None };
        build(channel, pipes.ours, terminal, spec.stdin).map_err(Error::io("open the session's streams"))
    }

    pub(super) async fn open_attach(&self, id: &str, stdin: bool) -> Result<Session> {
        let (sandbox, tty) = self.running(id)?;
        let wanted = [stdin, true, !tty];
        let pipes = open_pipes(wanted).map_err(Error::io("make pipes"))?;
        for output in pipes.ours.iter().skip(1).flatten() {
            // A smaller one does too, for output that comes slower.
            let _ = rustix::pipe::fcntl_setpipe_size(output, ATTACHED_BYTES);
        }
        let request = Request::Attach { container: id.to_owned(), streams: wanted };
        let (channel, _, fds) = self.converse(&sandbox, &request, pipes.theirs).await?;
        let mut session = build(channel, pipes.ours, None, stdin).map_err(Error::io("open the session's streams"))?;
        session.resize = fds.into_iter().next().map(resizer);
        Ok(session)
    }

    pub(super) async fn run_exec(&self, id: &str, command: &[String], timeout: Duration) -> Result<ExecOutput> {
        let (sandbox, _) = self.running(id)?;
        let limit = if timeout.is_zero() { ExecOutput::TIMEOUT_DEFAULT } else { timeout };
        let what = format!("command {command:?}");
        // Dropping the conversation, as the time limit does, kills the command.
        timed(&what, limit, async {
            let streams = [false, true, true];
            let pipes = open_pipes(streams).map_err(Error::io("make pipes"))?;
            let request = Request::Exec { container: id.to_owned(), command: command.to_vec(), tty: false, streams };
            let (channel, _, _) = self.converse(&sandbox, &request, pipes.theirs).await?;
            let [_, stdout, stderr] = pipes.ours;
            let (Some(stdout), Some(stderr)) = (stdout, stderr) else { return Ok(ExecOutput::default()) };
            let open = |fd| FdStream::new(fd).map_err(Error::io("open the command's output"));
            collect(&channel, open(stdout)?, open(stderr)?).await
        })
        .await
    }

    pub(super) async fn dial(&self, sandbox: &str, port: u16) -> Result<Box<dyn Connection>> {
        let sandbox = self.sandbox(sandbox)?;
        let targets = [(false, format!("127.0.0.1:{port}")), (true, format!("[::1]:{port}"))];
        let mut last = None;
        for (ipv6, target) in targets {
            let socket = self.tell(&sandbox, &Request::Socket { ipv6 }).await?.into_iter().next();
            let (Some(socket), Ok(address)) = (socket, target.parse()) else { continue };
            let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(socket));
            let connect = async { socket.connect(address).await.map_err(Error::io(format!("connect to {target}"))) };
            match timed("connecting", ANSWER_TIMEOUT, connect).await {
                Ok(stream) => return Ok(Box::new(stream)),
                Err(e) => last = last.or(Some(e)),
            }
        }
        Err(last.unwrap_or_else(|| Error::WrongState("the sandbox has no network".to_owned())))
    }
}

fn build(channel: Channel, ours: [Option<OwnedFd>; 3], terminal: Option<OwnedFd>, input: bool) -> io::Result<Session> {
    let [stdin, stdout, stderr] = ours;
    let stream = |fd: Option<OwnedFd>| fd.map(FdStream::new).transpose();
    let (stdin, stdout, resize) = match terminal {
        Some(master) => {
            let copy = || rustix::io::fcntl_dupfd_cloexec(&master, 3);
            let stdin = if input { Some(copy()?) } else { None };
            (stream(stdin)?, stream(Some(copy()?))?, Some(resizer(master)))
        }
        None => (stream(stdin)?, stream(stdout)?, None),
    };
    let (sender, exit) = oneshot::channel();
    tokio::spawn(watch(channel, sender));
    Ok(Session {
        stdin: stdin.map(|stream| Box::pin(stream) as Pin<Box<dyn AsyncWrite + Send>>),
        stdout: stdout.map(|stream| Box::pin(stream) as Pin<Box<dyn AsyncRead + Send>>),
        stderr: stream(stderr)?.map(|stream| Box::pin(stream) as Pin<Box<dyn AsyncRead + Send>>),
        resize,
        exit,
    })
}

/// Waits for the end of the process, or for the end of interest in it: then hanging up ends it.
async fn watch(channel: Channel, mut sender: oneshot::Sender<SessionExit>) {
    let exit = tokio::select! {
        exit = exit_code(&channel) => exit,
        () = sender.closed() => return,
    };
    // Nobody may be left to hear.
    let _ = sender.send(exit);
}

async fn exit_code(channel: &Channel) -> Result<i32> {
    loop {
        match channel.receive().await.map_err(Error::io("hear from the shim"))? {
            Some((Reply::Exited { exit_code }, _)) => return Ok(exit_code),
            Some(_) => {}
            None => return Err(Error::WrongState("the session ended with its container".to_owned())),
        }
    }
}

/// Sets sizes of a terminal as they come.
fn resizer(terminal: OwnedFd) -> mpsc::Sender<TerminalSize> {
    let (sender, mut receiver) = mpsc::channel::<TerminalSize>(RESIZES_KEPT);
    tokio::spawn(async move {
        while let Some(size) = receiver.recv().await {
            let size = rustix::termios::Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
            // The process may be gone.
            let _ = rustix::termios::tcsetwinsize(&terminal, size);
        }
    });
    sender
}

/// Reads all output until the command ends, then what is left in the pipes. Descendants that keep them open are not
/// waited for.
async fn collect(channel: &Channel, mut stdout: FdStream, mut stderr: FdStream) -> Result<ExecOutput> {
    let mut output = ExecOutput::default();
    let (mut out_buffer, mut err_buffer) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let (mut out_open, mut err_open) = (true, true);
    let exit = exit_code(channel);
    tokio::pin!(exit);
    output.exit_code = loop {
        tokio::select! {
            code = &mut exit => break code?,
            read = stdout.read(&mut out_buffer), if out_open => out_open = keep(&mut output.stdout, &out_buffer, read),
            read = stderr.read(&mut err_buffer), if err_open => err_open = keep(&mut output.stderr, &err_buffer, read),
        }
    };
    drain(&stdout, &mut out_buffer, &mut output.stdout);
    drain(&stderr, &mut err_buffer, &mut output.stderr);
    Ok(output)
}

fn drain(stream: &FdStream, buffer: &mut [u8], kept: &mut Vec<u8>) {
    loop {
        let read = stream.try_read(buffer);
        if !keep(kept, buffer, read) {
            return;
        }
    }
}

/// False at the end.
fn keep(kept: &mut Vec<u8>, buffer: &[u8], read: io::Result<usize>) -> bool {
    let count = match read {
        Ok(count) if count > 0 => count,
        _ => return false,
    };
    let room = ExecOutput::OUTPUT_BYTES_MAX.saturating_sub(kept.len()).min(count);
    kept.extend(buffer.get(..room).unwrap_or_default());
    true
}
