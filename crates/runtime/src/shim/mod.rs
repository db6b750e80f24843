//! The shim: one small process for each sandbox. It holds the sandbox's namespaces, starts and waits for its
//! containers, writes their logs and their ends, and answers the server over a socket. It has one thread and no
//! async runtime, and it goes on when the server goes away.

mod container;
mod files;
pub(crate) mod log;
pub(crate) mod protocol;
mod sandbox;
mod serve;
mod start;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clock::{Clock, SystemClock};

use crate::cgroup::{Group, Hierarchies};
use crate::init::Namespaces;
use crate::record::{self, SandboxRecord};
use crate::sys::{self, Ended, packet};
use container::{Container, duplicate};
use contract::{EventKind, ExitRecord};
use protocol::Reply;
use sandbox::{Host, PodInit};

/// A shim is the last to go when memory is short: its containers would be lost with it.
const OOM_SCORE_ADJ: &str = "-998";

/// A command that runs in a container.
struct Exec {
    pid: i32,
    connection: u64,
    container: String,
    group_name: String,
}

/// A conversation with the server.
struct Connection {
    socket: OwnedFd,
    subscribed: bool,
    exec: bool,
}

struct Shim {
    dir: PathBuf,
    record: SandboxRecord,
    clock: SystemClock,
    pod_group: Group,
    pod_init_group: Group,
    host: Host,
    namespaces: Namespaces,
    pod_init: Option<PodInit>,
    listener: OwnedFd,
    children: OwnedFd,
    containers: BTreeMap<String, Container>,
    execs: Vec<Exec>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    stopping: bool,
    /// Ends that could not be recorded: told to every server that comes, and recorded when that is possible.
    unrecorded: BTreeMap<String, ExitRecord>,
}

/// Runs a shim; `args` are those after the hidden command: the sandbox's directory. Must be called before any thread
/// is started. Standard input is the sandbox's lock, standard output takes the word that the sandbox is ready.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(dir) = args.next().map(PathBuf::from) else {
        return ExitCode::from(2);
    };
    let shim = prepare().and_then(|(lock, ready)| {
        let shim = Shim::open(&dir);
        let word = match &shim {
            Ok(_) => Reply::Started { pid: std::process::id().cast_signed() },
            Err(e) => Reply::Failed { message: e.to_string(), exit_code: 1 },
        };
        // A server that is gone meanwhile finds the sandbox by its socket.
        let _ = File::from(ready).write_all(&serde_json::to_vec(&word)?);
        shim.map(|shim| (lock, shim))
    });
    match shim {
        Ok((_lock, mut shim)) => match shim.serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(_) => ExitCode::FAILURE,
    }
}

/// Detaches from whoever started this process; the result is the lock and where to say "ready".
fn prepare() -> io::Result<(OwnedFd, OwnedFd)> {
    // Fails only for the leader of a group, which is as good.
    let _ = rustix::process::setsid();
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Lowering needs CAP_SYS_RESOURCE; a host that withholds it can still run pods.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    let lock = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let ready = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    (0..3).try_for_each(|number| sys::dup_onto(null.as_fd(), number))?;
    std::env::set_current_dir("/")?;
    Ok((lock, ready))
}

impl Shim {
    fn open(dir: &Path) -> io::Result<Shim> {
        fs::write(dir.join(record::SHIM_PID), std::process::id().to_string())?;
        let record: SandboxRecord = record::read(&dir.join(record::SANDBOX))?;
        let hierarchies = Hierarchies::detect()?;
        hierarchies.group(&shims_group(&record.cgroup_root)).join(0)?;
        let children = sys::child_signal_fd()?;
        let host = Host::open()?;
        files::write(dir, &record)?;
        let namespaces = sandbox::make(dir, &record, &host)?;
        if let Some(net) = &namespaces.net {
            sys::publish_fd(net.as_fd(), NETNS_FD)?;
        }
        let pod_init = sandbox::start_pod_init(&record, &hierarchies)?;
        let listener = packet::listen(dir, record::SOCKET)?;
        Ok(Shim {
            pod_group: hierarchies.group(&record.pod_cgroup()),
            pod_init_group: sandbox::pod_init_group(&record, &hierarchies),
            dir: dir.to_owned(),
            record,
            clock: SystemClock::new(),
            host,
            namespaces,
            pod_init,
            listener,
            children,
            containers: BTreeMap::new(),
            execs: Vec::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            stopping: false,
            unrecorded: BTreeMap::new(),
        })
    }

