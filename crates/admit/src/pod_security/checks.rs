//! The checks, one table: baseline first, each by its identifier.

use std::collections::BTreeSet;

use meta::ObjectExt;
use serde_json::Value;

use super::Refusal;
use super::policy::Level;
use crate::pod_refs;

/// One check.
pub(super) struct Check {
    /// Upstream's identifier.
    pub(super) id: &'static str,
    /// The level it belongs to.
    pub(super) level: Level,
    /// The first release that has it.
    pub(super) since: u32,
    /// The baseline check that it replaces.
    pub(super) overrides: Option<&'static str>,
    /// Looks at a pod under a release (minor version).
    pub(super) run: fn(&Value, u32) -> Option<Refusal>,
}

const fn baseline(id: &'static str, since: u32, run: fn(&Value, u32) -> Option<Refusal>) -> Check {
    Check { id, level: Level::Baseline, since, overrides: None, run }
}

const fn restricted(
    id: &'static str,
    since: u32,
    overrides: Option<&'static str>,
    run: fn(&Value, u32) -> Option<Refusal>,
) -> Check {
    Check { id, level: Level::Restricted, since, overrides, run }
}

pub(super) const CHECKS: &[Check] = &[
    baseline("appArmorProfile", 0, app_armor),
    baseline("capabilities_baseline", 0, capabilities),
    baseline("hostNamespaces", 0, host_namespaces),
    baseline("hostPathVolumes", 0, host_paths),
    baseline("hostPorts", 0, host_ports),
    baseline("hostProbesAndHostLifecycle", 34, probe_hosts),
    baseline("privileged", 0, privileged),
    baseline("procMount", 0, proc_mount_baseline),
    baseline("seLinuxOptions", 0, se_linux),
    baseline("seccompProfile_baseline", 0, seccomp),
    baseline("sysctls", 0, sysctls),
    baseline("windowsHostProcess", 0, host_process),
    restricted("allowPrivilegeEscalation", 8, None, privilege_escalation),
    restricted("capabilities_restricted", 22, Some("capabilities_baseline"), capabilities_restricted),
    restricted("procMount_restricted", 35, Some("procMount"), |pod, _| proc_mount(pod)),
    restricted("restrictedVolumes", 0, Some("hostPathVolumes"), volumes),
    restricted("runAsNonRoot", 0, None, run_as_non_root),
    restricted("runAsUser", 23, None, run_as_user),
    restricted("seccompProfile_restricted", 19, Some("seccompProfile_baseline"), seccomp_restricted),
];

fn refuse(reason: &str, detail: String) -> Option<Refusal> {
    Some(Refusal { reason: reason.to_owned(), detail })
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.get("spec").into_iter().flat_map(pod_refs::containers).map(|(_, _, container)| container)
}

/// The security context of a container, or of the whole pod.
fn context<'v>(holder: &'v Value, path: &[&str]) -> Option<&'v Value> {
    holder.get("securityContext")?.at(path).filter(|value| !value.is_null())
}

fn pod_context<'v>(pod: &'v Value, path: &[&str]) -> Option<&'v Value> {
    context(pod.get("spec")?, path)
}

fn names(pod: &Value, is_bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(pod).filter(|container| is_bad(container)).map(|container| container.text(&["name"])).collect()
}

fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect::<Vec<_>>().join(", ")
}

fn plural<'t>(one: &'t str, many: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
fn listed(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// `pod and container "a"`; `None` when nobody sets it.
fn setters(pod_sets: bool, names: &[&str]) -> Option<String> {
    let containers = (!names.is_empty()).then(|| listed(names));
    let parts: Vec<String> = pod_sets.then(|| "pod".to_owned()).into_iter().chain(containers).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn text_set<'v>(values: impl IntoIterator<Item = &'v Value>) -> BTreeSet<&'v str> {
    values.into_iter().filter_map(Value::as_str).collect()
}

fn is_windows(pod: &Value) -> bool {
    pod.text(&["spec", "os", "name"]) == "windows"
}

/// Root inside its own user namespace is nobody outside.
fn has_user_namespace(pod: &Value) -> bool {
    pod.at(&["spec", "hostUsers"]) == Some(&Value::Bool(false))
}

