//! What a sandbox and a container should be. Persisted beside what they are, so that a restarted agent finds its
//! labels again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::resources::{QosClass, Resources};

/// Identity of a sandbox: 32 lower-case hexadecimal digits.
pub type SandboxId = String;
/// Identity of a container: 32 lower-case hexadecimal digits.
pub type ContainerId = String;

/// The pod a sandbox belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodMeta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// Counts the sandboxes made for the same pod.
    pub attempt: u32,
}

/// A pod sandbox: the namespaces, address and cgroup that the pod's containers share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxSpec {
    pub meta: PodMeta,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Empty on the host's network, where the host's name is kept.
    pub hostname: String,
    /// Empty for none; makes the fully qualified name in `/etc/hosts`.
    pub domainname: String,
    pub dns: DnsConfig,
    pub host_aliases: Vec<HostAlias>,
    pub network: NetworkMode,
    pub pid: PidMode,
    pub ipc: IpcMode,
    /// Of the pod's namespaces, by name (`net.ipv4.ip_unprivileged_port_start`).
    pub sysctls: BTreeMap<String, String>,
    pub qos: QosClass,
    /// Limits of the pod's cgroup.
    pub resources: Resources,
    /// Bytes of the shared `/dev/shm`; 64 MiB when zero.
    pub shm_bytes: u64,
}

/// `/etc/resolv.conf`. All empty: a copy of the host's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsConfig {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// A line of `/etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAlias {
    pub ip: String,
    pub hostnames: Vec<String>,
}

/// Whose network the pod sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkMode {
    /// Its own namespace, with an address of the node's range.
    #[default]
    Pod,
    /// The host's.
    Node,
}

/// Whose processes a container sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidMode {
    /// Its own only.
    #[default]
    Container,
    /// Those of all containers of the pod (`shareProcessNamespace`).
    Pod,
    /// The host's.
    Node,
}

/// Whose System V IPC, message queues and `/dev/shm` the pod sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpcMode {
    #[default]
    Pod,
    Node,
}

/// A container of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerSpec {
    pub name: String,
    /// How often the container was restarted before: names the log file, `<attempt>.log`.
    pub attempt: u32,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub root: RootImage,
    /// The command line. Without `args` it is whole, image defaults already applied; see `args`.
    pub command: Vec<String>,
    /// Further arguments. A runtime that reads images itself replaces the image's entrypoint by `command` and its
    /// arguments by these, each only if it is not empty.
    pub args: Vec<String>,
    /// In order; a later entry of the same name wins.
    pub env: Vec<(String, String)>,
    /// `/` when empty; made when absent.
    pub working_dir: String,
    pub user: User,
    pub tty: bool,
    /// Keep a standard input open for attach.
    pub stdin: bool,
    /// Close it when the first attached client goes.
    pub stdin_once: bool,
    /// What it is asked to end with, where the pod says so. Who stops it may ask otherwise, if the runtime lets them.
    pub stop_signal: Option<i32>,
    /// Sorted by the runtime so that parents come first.
    pub mounts: Vec<Mount>,
    pub devices: Vec<Device>,
    pub resources: Resources,
    pub security: Security,
    pub rlimits: Vec<Rlimit>,
    pub oom_score_adj: Option<i32>,
    pub log: LogLimits,
}

/// The root file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RootImage {
    /// What the user wrote, and the digest it resolved to: for status only.
    pub image: String,
    pub image_id: String,
    /// What a runtime that keeps images itself knows it by; empty: by `image_id`.
    pub reference: String,
    /// Read-only layers as directories, the topmost first.
    pub lower_dirs: Vec<PathBuf>,
}

/// Who the process runs as. Names are looked up in the image's `/etc/passwd` and `/etc/group`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// `uid`, `name`, `uid:gid` or `name:group` as images write it; empty is root.
    pub user: String,
    /// Overrides the group.
    pub run_as_group: Option<u32>,
    pub supplemental_groups: Vec<u32>,
    /// True for the policy `Strict`: the image's `/etc/group` adds nothing.
    pub strict_groups: bool,
}

/// A mount of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute, within the container.
    pub container_path: String,
    pub source: MountSource,
    #[serde(default)]
    pub readonly: bool,
    /// Makes mounts below the source read-only as well.
    #[serde(default)]
    pub recursive_readonly: bool,
    #[serde(default)]
    pub propagation: Propagation,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A file or directory of the host. `sub_path` is resolved below it without ever leaving it, and made as a
    /// directory when absent; empty for the whole.
    Host { path: PathBuf, sub_path: String },
    /// What an image holds, to be read only and not to be executed. `sub_path` is a file or directory in it.
    Image {
        image_id: String,
        /// What a runtime that keeps images itself knows it by; empty: by `image_id`.
        reference: String,
        /// The topmost first; empty where the runtime keeps images itself.
        lower_dirs: Vec<PathBuf>,
        sub_path: String,
    },
    /// An empty file system in memory that goes with the container.
    Tmpfs { size_bytes: u64, mode: u32 },
}

/// Whether later mounts on one side appear on the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    #[default]
    Private,
    HostToContainer,
    Bidirectional,
}

/// A device of the host that the container may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub host_path: PathBuf,
    pub container_path: String,
    /// Letters of `rwm`.
    pub permissions: String,
}

/// What the process may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    /// All capabilities and devices, nothing masked, no system call filter.
    pub privileged: bool,
    /// Names with or without `CAP_`; `ALL` is all.
    pub add_capabilities: Vec<String>,
    pub drop_capabilities: Vec<String>,
    pub no_new_privileges: bool,
    pub readonly_root: bool,
    pub seccomp: SeccompProfile,
    /// `procMount: Unmasked`.
    pub unmasked_proc: bool,
}

/// The filter of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeccompProfile {
    RuntimeDefault,
    /// Kubernetes' default.
    #[default]
    Unconfined,
}

/// A limit of the process, named as in `setrlimit` (`RLIMIT_NOFILE`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    pub name: String,
    pub soft: u64,
    pub hard: u64,
}

/// When the log file is put aside, and how many files there may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    pub file_bytes_max: u64,
    /// The current one included; at least 2, as the kubelet demands.
    pub files_max: u32,
}

impl Default for LogLimits {
    /// The kubelet's `containerLogMaxSize` and `containerLogMaxFiles`.
    fn default() -> Self {
        LogLimits { file_bytes_max: 10 << 20, files_max: 5 }
    }
}