    /// Collects children that ended: first processes, commands, orphans.
    fn collect(&mut self) {
        while let Some((pid, ended)) = sys::reap() {
            if let Some(at) = self.execs.iter().position(|exec| exec.pid == pid) {
                let exec = self.execs.swap_remove(at);
                if let Some(container) = self.containers.get(&exec.container) {
                    container.group.forget_sub_group(&exec.group_name);
                }
                self.send(exec.connection, &Reply::Exited { exit_code: exit_code(ended) }, &[]);
                continue;
            }
            let found = self.containers.values().find(|container| container.pid == pid);
            if let Some(id) = found.map(|container| container.record.id.clone()) {
                self.finish(&id, ended);
            }
        }
    }

    /// Records the end of a container, once nothing of it runs any more and its output is in the log.
    fn finish(&mut self, id: &str, ended: Ended) {
        let Some(mut container) = self.containers.remove(id) else { return };
        // Read first: the files go with the group.
        let oom_kills = container.group.oom_kills();
        let _ = container.group.kill();
        container.pump(0, true, &self.clock);
        container.pump(1, true, &self.clock);
        container.log.finish(&self.clock);
        let _ = container.group.remove();
        let exit = exit_record(ended, oom_kills > 0, self.clock.now());
        if record::write(&container.dir.join(record::EXIT), &exit, true).is_err() {
            // The disk may be full, in spite of the room set aside.
            self.unrecorded.insert(id.to_owned(), exit.clone());
        }
        for client in &container.attachments {
            self.send(client.connection, &Reply::Exited { exit_code: exit.exit_code }, &[]);
        }
        if oom_kills > 0 {
            self.publish(EventKind::ContainerOom { container: id.to_owned() });
        }
        self.publish(EventKind::ContainerExited { container: id.to_owned(), exit });
    }

    fn record_start_error(&mut self, id: &str, dir: &Path, message: &str) {
        let exit = ExitRecord {
            exit_code: 128,
            reason: "StartError".to_owned(),
            message: message.to_owned(),
            finished_at: self.clock.now(),
            ..ExitRecord::default()
        };
        if record::write(&dir.join(record::EXIT), &exit, true).is_err() {
            self.unrecorded.insert(id.to_owned(), exit.clone());
        }
        self.publish(EventKind::ContainerExited { container: id.to_owned(), exit });
    }

    /// Tries again to record what could not be.
    fn record_ends(&mut self) {
        let dir = &self.dir;
        self.unrecorded.retain(|id, exit| {
            let container = record::container_dir(dir, id);
            // One that was removed needs no record.
            container.exists() && record::write(&container.join(record::EXIT), exit, true).is_err()
        });
    }

    /// Kills everything, tells the ends, gives back the network.
    fn stop(&mut self) {
        for container in self.containers.values() {
            let _ = container.group.kill();
        }
        while !self.containers.is_empty() {
            let limit = rustix::fs::Timespec { tv_sec: STOP_WAIT_S, tv_nsec: 0 };
            let mut fds = [rustix::event::PollFd::new(&self.children, rustix::event::PollFlags::IN)];
            if matches!(rustix::event::poll(&mut fds, Some(&limit)), Ok(0)) {
                break;
            }
            serve::drain_signals(&self.children);
            self.collect();
        }
        if let Some(pod) = self.pod_init.take() {
            let _ = sys::kill(pod.pid, libc::SIGKILL);
            let _ = self.pod_init_group.remove();
        }
        if self.record.net.is_some() {
            let _ = crate::net::delete(&self.record.host_interface());
        }
        let _ = fs::write(self.dir.join(record::STOPPED), "");
    }

    /// A second descriptor of the container's terminal, to change its size.
    fn terminal_of(&self, id: &str) -> Option<OwnedFd> {
        let container = self.containers.get(id).filter(|container| container.record.spec.tty)?;
        duplicate(container.outputs[0].as_ref()?).ok()
    }
}

/// How long a killed process may take to go before the shim goes without it: one that hangs in the kernel.
const STOP_WAIT_S: i64 = 10;

/// Where others find the network namespace among the shim's descriptors: above all that are open by then.
pub(crate) const NETNS_FD: i32 = 100;

/// The cgroup of all shims.
pub(crate) fn shims_group(root: &str) -> String {
    format!("{root}/shims")
}

fn exit_code(ended: Ended) -> i32 {
    match ended {
        Ended::Exited(code) => code,
        Ended::Signaled(signal) => 128 + signal,
    }
}

fn exit_record(ended: Ended, oom_killed: bool, finished_at: stdx::Time) -> ExitRecord {
    let exit_code = exit_code(ended);
    let reason = match (oom_killed, exit_code) {
        (true, _) => "OOMKilled",
        (false, 0) => "Completed",
        (false, _) => "Error",
    };
    let signal = if let Ended::Signaled(signal) = ended { Some(signal) } else { None };
    ExitRecord { exit_code, signal, reason: reason.to_owned(), message: String::new(), oom_killed, finished_at }
}
