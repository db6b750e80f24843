//! The embedded container runtime: pod sandboxes and their containers.
//!
//! Words and semantics are CRI's. [`ContainerRuntime`] is the contract; an adapter to another runtime implements the
//! same trait. Every sandbox is run by one small process, the shim, which is this same binary started again with a
//! hidden command: containers outlive the server, and the next [`Runtime::open`] finds them all.

mod api;
mod cgroup;
mod error;
mod host;
mod init;
mod net;
mod record;
mod resources;
pub mod shim;
mod spec;
mod status;
mod streams;
mod sys;

pub use api::{Connection, ContainerRuntime, Pending};
pub use error::{Error, Result};
pub use host::{Config, Runtime, ShimCommand};
pub use net::{Cidr, NetworkConfig, remove_bridge};
pub use resources::{CpuStats, MemoryStats, QosClass, Resources, Stats};
pub use shim::log::rotated as rotated_logs;
pub use spec::{
    ContainerId, ContainerSpec, Device, DnsConfig, HostAlias, IpcMode, LogLimits, Mount, MountSource, NetworkMode,
    PidMode, PodMeta, Propagation, Rlimit, RootImage, SandboxId, SandboxSpec, SeccompProfile, Security, User,
};
pub use status::{
    ContainerFilter, ContainerState, ContainerStatus, Event, EventKind, ExitRecord, SandboxState, SandboxStatus,
};
pub use streams::{Events, ExecOutput, ExecSpec, Lagged, Session, SessionExit, TerminalSize};
pub use sys::register;
