//! The default filter of system calls: those that reach beyond a container fail with EPERM, unless a capability that
//! the container has allows them.

use libc::{c_long, sock_filter};

use super::capability::bit;

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
const KILL: u32 = 0x8000_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

#[cfg(target_arch = "x86_64")]
const OWN_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCHITECTURE: u32 = 0xc000_00b7;
/// System calls of the x32 interface have this bit, and so would pass the comparisons below.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Never allowed.
const DENIED: &[c_long] = &[
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_userfaultfd,
    libc::SYS_nfsservctl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_move_pages,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Allowed with a capability.
const WITH_CAPABILITY: &[(&str, &[c_long])] = &[
    (
        "SYS_ADMIN",
        &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_quotactl,
            libc::SYS_lookup_dcookie,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
            libc::SYS_fanotify_init,
        ],
    ),
    ("SYS_MODULE", &[libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module]),
    ("SYS_BOOT", &[libc::SYS_reboot]),
    ("SYS_PACCT", &[libc::SYS_acct]),
    ("SYS_TIME", &[libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_clock_adjtime, libc::SYS_adjtimex]),
    ("DAC_READ_SEARCH", &[libc::SYS_open_by_handle_at]),
    ("SYS_PTRACE", &[libc::SYS_kcmp, libc::SYS_process_madvise, libc::SYS_pidfd_getfd]),
    ("SYS_NICE", &[libc::SYS_mbind, libc::SYS_set_mempolicy, libc::SYS_migrate_pages]),
    ("SYSLOG", &[libc::SYS_syslog]),
    ("BPF", &[libc::SYS_bpf]),
    ("PERFMON", &[libc::SYS_perf_event_open]),
    ("SYS_TTY_CONFIG", &[libc::SYS_vhangup]),
];

#[cfg(target_arch = "x86_64")]
const RAW_IO: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const RAW_IO: &[c_long] = &[];

/// New namespaces by clone: user, mount, UTS, IPC, PID, network, cgroup.
const NAMESPACE_FLAGS: u32 = 0x7e02_0000;

fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// "If the number is `call`, fail with `errno`."
fn refuse(call: c_long, errno: i32) -> [sock_filter; 2] {
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    [step(JUMP_EQUAL, number, 0, 1), step(RETURN, ERRNO | errno.cast_unsigned(), 0, 0)]
}

/// The filter for a process with the capabilities of `mask`.
pub(super) fn default_profile(mask: u64) -> Vec<sock_filter> {
    let has = |name: &str| bit(name).is_some_and(|bit| mask & bit != 0);
    let mut code = vec![
        step(LOAD, ARCHITECTURE, 0, 0),
        step(JUMP_EQUAL, OWN_ARCHITECTURE, 1, 0),
        step(RETURN, KILL, 0, 0),
        step(LOAD, NUMBER, 0, 0),
    ];
    #[cfg(target_arch = "x86_64")]
    code.extend([step(JUMP_AT_LEAST, X32, 0, 1), step(RETURN, ERRNO | libc::ENOSYS.cast_unsigned(), 0, 0)]);
    let lacking = WITH_CAPABILITY.iter().filter(|(name, _)| !has(name)).flat_map(|(_, calls)| calls.iter());
    let raw = RAW_IO.iter().filter(|_| !has("SYS_RAWIO"));
    for call in DENIED.iter().chain(lacking).chain(raw) {
        code.extend(refuse(*call, libc::EPERM));
    }
    if !has("SYS_ADMIN") {
        // Arguments of clone3 lie in memory, where a filter cannot look: without it, libraries fall back to clone.
        code.extend(refuse(libc::SYS_clone3, libc::ENOSYS));
        code.extend([
            step(JUMP_EQUAL, u32::try_from(libc::SYS_clone).unwrap_or(u32::MAX), 0, 3),
            step(LOAD, FIRST_ARGUMENT, 0, 0),
            step(JUMP_SET, NAMESPACE_FLAGS, 0, 1),
            step(RETURN, ERRNO | libc::EPERM.cast_unsigned(), 0, 0),
        ]);
    }
    code.push(step(RETURN, ALLOW, 0, 0));
    code
}
