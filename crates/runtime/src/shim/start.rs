//! Starting processes: a container's first, and those of an exec.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use clock::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Shim;
use super::container::{Container, duplicate, set_nonblocking};
use super::log::Log;
use crate::init::{self, Command, Failure, Launch, Stdio};
use crate::record::{self, ContainerRecord, StartRecord};
use crate::sys::{self, packet};
use contract::PidMode;

/// How long setting up a process may take before it is killed: a mount of a dead network file system hangs for ever.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Failures are written to this pipe; exec closes it.
fn report(mut pipe: File, failure: &Failure) -> i32 {
    let _ = pipe.write_all(&serde_json::to_vec(failure).unwrap_or_default());
    1
}

/// Waits until the program runs, or for why it does not.
fn await_program(pipe: OwnedFd, pid: i32) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let limit = rustix::fs::Timespec { tv_sec: SETUP_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&limit));
    if !matches!(ready, Ok(1)) {
        let _ = sys::kill(pid, libc::SIGKILL);
        return Err(Failure::new(format!("not set up within {} s", SETUP_TIMEOUT.as_secs())));
    }
    if let Err(e) = File::from(pipe).read_to_end(&mut bytes) {
        return Err(Failure::new(format!("read the result of the setup: {e}")));
    }
    if bytes.is_empty() {
        return Ok(());
    }
    Err(serde_json::from_slice(&bytes).unwrap_or_else(|_| Failure::new("setup failed without saying why")))
}

fn internal(doing: &str) -> impl FnOnce(io::Error) -> Failure {
    let doing = doing.to_owned();
    move |e| Failure::new(format!("{doing}: {e}"))
}

/// Both ends of the streams of a container.
struct Streams {
    theirs: Stdio,
    outputs: [Option<OwnedFd>; 2],
    stdin: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

fn open_streams(record: &ContainerRecord) -> io::Result<Streams> {
    if record.spec.tty {
        let (ours, theirs) = channel()?;
        let theirs = Stdio { streams: [None, None, None], terminal: Some(theirs), console: true };
        return Ok(Streams { theirs, outputs: [None, None], stdin: None, terminal: Some(ours) });
    }
    let (out, their_out) = pipe()?;
    let (err, their_err) = pipe()?;
    set_nonblocking(out.as_fd())?;
    set_nonblocking(err.as_fd())?;
    let (their_in, stdin) = if record.spec.stdin {
        let (their_in, stdin) = pipe()?;
        set_nonblocking(stdin.as_fd())?;
        (Some(their_in), Some(stdin))
    } else {
        (None, None)
    };
    let theirs = Stdio { streams: [their_in, Some(their_out), Some(their_err)], terminal: None, console: false };
    Ok(Streams { theirs, outputs: [Some(out), Some(err)], stdin, terminal: None })
}

/// The two ends over which a terminal is handed over.
fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// The terminal that a started process made.
fn take_terminal(channel: &OwnedFd) -> Result<OwnedFd, Failure> {
    let message = packet::receive(channel).map_err(internal("receive the terminal"))?;
    let fd = message.and_then(|(_, fds)| fds.into_iter().next());
    fd.ok_or_else(|| Failure::new("the process sent no terminal"))
}

impl Shim {
    /// Starts a created container. On failure the container ends with the reason `StartError`.
    pub(super) fn start(&mut self, id: &str) -> Result<i32, Failure> {
        if let Some(running) = self.containers.get(id) {
            return Ok(running.pid);
        }
        let dir = record::container_dir(&self.dir, id);
        if dir.join(record::EXIT).exists() || self.unrecorded.contains_key(id) {
            return Err(Failure::new(format!("container {id} has ended")));
        }
        let found: ContainerRecord =
            record::read(&dir.join(record::CONTAINER)).map_err(internal("read the container's record"))?;
        match self.launch(&dir, found) {
            Ok(pid) => Ok(pid),
            Err(failure) => {
                let message = format!("unable to start container process: {}", failure.message);
                self.record_start_error(id, &dir, &message);
                Err(Failure { message, exit_code: failure.exit_code })
            }
        }
    }

    fn launch(&mut self, dir: &std::path::Path, found: ContainerRecord) -> Result<i32, Failure> {
        if !self.pod_group.exists() {
            // Somebody removed it: the pod's own limits would be lost with it.
            let again = self.pod_group.create().and_then(|()| self.pod_group.apply(&self.record.spec.resources));
            again.map_err(internal("make the pod's control group again"))?;
        }
        let group = self.pod_group.child(&found.id);
        group.create().map_err(internal("make the control group"))?;
        let result = self.launch_in(dir, found, &group);
        if result.is_err() {
            // The cause matters more; what is left is removed with the container.
            let _ = group.remove();
        }
        result
    }

