//! The namespaces of a sandbox: made once, held by descriptor, joined by its containers.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::cgroup::{Group, Hierarchies};
use crate::init::{self, Namespaces};
use crate::net;
use crate::record::SandboxRecord;
use crate::sys;
use contract::{IpcMode, NetworkMode, PidMode};

/// 64 MiB, what CRI runtimes give `/dev/shm`.
const SHM_BYTES_DEFAULT: u64 = 64 << 20;

/// The host's namespaces, to come back to.
pub(super) struct Host {
    net: OwnedFd,
    ipc: OwnedFd,
    uts: OwnedFd,
    pid: OwnedFd,
}

fn own(kind: &str) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/self/ns/{kind}"))?.into())
}

impl Host {
    pub(super) fn open() -> io::Result<Host> {
        Ok(Host { net: own("net")?, ipc: own("ipc")?, uts: own("uts")?, pid: own("pid")? })
    }

    /// Returns to the host's namespaces. A shim that cannot must not go on: it would act on the wrong ones.
    fn come_back(&self) {
        for (fd, kind) in
            [(&self.net, libc::CLONE_NEWNET), (&self.ipc, libc::CLONE_NEWIPC), (&self.uts, libc::CLONE_NEWUTS)]
        {
            if sys::setns(fd.as_fd(), kind).is_err() {
                sys::exit_now(1);
            }
        }
    }

    /// Runs `step` in the network namespace `fd`.
    pub(super) fn within<T>(&self, fd: BorrowedFd<'_>, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        sys::setns(fd, libc::CLONE_NEWNET)?;
        let result = step();
        self.come_back();
        result
    }

    /// Makes a child in the PID namespace `fd`.
    pub(super) fn spawn_in(&self, fd: BorrowedFd<'_>, child: impl FnOnce() -> i32) -> io::Result<i32> {
        sys::setns(fd, libc::CLONE_NEWPID)?;
        let result = sys::spawn(0, child);
        if sys::setns(self.pid.as_fd(), libc::CLONE_NEWPID).is_err() {
            sys::exit_now(1);
        }
        result
    }
}

/// The first process of a shared PID namespace.
pub(super) struct PodInit {
    pub(super) pid: i32,
    pub(super) namespace: OwnedFd,
}

/// Makes and joins up what the record describes.
pub(super) fn make(dir: &Path, record: &SandboxRecord, host: &Host) -> io::Result<Namespaces> {
    let spec = &record.spec;
    let (own_net, own_ipc) = (spec.network == NetworkMode::Pod, spec.ipc == IpcMode::Pod);
    let mut flags = 0;
    if own_net {
        flags |= libc::CLONE_NEWNET | libc::CLONE_NEWUTS;
    }
    if own_ipc {
        flags |= libc::CLONE_NEWIPC;
    }
    sys::unshare(flags)?;
    let within = || -> io::Result<[Option<OwnedFd>; 3]> {
        if own_net {
            sys::set_names(&spec.hostname, &spec.domainname)?;
            net::loopback_up()?;
        }
        spec.sysctls.iter().try_for_each(|(name, value)| set_sysctl(name, value))?;
        let open = |wanted: bool, kind: &str| if wanted { own(kind).map(Some) } else { Ok(None) };
        Ok([open(own_net, "net")?, open(own_ipc, "ipc")?, open(own_net, "uts")?])
    };
    let made = within();
    host.come_back();
    let [net, ipc, uts] = made?;
    let (mnt, host_mnt, shm) = make_mounts(dir, record)?;
    if let (Some(record_net), Some(fd)) = (&record.net, &net) {
        net::connect(record_net, &record.host_interface(), fd.as_fd(), |step| host.within(fd.as_fd(), step))?;
    }
    Ok(Namespaces { net, ipc, uts, mnt, host_mnt, shm })
}

fn make_mounts(dir: &Path, record: &SandboxRecord) -> io::Result<(OwnedFd, OwnedFd, std::path::PathBuf)> {
    let host_mnt = own("mnt")?;
    let shm = init::shm_point(dir);
    fs::create_dir_all(&shm)?;
    sys::unshare(libc::CLONE_NEWNS)?;
    let size = if record.spec.shm_bytes == 0 { SHM_BYTES_DEFAULT } else { record.spec.shm_bytes };
    let made = init::make_shm(&shm, size).map_err(|failure| io::Error::other(failure.message));
    let mnt = own("mnt");
    if sys::setns(host_mnt.as_fd(), libc::CLONE_NEWNS).is_err() {
        sys::exit_now(1);
    }
    made?;
    Ok((mnt?, host_mnt, shm))
}

/// Writes a sysctl of the current namespaces. The name may use dots or slashes.
fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = name.replace('.', "/");
    let plain = path.split('/').all(|part| !part.is_empty());
    if !plain {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("sysctl {name:?} is not a name")));
    }
    let named = |e: io::Error| io::Error::new(e.kind(), format!("sysctl {name}: {e}"));
    fs::write(format!("/proc/sys/{path}"), value).map_err(named)
}

/// Starts the first process of a shared PID namespace, which collects orphans and does nothing else.
pub(super) fn start_pod_init(record: &SandboxRecord, hierarchies: &Hierarchies) -> io::Result<Option<PodInit>> {
    if record.spec.pid != PidMode::Pod {
        return Ok(None);
    }
    let group = pod_init_group(record, hierarchies);
    group.create()?;
    let pid = sys::spawn(libc::CLONE_NEWPID | libc::CLONE_NEWNS, || match become_pod_init(&group) {
        Ok(()) => {
            sys::wait_child_forever();
            0
        }
        Err(_) => 1,
    })?;
    Ok(Some(PodInit { pid, namespace: File::open(format!("/proc/{pid}/ns/pid"))?.into() }))
}

/// The cgroup of that process.
pub(super) fn pod_init_group(record: &SandboxRecord, hierarchies: &Hierarchies) -> Group {
    hierarchies.group(&format!("{}/{}", record.pod_cgroup(), record.id))
}

/// Gives up all that a container could reach through this process: files, root, capabilities.
fn become_pod_init(group: &Group) -> io::Result<()> {
    group.join(0)?;
    rustix::process::setsid()?;
    let empty = Path::new("/proc");
    init::make_shm(empty, 4096).map_err(|failure| io::Error::other(failure.message))?;
    rustix::process::chdir(empty)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    rustix::thread::set_name(c"pause")?;
    sys::close_all();
    sys::reset_signals();
    sys::handle_children();
    sys::bound_capabilities(0)?;
    sys::set_ids(65_535, 65_535, &[])?;
    sys::set_capabilities(0)
}