fn app_armor(pod: &Value, _: u32) -> Option<Refusal> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let is_bad = |profile: &Value| !matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost"));
    let path = ["appArmorProfile", "type"];
    let of_pod = pod_context(pod, &path).filter(|profile| is_bad(profile));
    let bad: Vec<&str> = names(pod, |container| context(container, &path).is_some_and(is_bad));
    let of_containers = containers(pod).filter_map(|c| context(c, &path)).filter(|profile| is_bad(profile));
    let mut values: Vec<String> =
        text_set(of_pod.into_iter().chain(of_containers)).into_iter().map(str::to_owned).collect();
    let annotations = pod.map(&["metadata", "annotations"]).into_iter().flatten();
    let mut annotated: Vec<String> = annotations
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| {
            let fine = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(PREFIX) && !fine
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut who: Vec<String> = setters(of_pod.is_some(), &bad).into_iter().collect();
    if !annotated.is_empty() {
        annotated.sort();
        who.push(plural("annotation", "annotations", annotated.len()).to_owned());
        values.extend(annotated);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    refuse(reason, format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(values)))
}

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn added(container: &Value) -> impl Iterator<Item = &str> {
    container.items(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str)
}

fn capabilities(pod: &Value, _: u32) -> Option<Refusal> {
    let bad = names(pod, |container| added(container).any(|capability| !CAPABILITIES.contains(&capability)));
    if bad.is_empty() {
        return None;
    }
    let forbidden: BTreeSet<&str> = containers(pod).flat_map(added).filter(|c| !CAPABILITIES.contains(c)).collect();
    let who = listed(&bad);
    refuse(
        "non-default capabilities",
        format!("{who} must not include {} in securityContext.capabilities.add", quoted(forbidden)),
    )
}

fn capabilities_restricted(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    let drops_all = |container: &Value| {
        container.items(&["securityContext", "capabilities", "drop"]).iter().any(|capability| capability == "ALL")
    };
    let is_forbidden = |capability: &&str| *capability != "NET_BIND_SERVICE";
    let keeping = names(pod, |container| !drops_all(container));
    let adding = names(pod, |container| added(container).any(|capability| is_forbidden(&capability)));
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", listed(&keeping)));
    }
    if !adding.is_empty() {
        let forbidden: BTreeSet<&str> = containers(pod).flat_map(added).filter(is_forbidden).collect();
        let (who, what) = (listed(&adding), quoted(forbidden));
        details.push(format!("{who} must not include {what} in securityContext.capabilities.add"));
    }
    if details.is_empty() { None } else { refuse("unrestricted capabilities", details.join("; ")) }
}

fn host_namespaces(pod: &Value, _: u32) -> Option<Refusal> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let shared: Vec<String> =
        fields.iter().filter(|field| pod.flag(&["spec", field])).map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { refuse("host namespaces", shared.join(", ")) }
}

fn volume_names(pod: &Value, is_bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    pod_refs::volumes(pod).iter().filter(|volume| is_bad(volume)).map(|volume| volume.text(&["name"])).collect()
}

fn listed_volumes(names: &[&str]) -> String {
    format!("{} {}", plural("volume", "volumes", names.len()), quoted(names))
}

fn has(volume: &Value, source: &str) -> bool {
    volume.get(source).is_some_and(|source| !source.is_null())
}

fn host_paths(pod: &Value, _: u32) -> Option<Refusal> {
    let bad = volume_names(pod, |volume| has(volume, "hostPath"));
    if bad.is_empty() { None } else { refuse("hostPath volumes", listed_volumes(&bad)) }
}

