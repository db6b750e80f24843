//! What happens in a new process between its making and the program of the container: the steps of a container's
//! first process and of an exec. Runs in a child of the shim with one thread; every failure is a text in the words
//! of runc, with the exit code a shell would give.

mod capability;
mod lookup;
mod mounts;
mod rootfs;
mod seccomp;
mod terminal;
mod user;

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::{DeviceRule, Group};
use crate::record::{ContainerRecord, SandboxRecord};
use crate::sys;
use contract::{ContainerSpec, IpcMode, NetworkMode, SeccompProfile};

pub(crate) use rootfs::{make_shm, shm_point};

/// Why the program could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) exit_code: i32,
}

impl Failure {
    /// Anything that is not about the program itself.
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), exit_code: 128 }
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;

/// Adds what was being done to a system error.
pub(crate) trait Doing<T> {
    fn doing(self, what: &str) -> Outcome<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: &str) -> Outcome<T> {
        self.map_err(|e| Failure::new(format!("{what}: {}", reason(&e.into()))))
    }
}

/// A system error as C and Go word it, without Rust's number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The namespaces that a sandbox holds, and the host's own to come back to.
pub(crate) struct Namespaces {
    pub(crate) net: Option<OwnedFd>,
    pub(crate) ipc: Option<OwnedFd>,
    pub(crate) uts: Option<OwnedFd>,
    /// Holds the sandbox's `/dev/shm`, mounted at [`Namespaces::shm`].
    pub(crate) mnt: OwnedFd,
    pub(crate) host_mnt: OwnedFd,
    pub(crate) shm: PathBuf,
}

/// Where the standard streams of a new process go. What is absent is `/dev/null`.
#[derive(Default)]
pub(crate) struct Stdio {
    pub(crate) streams: [Option<OwnedFd>; 3],
    /// With a terminal: where its controlling end is sent.
    pub(crate) terminal: Option<OwnedFd>,
    /// The terminal is also the container's console.
    pub(crate) console: bool,
}

/// All that a container's first process needs to know.
pub(crate) struct Launch<'a> {
    pub(crate) sandbox: &'a SandboxRecord,
    pub(crate) sandbox_dir: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) record: &'a ContainerRecord,
    pub(crate) namespaces: &'a Namespaces,
    pub(crate) group: &'a Group,
}

/// Becomes the container's first process. Returns only when that failed.
pub(crate) fn launch(plan: &Launch<'_>, stdio: Stdio) -> Failure {
    match try_launch(plan, stdio) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn try_launch(plan: &Launch<'_>, stdio: Stdio) -> Outcome<std::convert::Infallible> {
    let spec = &plan.record.spec;
    rustix::process::setsid().doing("setsid")?;
    plan.group.join(0).doing("join the control group")?;
    set_oom_score(spec)?;
    let mut trees = mounts::open_sources(plan)?;
    let shm = rootfs::open_shm(plan)?;
    join_namespaces(plan)?;
    sys::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP).doing("unshare")?;
    let root = rootfs::mount_root(plan)?;
    trees.extend(mounts::open_images(plan)?);
    rootfs::fill(plan, root.as_fd(), shm)?;
    mounts::attach(spec, root.as_fd(), trees)?;
    // Resolved while the root is still writable: the directory may have to be made.
    rootfs::make_working_dir(root.as_fd(), &spec.working_dir)?;
    rootfs::enter(root.as_fd())?;
    rootfs::protect(spec)?;
    finish(spec, &spec.command, stdio)
}

/// A command to run in a running container.
pub(crate) struct Command<'a> {
    pub(crate) spec: &'a ContainerSpec,
    pub(crate) command: &'a [String],
    /// The container's first process.
    pub(crate) target: BorrowedFd<'a>,
    pub(crate) group: &'a Group,
    /// The sub-group by which the command is killed with all its descendants.
    pub(crate) group_name: &'a str,
}

