//! The contract between the node agent and whatever runs containers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::error::Result;
use crate::range::Cidr;
use crate::resources::{Resources, Stats};
use crate::spec::{ContainerId, ContainerSpec, SandboxSpec};
use crate::status::{ContainerFilter, ContainerStatus, SandboxStatus};
use crate::streams::{Events, ExecOutput, ExecSpec, Session};

/// A boxed future, so that the trait can be used as `dyn`.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A connection to a port of a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Sandboxes and containers. Every call may be repeated: what is already done stays done and is no error. Every call
/// has a time limit of its own.
pub trait ContainerRuntime: Send + Sync {
    /// Makes and starts a sandbox; it is `Ready` on return. A sandbox that already exists for the same pod uid and
    /// attempt is returned instead.
    fn run_sandbox<'a>(&'a self, spec: &'a SandboxSpec) -> Pending<'a, SandboxStatus>;
    /// Kills what still runs in the sandbox and gives back its address and namespaces.
    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
    /// Stops the sandbox if need be and removes it with all its containers.
    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
    /// All sandboxes.
    fn list_sandboxes(&self) -> Pending<'_, Vec<SandboxStatus>>;
    /// One sandbox.
    fn sandbox_status<'a>(&'a self, id: &'a str) -> Pending<'a, SandboxStatus>;
    /// Changes the limits of the pod's cgroup in place.
    fn update_sandbox_resources<'a>(&'a self, id: &'a str, resources: &'a Resources) -> Pending<'a, ()>;

    /// Makes a container, not yet started. One that already exists with the same name and attempt in the sandbox is
    /// returned instead.
    fn create_container<'a>(&'a self, sandbox: &'a str, spec: &'a ContainerSpec) -> Pending<'a, ContainerId>;
    /// Starts a created container. When its process cannot be started the error is `Error::Start` and the
    /// container is `Exited` with the reason `StartError`.
    fn start_container<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
    /// Sends `signal` (`SIGTERM` when `None`), waits up to `grace` for the end, then kills the whole cgroup.
    fn stop_container<'a>(&'a self, id: &'a str, signal: Option<i32>, grace: Duration) -> Pending<'a, ()>;
    /// Kills the container if need be and removes it; its log files stay.
    fn remove_container<'a>(&'a self, id: &'a str) -> Pending<'a, ()>;
    /// One container.
    fn container_status<'a>(&'a self, id: &'a str) -> Pending<'a, ContainerStatus>;
    /// All containers that match.
    fn list_containers<'a>(&'a self, filter: &'a ContainerFilter) -> Pending<'a, Vec<ContainerStatus>>;
    /// Changes the limits in place.
    fn update_resources<'a>(&'a self, id: &'a str, resources: &'a Resources) -> Pending<'a, ()>;
    /// What a container uses now.
    fn stats<'a>(&'a self, id: &'a str) -> Pending<'a, Stats>;
    /// What the whole pod uses now.
    fn sandbox_stats<'a>(&'a self, id: &'a str) -> Pending<'a, Stats>;

    /// Runs a command in a running container.
    fn exec<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> Pending<'a, Session>;
    /// Runs a command to its end; when `timeout` passes first it is killed with all its descendants and the error
    /// is `Error::Timeout`.
    fn exec_sync<'a>(&'a self, id: &'a str, command: &'a [String], timeout: Duration) -> Pending<'a, ExecOutput>;
    /// Joins the streams of a container's first process; its standard input only if asked for.
    fn attach<'a>(&'a self, id: &'a str, stdin: bool) -> Pending<'a, Session>;
    /// Connects to a TCP port within the sandbox.
    fn port_forward<'a>(&'a self, sandbox: &'a str, port: u16) -> Pending<'a, Box<dyn Connection>>;

    /// Tells the runtime the range of its pods' addresses, when it is known. Pods that have an address keep it.
    fn update_runtime_config(&self, pod_cidr: Cidr) -> Pending<'_, ()>;
    /// Whether pods can be put on the pod network now.
    fn network_ready(&self) -> bool;

    /// Why it cannot be used, as that changes. What is a part of this process can always be used: its receiver tells that
    /// nothing changes.
    fn trouble(&self) -> watch::Receiver<Option<String>> {
        watch::Sender::new(None).subscribe()
    }
    /// State changes from now on.
    fn events(&self) -> Events;
}