    fn launch_in(
        &mut self,
        dir: &std::path::Path,
        found: ContainerRecord,
        group: &crate::cgroup::Group,
    ) -> Result<i32, Failure> {
        group.apply(&found.spec.resources).map_err(internal("apply limits"))?;
        group.die_together().map_err(internal("apply limits"))?;
        group.restrict_devices(&init::device_rules(&found.spec)).map_err(internal("apply device rules"))?;
        record::reserve(&dir.join(record::EXIT)).map_err(internal("set room aside for the end"))?;
        let log = Log::open(&self.record.log_path(&found.spec), found.spec.log.clone());
        let log = log.map_err(internal("open the log"))?;
        let Streams { theirs, mut outputs, mut stdin, terminal } =
            open_streams(&found).map_err(internal("make streams"))?;
        let pid = self.spawn_first(dir, &found, group, theirs)?;
        if let Some(channel) = terminal {
            let master = take_terminal(&channel)?;
            set_nonblocking(master.as_fd()).map_err(internal("use the terminal"))?;
            stdin = found.spec.stdin.then(|| duplicate(&master)).transpose().map_err(internal("use the terminal"))?;
            outputs = [Some(master), None];
        }
        let started = StartRecord { pid, at: self.clock.now() };
        record::write(&dir.join(record::STARTED), &started, false).map_err(internal("record the start"))?;
        let container = Container {
            dir: dir.to_owned(),
            group: group.clone(),
            pid,
            outputs,
            stdin,
            stdin_pending: Vec::new(),
            log,
            attachments: Vec::new(),
            execs: 0,
            record: found,
        };
        self.containers.insert(container.record.id.clone(), container);
        Ok(pid)
    }

    fn spawn_first(
        &self,
        dir: &std::path::Path,
        found: &ContainerRecord,
        group: &crate::cgroup::Group,
        theirs: Stdio,
    ) -> Result<i32, Failure> {
        let (result, their_result) = pipe().map_err(internal("make a pipe"))?;
        let plan = Launch {
            sandbox: &self.record,
            sandbox_dir: &self.dir,
            dir,
            record: found,
            namespaces: &self.namespaces,
            group,
        };
        let mut give = Some((theirs, File::from(their_result)));
        let child = || match give.take() {
            Some((theirs, pipe)) => report(pipe, &init::launch(&plan, theirs)),
            None => 1,
        };
        let pid = match (self.record.spec.pid, &self.pod_init) {
            (PidMode::Container, _) => sys::spawn(libc::CLONE_NEWPID, child),
            (PidMode::Pod, Some(pod)) => self.host.spawn_in(pod.namespace.as_fd(), child),
            (PidMode::Pod, None) => Err(io::Error::other("the pod's first process is missing")),
            (PidMode::Node, _) => sys::spawn(0, child),
        }
        .map_err(internal("make a process"))?;
        drop(give);
        await_program(result, pid)?;
        Ok(pid)
    }

    /// Runs a command in a running container. With a terminal, its controlling end comes back as well. The name is
    /// that of the sub-group for killing.
    pub(super) fn spawn_exec(
        &mut self,
        id: &str,
        command: &[String],
        tty: bool,
        streams: [Option<OwnedFd>; 3],
    ) -> Result<(i32, String, Option<OwnedFd>), Failure> {
        let fail = |failure: Failure| Failure {
            message: format!("exec failed: unable to start container process: {}", failure.message),
            ..failure
        };
        let missing = || Failure::new(format!("container {id} is not running"));
        let container = self.containers.get_mut(id).ok_or_else(missing)?;
        container.execs += 1;
        let name = format!("exec-{}", container.execs);
        let container = self.containers.get(id).ok_or_else(missing)?;
        self.exec_in(container, command, tty, streams, &name).map(|(pid, fd)| (pid, name, fd)).map_err(fail)
    }

    fn exec_in(
        &self,
        container: &Container,
        command: &[String],
        tty: bool,
        streams: [Option<OwnedFd>; 3],
        name: &str,
    ) -> Result<(i32, Option<OwnedFd>), Failure> {
        let pid = rustix::process::Pid::from_raw(container.pid).ok_or_else(|| Failure::new("no process"))?;
        let target = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .map_err(|e| Failure::new(format!("open the container's process: {e}")))?;
        let namespace =
            File::open(format!("/proc/{}/ns/pid", container.pid)).map_err(internal("open the PID namespace"))?;
        let (result, their_result) = pipe().map_err(internal("make a pipe"))?;
        let (ours, theirs) = if tty { channel().map(|(a, b)| (Some(a), Some(b))) } else { Ok((None, None)) }
            .map_err(internal("make a channel"))?;
        let plan = Command {
            spec: &container.record.spec,
            command,
            target: target.as_fd(),
            group: &container.group,
            group_name: name,
        };
        let stdio = Stdio { streams, terminal: theirs, console: false };
        let mut give = Some((stdio, File::from(their_result)));
        let child = || match give.take() {
            Some((stdio, pipe)) => report(pipe, &init::exec(&plan, stdio)),
            None => 1,
        };
        let spawned = self.host.spawn_in(namespace.as_fd(), child);
        drop(give);
        let pid = spawned.map_err(|e| match e.raw_os_error() {
            // What the kernel says when the first process of the namespace has ended.
            Some(libc::ENOMEM) => Failure::new("cannot exec in a stopped container"),
            _ => Failure::new(format!("make a process: {e}")),
        })?;
        await_program(result, pid)?;
        let terminal = ours.map(|channel| take_terminal(&channel)).transpose()?;
        Ok((pid, terminal))
    }
}
