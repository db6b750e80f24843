//! What we want, in CRI's messages.

use contract::{
    ContainerSpec, Device, IpcMode, NetworkMode, PidMode, Propagation, QosClass, Resources, SandboxSpec,
    SeccompProfile, Security, User,
};

use crate::labels;
use crate::wire::{self, namespace};

/// What all sandboxes of an agent have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent {
    /// The Node's name.
    pub node: String,
    /// Where logs are.
    pub logs: std::path::PathBuf,
    /// The parent of all control groups.
    pub cgroup_root: String,
    /// The runtime has systemd make control groups.
    pub by_systemd: bool,
}

impl Agent {
    /// The control group that a pod's containers are made in, as the runtime's driver names it.
    pub fn cgroup_parent(&self, spec: &SandboxSpec) -> String {
        let class = match spec.qos {
            QosClass::Guaranteed => "",
            QosClass::Burstable => "burstable",
            QosClass::BestEffort => "besteffort",
        };
        let root = self.cgroup_root.trim_matches('/');
        if !self.by_systemd {
            let class = if class.is_empty() { String::new() } else { format!("{class}/") };
            return format!("/{root}/{class}pod{}", spec.meta.uid);
        }
        // Dashes nest slices.
        let class = if class.is_empty() { String::new() } else { format!("-{class}") };
        format!("{}{class}-pod{}.slice", root.replace(['/', '-'], "_"), spec.meta.uid.replace('-', "_"))
    }

    /// The directory of a pod's logs.
    pub fn log_directory(&self, spec: &SandboxSpec) -> std::path::PathBuf {
        let meta = &spec.meta;
        self.logs.join(format!("{}_{}_{}", meta.namespace, meta.name, meta.uid))
    }

    /// A sandbox.
    pub fn sandbox(&self, spec: &SandboxSpec) -> wire::PodSandboxConfig {
        let meta = &spec.meta;
        let dns = &spec.dns;
        let is_given = !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty());
        wire::PodSandboxConfig {
            metadata: Some(wire::PodSandboxMetadata {
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                namespace: meta.namespace.clone(),
                attempt: meta.attempt,
            }),
            hostname: spec.hostname.clone(),
            log_directory: self.log_directory(spec).to_string_lossy().into_owned(),
            // Without one the runtime copies the machine's.
            dns_config: is_given.then(|| wire::DnsConfig {
                servers: dns.servers.clone(),
                searches: dns.searches.clone(),
                options: dns.options.clone(),
            }),
            labels: labels::sandbox(spec, &self.node),
            annotations: labels::sandbox_annotations(spec),
            linux: Some(wire::LinuxPodSandboxConfig {
                cgroup_parent: self.cgroup_parent(spec),
                security_context: Some(wire::LinuxSandboxSecurityContext {
                    namespace_options: Some(namespaces(spec)),
                    privileged: false,
                    // Its process only waits: the kubelet wants the runtime's filter for it, too.
                    seccomp: Some(wire::SecurityProfile { profile_type: 0 }),
                }),
                sysctls: spec.sysctls.clone().into_iter().collect(),
                resources: Some(resources(&spec.resources, None)),
            }),
        }
    }

    /// A container; `mounts` are resolved already.
    pub fn container(
        &self,
        sandbox: &SandboxSpec,
        spec: &ContainerSpec,
        image: &str,
        mounts: Vec<wire::Mount>,
    ) -> wire::ContainerConfig {
        wire::ContainerConfig {
            metadata: Some(wire::ContainerMetadata { name: spec.name.clone(), attempt: spec.attempt }),
            image: Some(wire::ImageSpec { image: image.to_owned(), user_specified_image: spec.root.image.clone() }),
            command: spec.command.clone(),
            args: spec.args.clone(),
            working_dir: spec.working_dir.clone(),
            envs: spec.env.iter().map(variable).collect(),
            mounts,
            devices: spec.devices.iter().map(device).collect(),
            labels: labels::container(sandbox, spec, &self.node),
            annotations: labels::container_annotations(spec),
            log_path: log_path(spec),
            stdin: spec.stdin,
            stdin_once: spec.stdin_once,
            tty: spec.tty,
            linux: Some(wire::LinuxContainerConfig {
                resources: Some(resources(&spec.resources, spec.oom_score_adj)),
                security_context: Some(security(sandbox, &spec.security, &spec.user)),
            }),
            stop_signal: spec.stop_signal.map_or(0, signal),
        }
    }
}

