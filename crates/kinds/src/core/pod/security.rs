//! Security contexts of pods and containers, on Linux and on Windows.

use std::collections::BTreeSet;

use meta::{ObjectExt, name};
use serde_json::Value;

use super::Context;
use super::path::descending;
use super::windows;
use crate::check::{At, Faults, in_range, optional_one_of};

const ID_MAX: i64 = i32::MAX as i64;
const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path that Linux takes, without the closing zero.
const PROFILE_PATH_MAX: usize = 4095;
const SYSCTL_MAX: usize = 253;
/// Kernel parameters that belong to the namespace of System V IPC.
const IPC_SYSCTLS: &[&str] = &[
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];
const SYSCTL_RE: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Checks the security context of a container.
pub(crate) fn container(at: &At, context: &Context, faults: &mut Faults) {
    if !at.is_set() {
        return;
    }
    in_range(&at.field("runAsUser"), 0, ID_MAX, faults);
    in_range(&at.field("runAsGroup"), 0, ID_MAX, faults);
    let mount = at.field("procMount");
    optional_one_of(&mount, &["Default", "Unmasked"], faults);
    if context.host_users() && mount.text() == "Unmasked" {
        faults.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp(&at.field("seccompProfile"), faults);
    escalation(at, faults);
    windows::options(&at.field("windowsOptions"), faults);
    app_armor(&at.field("appArmorProfile"), faults);
}

fn escalation(at: &At, faults: &mut Faults) {
    if at.field("allowPrivilegeEscalation").value != &Value::Bool(false) {
        return;
    }
    if at.field("privileged").is_true() {
        faults.push(at.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    }
    let added = at.value.items(&["capabilities", "add"]).iter().filter(|cap| *cap == "CAP_SYS_ADMIN");
    let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
    faults.extend(added.map(|_| at.invalid(detail)));
}

/// Checks the security context of a pod.
pub(crate) fn pod(spec: &At, faults: &mut Faults) {
    let at = spec.field("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        in_range(&at.field(id), 0, ID_MAX, faults);
    }
    at.field("supplementalGroups").each().for_each(|group| in_range(&group, 0, ID_MAX, faults));
    sysctls(&at.field("sysctls"), spec.value, faults);
    optional_one_of(&at.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"], faults);
    seccomp(&at.field("seccompProfile"), faults);
    windows::options(&at.field("windowsOptions"), faults);
    app_armor(&at.field("appArmorProfile"), faults);
    optional_one_of(&at.field("supplementalGroupsPolicy"), &["Merge", "Strict"], faults);
    optional_one_of(&at.field("seLinuxChangePolicy"), &["MountOption", "Recursive"], faults);
}

fn seccomp(at: &At, faults: &mut Faults) {
    if !at.is_set() {
        return;
    }
    let (kind, path) = (at.field("type"), at.field("localhostProfile"));
    if kind.text().is_empty() {
        faults.push(kind.required("type is required when seccompProfile is set"));
    } else if !PROFILE_TYPES.contains(&kind.text()) {
        faults.push(kind.unsupported(PROFILE_TYPES));
    }
    match (kind.text() == "Localhost", path.is_set()) {
        (true, false) => faults.push(path.required("must be set when seccomp type is Localhost")),
        (true, true) => descending(&path, faults),
        (false, true) => {
            faults.push(path.invalid_as(at.value.clone(), "can only be set when seccomp type is Localhost"))
        }
        (false, false) => {}
    }
}

/// Checks an AppArmor profile, if there is one.
pub(crate) fn app_armor(at: &At, faults: &mut Faults) {
    if !at.is_set() {
        return;
    }
    let (kind, path) = (at.field("type"), at.field("localhostProfile"));
    match kind.text() {
        "Localhost" => app_armor_path(&path, faults),
        "RuntimeDefault" | "Unconfined" if path.is_set() => {
            faults.push(path.invalid("can only be set when AppArmor type is Localhost"));
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => faults.push(kind.required("type is required when appArmorProfile is set")),
        _ => faults.push(kind.unsupported(PROFILE_TYPES)),
    }
}

fn app_armor_path(path: &At, faults: &mut Faults) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let text = path.text();
    if !path.is_set() {
        return faults.push(path.required(MISSING));
    }
    if text.trim() != text {
        faults.push(path.invalid("must not be padded with whitespace"));
    } else if text.is_empty() {
        faults.push(path.required(MISSING));
    }
    if text.len() > PROFILE_PATH_MAX {
        faults.push(meta::FieldError::too_long(path.path, PROFILE_PATH_MAX));
    }
}

fn sysctls(list: &At, spec: &Value, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    for sysctl in list.each() {
        let name = sysctl.field("name");
        if name.text().is_empty() {
            faults.push(name.required(""));
        } else if !is_sysctl(name.text()) {
            let detail = format!("must have at most {SYSCTL_MAX} characters and match regex {SYSCTL_RE}");
            faults.push(name.invalid(detail));
        } else if names.contains(name.text()) {
            faults.push(name.duplicate());
        }
        host_sysctl(&name, spec, faults);
        names.insert(name.text());
    }
}

/// Segments of lower-case letters, digits, hyphens and underscores, between dots or slashes.
fn is_sysctl(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().copied().is_some_and(word)
            && bytes.last().copied().is_some_and(word)
            && bytes.iter().all(|b| word(*b) || matches!(b, b'-' | b'_'))
    };
    text.len() <= SYSCTL_MAX && text.split(['.', '/']).all(segment)
}

/// A pod that shares a namespace with its node cannot tune it.
fn host_sysctl(at: &At, spec: &Value, faults: &mut Faults) {
    // Whichever of the two separators comes first is the separator.
    let dotted = match at.text().find(['.', '/']) {
        Some(first) if at.text().as_bytes().get(first) == Some(&b'/') => at.text().replace('/', "."),
        _ => at.text().to_owned(),
    };
    let ipc = IPC_SYSCTLS.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
    if spec.flag(&["hostNetwork"]) && dotted.starts_with("net.") {
        faults.push(at.invalid("may not be specified when 'hostNetwork' is true"));
    } else if spec.flag(&["hostIPC"]) && ipc {
        faults.push(at.invalid("may not be specified when 'hostIPC' is true"));
    }
}

/// Checks what a pod may share with its node when it has users of its own.
pub(crate) fn host_users(spec: &At, faults: &mut Faults) {
    if spec.field("hostUsers").value != &Value::Bool(false) {
        return;
    }
    const DETAIL: &str = "when `hostUsers` is false";
    // Upstream writes two of these with a capital.
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).is_true() {
            faults.push(spec.field(shown).forbidden(DETAIL));
        }
    }
    super::each_container(spec, |container| {
        if !container.field("volumeDevices").items().is_empty() {
            faults.push(container.field("volumeDevices").forbidden(DETAIL));
        }
    });
}

