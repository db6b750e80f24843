//! Capabilities by name and as a set.

use super::{Failure, Outcome};
use contract::Security;

/// By the kernel's number.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What containers have unless told otherwise: the set of Docker and containerd.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// The bit of a capability.
pub(super) fn bit(name: &str) -> Option<u64> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
    NAMES.iter().position(|known| *known == bare).map(|number| 1 << number)
}

/// Those this process has at all: a container cannot be given more.
fn own() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or((1 << NAMES.len()) - 1)
}

/// The capabilities of a container.
pub(super) fn mask(security: &Security) -> Outcome<u64> {
    if security.privileged {
        return Ok(own());
    }
    let default = DEFAULT.iter().filter_map(|name| bit(name)).fold(0, |mask, bit| mask | bit);
    Ok(adjust(default, security)? & own())
}

/// `ALL` first, then single names; what is both added and dropped by name is dropped.
fn adjust(mut mask: u64, security: &Security) -> Outcome<u64> {
    let all = (1 << NAMES.len()) - 1;
    let has_all = |list: &[String]| list.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    if has_all(&security.add_capabilities) {
        mask = all;
    }
    if has_all(&security.drop_capabilities) {
        mask = 0;
    }
    let named = |list: &[String]| {
        let single = list.iter().filter(|name| !name.eq_ignore_ascii_case("ALL"));
        single
            .map(|name| bit(name).ok_or_else(|| Failure::new(format!("unknown capability {name:?}"))))
            .try_fold(0, |mask, bit| bit.map(|bit| mask | bit))
    };
    Ok((mask | named(&security.add_capabilities)?) & !named(&security.drop_capabilities)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_and_dropping() {
        let kill = bit("KILL").unwrap_or(0);
        let admin = bit("cap_net_admin").unwrap_or(0);
        let all = (1u64 << 41) - 1;
        for (add, drop, expected) in [
            (vec![], vec![], kill),
            (vec!["NET_ADMIN"], vec![], kill | admin),
            (vec![], vec!["ALL"], 0),
            (vec!["CAP_NET_ADMIN"], vec!["all"], admin),
            (vec!["ALL"], vec!["NET_ADMIN"], all & !admin),
            (vec!["NET_ADMIN"], vec!["NET_ADMIN", "KILL"], 0),
        ] {
            let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let security =
                Security { add_capabilities: owned(&add), drop_capabilities: owned(&drop), ..Security::default() };
            assert_eq!(adjust(kill, &security), Ok(expected), "{add:?} {drop:?}");
        }
    }
}