/// Below the pod's directory of logs.
pub fn log_path(spec: &ContainerSpec) -> String {
    format!("{}/{}.log", spec.name, spec.attempt)
}

fn variable((name, value): &(String, String)) -> wire::KeyValue {
    wire::KeyValue { key: name.clone(), value: value.clone().into_bytes() }
}

fn device(device: &Device) -> wire::Device {
    wire::Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.to_string_lossy().into_owned(),
        permissions: device.permissions.clone(),
    }
}

/// A mount whose source is on this machine.
pub fn mount(mount: &contract::Mount, host_path: &std::path::Path) -> wire::Mount {
    wire::Mount {
        container_path: mount.container_path.clone(),
        host_path: host_path.to_string_lossy().into_owned(),
        readonly: mount.readonly,
        propagation: match mount.propagation {
            Propagation::Private => 0,
            Propagation::HostToContainer => 1,
            Propagation::Bidirectional => 2,
        },
        recursive_read_only: mount.readonly && mount.recursive_readonly,
        ..wire::Mount::default()
    }
}

fn namespaces(spec: &SandboxSpec) -> wire::NamespaceOption {
    wire::NamespaceOption {
        network: match spec.network {
            NetworkMode::Pod => namespace::POD,
            NetworkMode::Node => namespace::NODE,
        },
        pid: match spec.pid {
            PidMode::Pod => namespace::POD,
            PidMode::Container => namespace::CONTAINER,
            PidMode::Node => namespace::NODE,
        },
        ipc: match spec.ipc {
            IpcMode::Pod => namespace::POD,
            IpcMode::Node => namespace::NODE,
        },
    }
}

/// Zero and empty say nothing.
pub fn resources(resources: &Resources, oom_score_adj: Option<i32>) -> wire::LinuxContainerResources {
    let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok()).unwrap_or(0);
    wire::LinuxContainerResources {
        cpu_period: number(resources.cpu_period_us),
        cpu_quota: resources.cpu_quota_us.unwrap_or(0),
        cpu_shares: number(resources.cpu_shares),
        memory_limit_in_bytes: resources.memory_limit_bytes.unwrap_or(0),
        oom_score_adj: oom_score_adj.map_or(0, i64::from),
        cpuset_cpus: resources.cpuset_cpus.clone().unwrap_or_default(),
        cpuset_mems: resources.cpuset_mems.clone().unwrap_or_default(),
        hugepage_limits: resources
            .hugepage_limits
            .iter()
            .map(|(page_size, limit)| wire::HugepageLimit { page_size: page_size.clone(), limit: *limit })
            .collect(),
    }
}

