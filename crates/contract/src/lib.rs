//! The contract between a node and what runs its containers: sandboxes, containers, streams, events, logs.
//!
//! Words and semantics are CRI's. [`ContainerRuntime`] is the contract; the embedded runtime (`runtime`) implements it,
//! and so does the adapter to any other runtime that speaks CRI (`cri`).

mod api;
mod error;
mod hosts;
mod links;
mod log_files;
mod range;
mod resources;
mod spec;
mod status;
mod streams;

pub use api::{Connection, ContainerRuntime, Pending};
pub use error::{Error, Result};
pub use hosts::hosts_file;
pub use links::host_interface;
pub use log_files::{keep_newest, name_aside, rotated};
pub use range::Cidr;
pub use resources::{CpuStats, MemoryStats, QosClass, Resources, Stats};
pub use spec::{
    ContainerId, ContainerSpec, Device, DnsConfig, HostAlias, IpcMode, LogLimits, Mount, MountSource, NetworkMode,
    PidMode, PodMeta, Propagation, Rlimit, RootImage, SandboxId, SandboxSpec, SeccompProfile, Security, User,
};
pub use status::{
    ContainerFilter, ContainerState, ContainerStatus, Event, EventKind, ExitRecord, SandboxState, SandboxStatus, stamp,
};
pub use streams::{Events, ExecOutput, ExecSpec, Lagged, Session, SessionExit, TerminalSize};