fn host_ports(pod: &Value, _: u32) -> Option<Refusal> {
    let ports = |container: &Value| -> Vec<i64> {
        let ports = container.items(&["ports"]).iter().filter_map(|port| port.int(&["hostPort"]));
        ports.filter(|port| *port != 0).collect()
    };
    let bad = names(pod, |container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let used: BTreeSet<String> = containers(pod).flat_map(ports).map(|port| port.to_string()).collect();
    let (uses, word) = (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", used.len()));
    let used = used.into_iter().collect::<Vec<_>>().join(", ");
    refuse("hostPort", format!("{} {uses} {word} {used}", listed(&bad)))
}

fn probe_hosts(pod: &Value, _: u32) -> Option<Refusal> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts = |container: &Value| -> BTreeSet<String> {
        let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
        let hosts = handlers.flat_map(|h| [h.text(&["httpGet", "host"]), h.text(&["tcpSocket", "host"])]);
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let bad: BTreeSet<&str> = names(pod, |container| !hosts(container).is_empty()).into_iter().collect();
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect();
    let used: BTreeSet<String> = containers(pod).flat_map(hosts).collect();
    let word = plural("probe or lifecycle host", "probe or lifecycle hosts", used.len());
    let uses = plural("uses", "use", bad.len());
    refuse("probe or lifecycle host", format!("{} {uses} {word} {}", listed(&bad), quoted(used)))
}

fn privileged(pod: &Value, _: u32) -> Option<Refusal> {
    let bad = names(pod, |container| container.flag(&["securityContext", "privileged"]));
    if bad.is_empty() {
        return None;
    }
    refuse("privileged", format!("{} must not set securityContext.privileged=true", listed(&bad)))
}

fn proc_mount_baseline(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 35 && has_user_namespace(pod) { None } else { proc_mount(pod) }
}

fn proc_mount(pod: &Value) -> Option<Refusal> {
    let mount = |container: &Value| {
        context(container, &["procMount"]).and_then(Value::as_str).filter(|m| *m != "Default").map(str::to_owned)
    };
    let bad = names(pod, |container| mount(container).is_some());
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = containers(pod).filter_map(mount).collect();
    refuse("procMount", format!("{} must not set securityContext.procMount to {}", listed(&bad), quoted(kinds)))
}

fn se_linux(pod: &Value, minor: u32) -> Option<Refusal> {
    let allowed = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (minor >= 31 && kind == "container_engine_t")
    };
    let set = |options: &Value, field: &str| !options.text(&[field]).is_empty();
    let is_bad = |options: &Value| !allowed(options.text(&["type"])) || set(options, "user") || set(options, "role");
    let path = ["seLinuxOptions"];
    let of_pod = pod_context(pod, &path).filter(|options| is_bad(options));
    let bad = names(pod, |container| context(container, &path).is_some_and(is_bad));
    let who = setters(of_pod.is_some(), &bad)?;
    let of_containers = containers(pod).filter_map(|container| context(container, &path));
    let all: Vec<&Value> = of_pod.into_iter().chain(of_containers).collect();
    let kinds: BTreeSet<&str> =
        all.iter().map(|options| options.text(&["type"])).filter(|kind| !allowed(kind)).collect();
    let mut data = Vec::new();
    if !kinds.is_empty() {
        data.push(format!("{} {}", plural("type", "types", kinds.len()), quoted(kinds)));
    }
    for field in ["user", "role"] {
        if all.iter().any(|options| set(options, field)) {
            data.push(format!("{field} may not be set"));
        }
    }
    refuse("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")))
}

const SECCOMP: [&str; 2] = ["seccompProfile", "type"];

fn is_confined(profile: &Value) -> bool {
    matches!(profile.as_str(), Some("RuntimeDefault" | "Localhost"))
}

