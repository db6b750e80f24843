//! The few system calls that need `unsafe`: making processes, namespaces, mount attributes, signals.
//!
//! Everything above is safe code. Functions here do one call each and turn its result into [`io::Result`].
#![allow(unsafe_code, reason = "raw system calls; each block states why it is sound")]

pub(crate) mod packet;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Watches a descriptor (a pipe, a queue of the kernel) from async code.
pub fn register(fd: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays the same one until it is dropped.
    unsafe { tokio::io::unix::AsyncFd::register(fd).map_err(io::Error::from) }
}

/// The same for what the kernel tells as urgent: a trigger of pressure.
pub fn register_urgent(fd: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    let interest = tokio::io::Interest::PRIORITY;
    // SAFETY: an owned descriptor stays the same one until it is dropped.
    unsafe { tokio::io::unix::AsyncFd::register_with_interest(fd, interest).map_err(io::Error::from) }
}

/// Turns a C result into one of Rust.
fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a child process that runs `child` and exits with its result. Only for processes with a single thread: the
/// child runs ordinary Rust code. Returns the child's process id.
pub(crate) fn spawn(clone_flags: i32, child: impl FnOnce() -> i32) -> io::Result<i32> {
    let mut args: libc::clone_args =
        // SAFETY: the structure is plain integers, for which zero is valid.
        unsafe { std::mem::zeroed() };
    args.flags = u64::from(clone_flags.cast_unsigned());
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: without CLONE_VM the child has its own copy of the memory, as after fork.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) })?;
    if pid != 0 {
        return Ok(i32::try_from(pid).unwrap_or(i32::MAX));
    }
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(1);
    // SAFETY: ends the child without running what the parent registered.
    unsafe { libc::_exit(code) }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signaled(i32),
}

/// Collects one child that has ended; `None` when none has.
pub(crate) fn reap() -> Option<(i32, Ended)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let ended = if libc::WIFSIGNALED(status) {
        Ended::Signaled(libc::WTERMSIG(status))
    } else {
        Ended::Exited(libc::WEXITSTATUS(status))
    };
    Some((pid, ended))
}

/// Sends a signal; to a whole process group when `pid` is negative. A process that is gone is no error.
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes integers only.
    match checked(i64::from(unsafe { libc::kill(pid, signal) })) {
        Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Err(e),
        _ => Ok(()),
    }
}

/// Blocks SIGCHLD and returns a descriptor that becomes readable when one arrives.
pub(crate) fn child_signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use and outlives the calls; the descriptor is new and ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        checked(i64::from(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut())))?;
        let fd = checked(i64::from(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)))?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).unwrap_or(-1)))
    }
}

/// Gives all signals their default actions and unblocks them: what a program expects to start with.
pub(crate) fn reset_signals() {
    // SAFETY: plain integers, and a set that is initialised before use.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Leaves the current namespaces of the kinds given for new ones.
pub(crate) fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: takes integers only; callers have one thread.
    checked(i64::from(unsafe { libc::unshare(flags) })).map(drop)
}

/// Joins a namespace, or all those of a process (by its pidfd) that `flags` names.
pub(crate) fn setns(fd: BorrowedFd<'_>, flags: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call.
    checked(i64::from(unsafe { libc::setns(fd.as_raw_fd(), flags) })).map(drop)
}

/// Sets and clears attributes (`MOUNT_ATTR_*`) and the propagation of the mount that `fd` is.
pub(crate) fn mount_setattr(fd: BorrowedFd<'_>, recursive: bool, set: u64, clear: u64, prop: u64) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: prop, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a literal, `attr` outlives the call and its size is passed.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, fd.as_raw_fd(), c"".as_ptr(), flags, &raw const attr, size_of_val(&attr))
    };
    checked(result).map(drop)
}

/// Replaces the program. Returns only on failure.
pub(crate) fn exec(path: &CString, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|text| text.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end with a null pointer, and what they point to outlives the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Installs a system call filter for this process and its descendants.
pub(crate) fn install_seccomp(program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel only reads the program, which outlives the call.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) }).map(drop)
}

/// Makes the terminal `fd` the controlling one of this session.
pub(crate) fn set_controlling_terminal(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call; the request takes an integer.
    checked(i64::from(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSCTTY, 0) })).map(drop)
}

/// Makes `to` a copy of `from` that survives exec.
pub(crate) fn dup_onto(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    if from.as_raw_fd() == to {
        // SAFETY: the descriptor is open for the call.
        return checked(i64::from(unsafe { libc::fcntl(to, libc::F_SETFD, 0) })).map(drop);
    }
    // SAFETY: closing whatever `to` was is the point: callers use 0, 1 and 2 only.
    checked(i64::from(unsafe { libc::dup2(from.as_raw_fd(), to) })).map(drop)
}

/// Gives a descriptor a second, known number, closed by exec.
pub(crate) fn publish_fd(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    // SAFETY: the callers choose a number that nothing else has.
    checked(i64::from(unsafe { libc::dup3(from.as_raw_fd(), to, libc::O_CLOEXEC) })).map(drop)
}