/// Becomes the command. Returns only when that failed.
pub(crate) fn exec(plan: &Command<'_>, stdio: Stdio) -> Failure {
    let (spec, command, target) = (plan.spec, plan.command, plan.target);
    let run = || {
        rustix::process::setsid().doing("setsid")?;
        plan.group.join_for_killing(plan.group_name).doing("join the control group")?;
        set_oom_score(spec)?;
        let flags = libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
        sys::setns(target, flags | libc::CLONE_NEWNS).doing("setns")?;
        finish(spec, command, stdio)
    };
    match run() {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn set_oom_score(spec: &ContainerSpec) -> Outcome<()> {
    let score = spec.oom_score_adj.unwrap_or(0).clamp(-1000, 1000);
    match fs::write("/proc/self/oom_score_adj", score.to_string()) {
        // Lowering needs CAP_SYS_RESOURCE; a host that withholds it can still run pods.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.doing("write oom_score_adj"),
    }
}

fn join_namespaces(plan: &Launch<'_>) -> Outcome<()> {
    let held = [
        (&plan.namespaces.net, libc::CLONE_NEWNET),
        (&plan.namespaces.ipc, libc::CLONE_NEWIPC),
        (&plan.namespaces.uts, libc::CLONE_NEWUTS),
    ];
    for (fd, kind) in held {
        if let Some(fd) = fd {
            sys::setns(fd.as_fd(), kind).doing("setns")?;
        }
    }
    debug_assert!(plan.sandbox.spec.network == NetworkMode::Node || plan.namespaces.net.is_some());
    debug_assert!(plan.sandbox.spec.ipc == IpcMode::Node || plan.namespaces.ipc.is_some());
    Ok(())
}

/// The last steps, common to a container and an exec, within the container's root.
fn finish(spec: &ContainerSpec, command: &[String], stdio: Stdio) -> Outcome<std::convert::Infallible> {
    let user = user::resolve(&spec.user)?;
    terminal::connect(stdio, &user)?;
    set_rlimits(spec)?;
    let env = environment(spec, &user);
    let capabilities = capability::mask(&spec.security)?;
    // A filter needs privilege to install unless no_new_privs is set; it allows what follows.
    let filter = (spec.security.seccomp == SeccompProfile::RuntimeDefault && !spec.security.privileged)
        .then(|| seccomp::default_profile(capabilities));
    if spec.security.no_new_privileges {
        rustix::thread::set_no_new_privs(true).doing("set no_new_privs")?;
    } else {
        install(filter.as_deref())?;
    }
    sys::bound_capabilities(capabilities).doing("drop the capability bounding set")?;
    sys::set_ids(user.uid, user.gid, &user.groups).doing("setuid")?;
    enter_working_dir(&spec.working_dir)?;
    sys::set_capabilities(if user.uid == 0 { capabilities } else { 0 }).doing("apply capabilities")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let program = lookup::find(command.first().map_or("", String::as_str), &env)?;
    if spec.security.no_new_privileges {
        install(filter.as_deref())?;
    }
    run(&program, command, &env)
}

fn install(filter: Option<&[libc::sock_filter]>) -> Outcome<()> {
    filter.map_or(Ok(()), |filter| sys::install_seccomp(filter).doing("install the seccomp filter"))
}

fn set_rlimits(spec: &ContainerSpec) -> Outcome<()> {
    for limit in &spec.rlimits {
        let resource =
            rlimit_number(&limit.name).ok_or_else(|| Failure::new(format!("unknown rlimit type {:?}", limit.name)))?;
        sys::set_rlimit(resource, limit.soft, limit.hard).doing(&format!("setting {}", limit.name))?;
    }
    Ok(())
}

fn rlimit_number(name: &str) -> Option<u32> {
    const NAMES: [&str; 16] = [
        "CPU",
        "FSIZE",
        "DATA",
        "STACK",
        "CORE",
        "RSS",
        "NPROC",
        "NOFILE",
        "MEMLOCK",
        "AS",
        "LOCKS",
        "SIGPENDING",
        "MSGQUEUE",
        "NICE",
        "RTPRIO",
        "RTTIME",
    ];
    let bare = name.strip_prefix("RLIMIT_").unwrap_or(name);
    NAMES.iter().position(|known| *known == bare).and_then(|at| u32::try_from(at).ok())
}

/// The variables given; then PATH, HOME and (with a terminal) TERM where they are missing.
fn environment(spec: &ContainerSpec, user: &user::Identity) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = Vec::with_capacity(spec.env.len() + 3);
    for (name, value) in &spec.env {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    let mut default = |name: &str, value: &str| {
        if !env.iter().any(|(known, _)| known == name) {
            env.push((name.to_owned(), value.to_owned()));
        }
    };
    default("PATH", lookup::PATH_DEFAULT);
    default("HOME", &user.home);
    if spec.tty {
        default("TERM", "xterm");
    }
    env
}

fn enter_working_dir(dir: &str) -> Outcome<()> {
    let dir = if dir.is_empty() { "/" } else { dir };
    rustix::process::chdir(dir).doing(&format!("chdir to cwd ({dir:?}) set in config.json failed"))
}

fn text(value: &str) -> Outcome<CString> {
    CString::new(value).map_err(|_| Failure::new("a command line or variable contains a NUL byte"))
}

fn run(program: &str, command: &[String], env: &[(String, String)]) -> Outcome<std::convert::Infallible> {
    let path = text(program)?;
    let argv: Vec<CString> = command.iter().map(|word| text(word)).collect::<Outcome<_>>()?;
    let env: Vec<CString> = env.iter().map(|(name, value)| text(&format!("{name}={value}"))).collect::<Outcome<_>>()?;
    sys::reset_signals();
    sys::close_on_exec_from(3).doing("close_range")?;
    let error = sys::exec(&path, &argv, &env);
    let exit_code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err(Failure { message: format!("exec {program}: {}", reason(&error)), exit_code })
}

/// What the container may do with devices.
pub(crate) fn device_rules(spec: &ContainerSpec) -> Vec<DeviceRule> {
    if spec.security.privileged {
        return vec![DeviceRule::ALL];
    }
    let mut rules = DeviceRule::defaults();
    rules.extend(spec.devices.iter().filter_map(rootfs::device_rule));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rlimits_have_the_kernels_numbers() {
        for (name, expected) in [
            ("RLIMIT_NOFILE", Some(7)),
            ("NOFILE", Some(7)),
            ("RLIMIT_CORE", Some(4)),
            ("RLIMIT_RTTIME", Some(15)),
            ("RLIMIT_NONSENSE", None),
        ] {
            assert_eq!(rlimit_number(name), expected, "{name}");
        }
    }

    #[test]
    fn reasons_read_like_go() {
        assert_eq!(reason(&io::Error::from_raw_os_error(libc::ENOENT)), "no such file or directory");
        assert_eq!(reason(&io::Error::from_raw_os_error(libc::ENOEXEC)), "exec format error");
    }
}