/// Somebody sets a profile that is none.
fn seccomp_set(pod: &Value) -> Option<Refusal> {
    let of_pod = pod_context(pod, &SECCOMP).filter(|profile| !is_confined(profile));
    let bad = names(pod, |container| context(container, &SECCOMP).is_some_and(|profile| !is_confined(profile)));
    let who = setters(of_pod.is_some(), &bad)?;
    let of_containers = containers(pod).filter_map(|container| context(container, &SECCOMP));
    let values = text_set(of_pod.into_iter().chain(of_containers.filter(|profile| !is_confined(profile))));
    refuse("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values)))
}

fn seccomp(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 19 { seccomp_set(pod) } else { seccomp_annotations(pod) }
}

/// Before the fields there were annotations.
fn seccomp_annotations(pod: &Value) -> Option<Refusal> {
    let own = "seccomp.security.alpha.kubernetes.io/pod".to_owned();
    let of_containers = containers(pod)
        .map(|container| format!("container.seccomp.security.alpha.kubernetes.io/{}", container.text(&["name"])));
    let fine = |value: &str| matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
    let bad: BTreeSet<String> = std::iter::once(own)
        .chain(of_containers)
        .filter_map(|key| pod.annotation(&key).filter(|value| !fine(value)).map(|value| format!("{key}={value:?}")))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", bad.len());
    refuse("seccompProfile", format!("forbidden {word} {}", bad.into_iter().collect::<Vec<_>>().join(", ")))
}

fn seccomp_restricted(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    if let Some(refusal) = seccomp_set(pod) {
        return Some(refusal);
    }
    let confined = pod_context(pod, &SECCOMP).is_some();
    let open = names(pod, |container| !confined && context(container, &["seccompProfile"]).is_none());
    if open.is_empty() {
        return None;
    }
    let who = listed(&open);
    let wanted = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    refuse("seccompProfile", format!("pod or {who} {wanted}"))
}

/// Name and the release that allows it.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

fn sysctls(pod: &Value, minor: u32) -> Option<Refusal> {
    let allowed = |name: &str| SYSCTLS.iter().any(|(known, since)| *known == name && minor >= *since);
    let set = pod.items(&["spec", "securityContext", "sysctls"]).iter().map(|sysctl| sysctl.text(&["name"]));
    let bad: Vec<&str> = set.filter(|name| !allowed(name)).collect();
    if bad.is_empty() { None } else { refuse("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &Value, _: u32) -> Option<Refusal> {
    let path = ["windowsOptions", "hostProcess"];
    let yes = Some(&Value::Bool(true));
    let bad = names(pod, |container| context(container, &path) == yes);
    let who = setters(pod_context(pod, &path) == yes, &bad)?;
    refuse("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn privilege_escalation(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    let no = Some(&Value::Bool(false));
    let bad = names(pod, |container| context(container, &["allowPrivilegeEscalation"]) != no);
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", listed(&bad));
    refuse("allowPrivilegeEscalation != false", detail)
}

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volumes(pod: &Value, _: u32) -> Option<Refusal> {
    let is_bad = |volume: &Value| !VOLUMES.iter().any(|source| has(volume, source));
    let bad = volume_names(pod, is_bad);
    if bad.is_empty() {
        return None;
    }
    let source = |volume: &Value| {
        let fields = volume.as_object().into_iter().flatten();
        let source =
            fields.filter(|(key, value)| *key != "name" && !value.is_null()).map(|(key, _)| key.clone()).next();
        source.unwrap_or_else(|| "unknown".to_owned())
    };
    let kinds: BTreeSet<String> = pod_refs::volumes(pod).iter().filter(|volume| is_bad(volume)).map(source).collect();
    let word = plural("restricted volume type", "restricted volume types", kinds.len());
    let uses = plural("uses", "use", bad.len());
    refuse("restricted volume types", format!("{} {uses} {word} {}", listed_volumes(&bad), quoted(kinds)))
}

fn run_as_non_root(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 35 && has_user_namespace(pod) {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let path = ["runAsNonRoot"];
    let of_pod = pod_context(pod, &path).and_then(Value::as_bool);
    let own = |container: &Value| context(container, &path).and_then(Value::as_bool);
    let bad = names(pod, |container| own(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &bad) {
        return refuse(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = names(pod, |container| of_pod != Some(true) && own(container).is_none());
    if silent.is_empty() {
        return None;
    }
    refuse(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", listed(&silent)))
}

fn run_as_user(pod: &Value, minor: u32) -> Option<Refusal> {
    if minor >= 35 && has_user_namespace(pod) {
        return None;
    }
    let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let bad = names(pod, |container| is_root(context(container, &["runAsUser"])));
    let who = setters(is_root(pod_context(pod, &["runAsUser"])), &bad)?;
    refuse("runAsUser=0", format!("{who} must not set runAsUser=0"))
}