/// Marks every descriptor from `first` on as to be closed by exec.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: takes integers only.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) }).map(drop)
}

/// Closes every descriptor: for children that hold nothing.
pub(crate) fn close_all() {
    // SAFETY: the caller uses no descriptor afterwards.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

/// Sets a resource limit by the kernel's number.
pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` outlives the call.
    checked(i64::from(unsafe { libc::setrlimit(resource, &raw const limit) })).map(drop)
}

/// Sets the supplementary groups, the group and the user of this process, in that order, keeping permitted
/// capabilities.
pub(crate) fn set_ids(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // SAFETY: integers, and a slice with its length.
    unsafe {
        checked(i64::from(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0)))?;
        checked(i64::from(libc::setgroups(groups.len(), groups.as_ptr())))?;
        checked(i64::from(libc::setresgid(gid, gid, gid)))?;
        checked(i64::from(libc::setresuid(uid, uid, uid)))?;
        checked(i64::from(libc::prctl(libc::PR_SET_KEEPCAPS, 0, 0, 0, 0))).map(drop)
    }
}

/// Removes the capabilities not in `keep` (bit n is capability n) from the bounding set; must come before `set_ids`.
pub(crate) fn bound_capabilities(keep: u64) -> io::Result<()> {
    for capability in (0..64u64).filter(|bit| keep & (1 << bit) == 0) {
        // SAFETY: takes integers only.
        match checked(i64::from(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })) {
            // The kernel knows fewer capabilities than there are bits.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break,
            other => other.map(drop)?,
        }
    }
    Ok(())
}

/// Sets permitted and effective capabilities to `mask`; inheritable and ambient to none.
pub(crate) fn set_capabilities(mask: u64) -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`.
    const VERSION: u32 = 0x2008_0522;
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of the mask")]
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let header: [u32; 2] = [VERSION, 0];
    let data: [u32; 6] = [low, low, 0, high, high, 0];
    // SAFETY: the arrays have the layout of the header and of two data records, and outlive the call.
    checked(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })?;
    // SAFETY: takes integers only.
    checked(i64::from(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) })).map(drop)
}

/// Sets the host name and domain name of the current UTS namespace.
pub(crate) fn set_names(host: &str, domain: &str) -> io::Result<()> {
    // SAFETY: the texts outlive the calls and are passed with their lengths.
    unsafe {
        checked(i64::from(libc::sethostname(host.as_ptr().cast(), host.len())))?;
        checked(i64::from(libc::setdomainname(domain.as_ptr().cast(), domain.len()))).map(drop)
    }
}

/// Loads and attaches an eBPF program that decides which devices a cgroup (v2) may use.
pub(crate) fn attach_device_program(cgroup: BorrowedFd<'_>, instructions: &[u64]) -> io::Result<()> {
    const LICENSE: &std::ffi::CStr = c"Apache-2.0";
    const BPF_PROG_LOAD: i32 = 5;
    const BPF_PROG_ATTACH: i32 = 8;
    const TYPE_CGROUP_DEVICE: u64 = 15;
    const ATTACH_CGROUP_DEVICE: u32 = 6;
    let count = u64::try_from(instructions.len()).unwrap_or(0);
    // prog_type and insn_cnt share the first word; then the addresses of the program and its licence.
    let load: [u64; 8] =
        [TYPE_CGROUP_DEVICE | (count << 32), instructions.as_ptr() as u64, LICENSE.as_ptr() as u64, 0, 0, 0, 0, 0];
    // SAFETY: the attribute block has the layout of the call, and what it points to outlives the call.
    let fd = checked(unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, load.as_ptr(), size_of_val(&load)) })?;
    // SAFETY: the descriptor is new and ours.
    let program = unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).unwrap_or(-1)) };
    let attach: [u32; 4] =
        [cgroup.as_raw_fd().cast_unsigned(), program.as_raw_fd().cast_unsigned(), ATTACH_CGROUP_DEVICE, 0];
    // SAFETY: as above.
    let done = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, attach.as_ptr(), size_of_val(&attach)) };
    checked(done).map(drop)
}

/// Ends this process at once: for a shim that can no longer be trusted.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Waits for any signal; returns after one was handled or a child ended.
pub(crate) fn wait_child_forever() {
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(-1, &raw mut status, 0) } < 0 {
            // No children now: sleep until SIGCHLD.
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    }
}

extern "C" fn ignore(_: libc::c_int) {}

/// Installs handlers so that `pause` returns when a child ends, and so that a first process of a PID namespace ends
/// on no signal but the one that cannot be caught.
pub(crate) fn handle_children() {
    // SAFETY: the handler does nothing, which is safe at any moment.
    unsafe { libc::signal(libc::SIGCHLD, ignore as extern "C" fn(libc::c_int) as libc::sighandler_t) };
}