/// Checks the name that a pod is to have instead of its own.
pub(crate) fn host_name(spec: &At, faults: &mut Faults) {
    const HOST_NAME_MAX: usize = 64;
    let at = spec.field("hostnameOverride");
    if !at.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").is_true() {
        faults.push(at.forbidden("may not be specified when setHostnameAsFQDN is true"));
    }
    if spec.field("hostNetwork").is_true() {
        faults.push(at.forbidden("may not be specified when hostNetwork is true"));
    }
    if at.text().len() > HOST_NAME_MAX {
        faults.push(meta::FieldError::too_long(at.path, HOST_NAME_MAX));
    }
    crate::check::named(&at, name::dns1123_subdomain, faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pod_contexts_read_like_upstream() {
        let check = |spec: Value, expected: &[&str]| {
            let mut faults = Faults::new();
            pod(&At::root(&spec), &mut faults);
            host_users(&At::root(&spec), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"securityContext": {"runAsUser": 1000, "sysctls": [{"name": "net.ipv4.tcp_syncookies"}]}}), &[]);
        check(
            json!({"securityContext": {"runAsUser": -1, "supplementalGroups": [2147483648i64]}}),
            &[
                "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "securityContext.supplementalGroups[0]: Invalid value: 2147483648: must be between 0 and 2147483647, \
                 inclusive",
            ],
        );
        check(
            json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net/ipv4.x"}, {"name": "A"}]}}),
            &[
                "securityContext.sysctls[0].name: Invalid value: \"net/ipv4.x\": may not be specified when \
                 'hostNetwork' is true",
                "securityContext.sysctls[1].name: Invalid value: \"A\": must have at most 253 characters and match \
                 regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ],
        );
        check(
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": ""}}}),
            &[
                "securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is \
                 Localhost",
                "securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set",
            ],
        );
        check(
            json!({"hostUsers": false, "hostPID": true, "containers": [{"volumeDevices": [{}]}]}),
            &[
                "HostPID: Forbidden: when `hostUsers` is false",
                "containers[0].volumeDevices: Forbidden: when `hostUsers` is false",
            ],
        );
    }
}