fn security(sandbox: &SandboxSpec, security: &Security, user: &User) -> wire::LinuxContainerSecurityContext {
    let plain = |names: &[String]| names.iter().map(|name| name.trim_start_matches("CAP_").to_owned()).collect();
    let number = |value: u32| wire::Int64Value { value: i64::from(value) };
    // What the image says of groups the runtime reads itself.
    let name = user.user.split(':').next().unwrap_or("");
    let uid = name.parse::<u32>().ok();
    wire::LinuxContainerSecurityContext {
        capabilities: Some(wire::Capability {
            add_capabilities: plain(&security.add_capabilities),
            drop_capabilities: plain(&security.drop_capabilities),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(sandbox)),
        run_as_user: uid.map(number),
        run_as_username: if uid.is_some() { String::new() } else { name.to_owned() },
        readonly_rootfs: security.readonly_root,
        supplemental_groups: user.supplemental_groups.iter().map(|group| i64::from(*group)).collect(),
        no_new_privs: security.no_new_privileges,
        run_as_group: user.run_as_group.map(number),
        seccomp: (!security.privileged).then_some(wire::SecurityProfile {
            profile_type: match security.seccomp {
                SeccompProfile::RuntimeDefault => 0,
                SeccompProfile::Unconfined => 1,
            },
        }),
        supplemental_groups_policy: i32::from(user.strict_groups),
    }
}

/// Linux' numbers of signals, from 1, as the protocol numbers them: there they are sorted by name.
const SIGNALS: [i32; 31] = [
    8, 10, 18, 9, 24, 1, 3, 7, 13, 29, 19, 30, 14, 2, 23, 20, 4, 6, 21, 25, 26, 27, 28, 33, 34, 31, 16, 32, 11, 17, 22,
];
/// The first of the real-time signals, here and there.
const REAL_TIME: (i32, i32) = (34, 35);
/// The last of them here.
const SIGNAL_MAX: i32 = 64;

/// A signal as the protocol numbers it; 0 leaves it to the runtime.
fn signal(number: i32) -> i32 {
    if (REAL_TIME.0..=SIGNAL_MAX).contains(&number) {
        return number - REAL_TIME.0 + REAL_TIME.1;
    }
    let at = usize::try_from(number - 1).ok();
    at.and_then(|at| SIGNALS.get(at).copied()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use contract::PodMeta;

    use super::*;

    fn spec(qos: QosClass) -> SandboxSpec {
        let meta = PodMeta { name: "web".into(), namespace: "d".into(), uid: "a-b".into(), attempt: 1 };
        SandboxSpec { meta, qos, ..SandboxSpec::default() }
    }

    #[test]
    fn control_groups() {
        let check = |by_systemd: bool, qos: QosClass, expected: &str| {
            let agent = Agent { cgroup_root: "setpoint".into(), by_systemd, ..Agent::default() };
            assert_eq!(agent.cgroup_parent(&spec(qos)), expected);
        };
        check(false, QosClass::Guaranteed, "/setpoint/poda-b");
        check(false, QosClass::BestEffort, "/setpoint/besteffort/poda-b");
        check(true, QosClass::Guaranteed, "setpoint-poda_b.slice");
        check(true, QosClass::Burstable, "setpoint-burstable-poda_b.slice");
    }

    #[test]
    fn a_sandbox_can_be_told_from_its_annotations() {
        let agent = Agent { node: "n".into(), logs: "/l".into(), ..Agent::default() };
        let mut wanted = spec(QosClass::Burstable);
        wanted.labels.insert("setpoint.dev/node".into(), "another".into());
        let config = agent.sandbox(&wanted);
        assert_eq!(config.labels["setpoint.dev/node"], "n", "a pod's own label is no lie about whose it is");
        assert_eq!(config.labels[labels::POD_UID], "a-b");
        assert_eq!(config.log_directory, "/l/d_web_a-b");
        assert_eq!(config.dns_config, None);
        let told: SandboxSpec = serde_json::from_str(&config.annotations[labels::SANDBOX_SPEC]).expect("a spec");
        assert_eq!(told, wanted);
    }

    #[test]
    fn users() {
        let check = |user: &str, uid: Option<i64>, name: &str| {
            let user = User { user: user.to_owned(), ..User::default() };
            let found = security(&spec(QosClass::BestEffort), &Security::default(), &user);
            assert_eq!((found.run_as_user.map(|uid| uid.value), found.run_as_username.as_str()), (uid, name));
        };
        check("", None, "");
        check("0", Some(0), "");
        check("7:8", Some(7), "");
        check("nobody:nogroup", None, "nobody");
    }

    #[test]
    fn signals_by_the_protocols_numbers() {
        for (here, there) in [
            (1, 8),
            (2, 10),
            (3, 18),
            (9, 13),
            (10, 29),
            (15, 23),
            (17, 4),
            (28, 32),
            (31, 22),
            (34, 35),
            (64, 65),
            (0, 0),
            (99, 0),
        ] {
            assert_eq!(signal(here), there, "{here}");
        }
    }
}
