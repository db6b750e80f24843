//! The contract, by calls of the RuntimeService.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use contract::{
    Cidr, Connection, ContainerFilter, ContainerId, ContainerRuntime, ContainerSpec, ContainerState, ContainerStatus,
    Error, Event, Events, ExecOutput, ExecSpec, MountSource, NetworkMode, Pending, Resources, Result, SandboxSpec,
    SandboxStatus, Session, Stats,
};
use prost::Message;
use tokio::sync::{broadcast, watch as watched};

use crate::cache::Cache;
use crate::channel::{CallError, Channel, code};
use crate::health::{self, Health};
use crate::network::{Network, PodNetwork};
use crate::request::{self, Agent};
use crate::stream::{self, Wanted};
use crate::subpath::SubPaths;
use crate::{answer, labels, watch, wire};

pub(crate) const SERVICE: &str = "/runtime.v1.RuntimeService";
/// An answer that needs no waiting on anybody else; a machine under load may take a while.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// What may have to wait for disks and networks: the kubelet's limit.
const WORK_TIMEOUT: Duration = Duration::from_secs(120);
/// A sandbox may have to fetch its own image first: the kubelet allows twice its limit.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(240);
/// On top of the time that the runtime itself is given: it answers just after.
const GRACE: Duration = Duration::from_secs(15);
/// How long a runtime that is just being started is waited for, and how often it is tried.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_EVERY: Duration = Duration::from_millis(200);
/// Events kept for a slow reader: two for each of a full node's 110 pods with four containers.
const EVENTS_KEPT: usize = 1024;

/// How a runtime is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The socket that it listens on.
    pub socket: PathBuf,
    /// The Node's name: only what was made for it is looked at.
    pub node: String,
    /// Where this side keeps what containers are given: hosts files, parts of volumes.
    pub root: PathBuf,
    /// Where logs are written: `<logs>/<namespace>_<pod>_<uid>/<container>/<attempt>.log`.
    pub logs: PathBuf,
    /// The parent of all control groups.
    pub cgroup_root: String,
}

/// What a runtime says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// `containerd`.
    pub name: String,
    /// `1.6.20`.
    pub version: String,
    /// Where it reads the configuration of pod networks, and where the plugins are, if it says so.
    pub cni: Option<(PathBuf, PathBuf)>,
}

/// A runtime. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub struct CriRuntime {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub channel: Arc<Channel>,
    pub agent: Agent,
    pub clock: SystemClock,
    pub info: RuntimeInfo,
    pub network: Network,
    pub health: Health,
    root: PathBuf,
    parts: SubPaths,
    events: broadcast::Sender<Event>,
    addresses: Cache<Vec<IpAddr>>,
    containers: Cache<wire::ContainerStatus>,
}

impl CriRuntime {
    /// Opens the runtime behind `config.socket`; waits for one that is just being started. Its pods' network is that of
    /// `plugin`.
    pub async fn open(config: Config, plugin: Box<dyn PodNetwork>) -> Result<CriRuntime> {
        let channel = Arc::new(Channel::new(config.socket.clone()));
        let version = greet(&channel).await?;
        let unused = |error: CallError| answer::error("runtime", "", "ask what it is like", error);
        let ask = wire::StatusRequest { verbose: true };
        let status: wire::StatusResponse = call(&channel, "Status", &ask, ANSWER_TIMEOUT).await.map_err(unused)?;
        let agent = Agent {
            node: config.node,
            logs: config.logs,
            cgroup_root: config.cgroup_root,
            by_systemd: is_by_systemd(&channel, &status.info).await,
        };
        let health = Health::new(channel.socket(), status.status.as_ref());
        let inner = Arc::new(Inner {
            channel,
            agent,
            clock: SystemClock::new(),
            info: RuntimeInfo {
                name: version.runtime_name,
                version: version.runtime_version.trim_start_matches('v').to_owned(),
                cni: network_directories(&status.info),
            },
            network: Network::new(plugin, status.status.as_ref()),
            health,
            parts: SubPaths::new(config.root.join("parts")),
            root: config.root,
            events: broadcast::Sender::new(EVENTS_KEPT),
            addresses: Cache::new(),
            containers: Cache::new(),
        });
        tokio::spawn(watch::run(Arc::downgrade(&inner)));
        tokio::spawn(health::run(Arc::downgrade(&inner)));
        Ok(CriRuntime { inner })
    }

    /// What it says of itself.
    pub fn info(&self) -> &RuntimeInfo {
        &self.inner.info
    }

    /// Its images.
    pub fn images(&self) -> crate::CriImages {
        crate::CriImages::new(Arc::clone(&self.inner.channel))
    }
}

/// The runtime's version, as soon as it answers.
async fn greet(channel: &Channel) -> Result<wire::VersionResponse> {
    let ask = wire::VersionRequest { version: "v1".to_owned() };
    let doing = format!("reach {}", channel.socket().display());
    let greeting = async {
        loop {
            match call(channel, "Version", &ask, ANSWER_TIMEOUT).await {
                Err(CallError::Unreachable(_) | CallError::Refused { code: code::UNAVAILABLE, .. }) => {
                    tokio::time::sleep(START_EVERY).await;
                }
                answered => return answered,
            }
        }
    };
    let greeted = tokio::time::timeout(START_TIMEOUT, greeting).await;
    let greeted = greeted.unwrap_or(Err(CallError::Late { limit: START_TIMEOUT }));
    greeted.map_err(|error| match error {
        CallError::Refused { code: code::UNIMPLEMENTED, .. } => {
            Error::Invalid(format!("{}: the runtime does not speak CRI v1", channel.socket().display()))
        }
        other => answer::error("runtime", "", &doing, other),
    })
}

/// Newer runtimes say which driver they use, older ones only within their configuration.
async fn is_by_systemd(channel: &Channel, info: &HashMap<String, String>) -> bool {
    let asked = call::<wire::RuntimeConfigResponse>(channel, "RuntimeConfig", &wire::Empty {}, ANSWER_TIMEOUT).await;
    match asked.map(|answer| answer.linux) {
        Ok(Some(linux)) => linux.cgroup_driver == 0,
        _ => info.get("config").is_some_and(|config| {
            let config: serde_json::Value = serde_json::from_str(config).unwrap_or_default();
            let name =
                config.pointer("/containerd/defaultRuntimeName").and_then(|name| name.as_str()).unwrap_or("runc");
            let options = config.pointer(&format!("/containerd/runtimes/{name}/options/SystemdCgroup"));
            options.and_then(serde_json::Value::as_bool).unwrap_or(false)
        }),
    }
}

fn network_directories(info: &HashMap<String, String>) -> Option<(PathBuf, PathBuf)> {
    let config: serde_json::Value = serde_json::from_str(info.get("config")?).ok()?;
    let directory = |name: &str| {
        let text = config.pointer(&format!("/cni/{name}"))?.as_str().filter(|text| text.starts_with('/'))?;
        Some(PathBuf::from(text))
    };
    Some((directory("confDir")?, directory("binDir")?))
}

async fn call<A: Message + Default>(
    channel: &Channel,
    method: &str,
    question: &impl Message,
    limit: Duration,
) -> std::result::Result<A, CallError> {
    channel.call(&format!("{SERVICE}/{method}"), question, limit).await
}

fn id(id: &str) -> wire::Id {
    wire::Id { id: id.to_owned() }
}

impl Inner {
    pub async fn ask<A: Message + Default>(
        &self,
        method: &str,
        question: &impl Message,
        limit: Duration,
    ) -> std::result::Result<A, CallError> {
        call(&self.channel, method, question, limit).await
    }

    /// A request whose answer says nothing; what is not there any more is no error.
    async fn tell(
        &self,
        (method, what, id): (&str, &'static str, &str),
        question: &impl Message,
        limit: Duration,
    ) -> Result<()> {
        match self.ask::<wire::Empty>(method, question, limit).await {
            Ok(_) | Err(CallError::Refused { code: code::NOT_FOUND, .. }) => Ok(()),
            Err(error) => Err(answer::error(what, id, method, error)),
        }
    }

    pub fn publish(&self, event: Event) {
        // Nobody listening is fine: events are a hint, the lists are the truth.
        let _ = self.events.send(event);
    }

    pub async fn sandboxes(
        &self,
        label_selector: HashMap<String, String>,
    ) -> std::result::Result<Vec<wire::PodSandbox>, CallError> {
        let filter = wire::PodSandboxFilter { label_selector, ..wire::PodSandboxFilter::default() };
        let ask = wire::ListPodSandboxRequest { filter: Some(filter) };
        let answer: wire::ListPodSandboxResponse = self.ask("ListPodSandbox", &ask, ANSWER_TIMEOUT).await?;
        Ok(answer.items)
    }

    pub async fn containers(
        &self,
        filter: &wire::ContainerFilter,
    ) -> std::result::Result<Vec<wire::Container>, CallError> {
        let ask = wire::ListContainersRequest { filter: Some(filter.clone()) };
        let answer: wire::ListContainersResponse = self.ask("ListContainers", &ask, ANSWER_TIMEOUT).await?;
        Ok(answer.containers)
    }

    /// The status of a container that is in this state.
    pub async fn container_status(
        &self,
        container: &str,
        state: i32,
    ) -> std::result::Result<wire::ContainerStatus, CallError> {
        if let Some(known) = self.containers.get(container, state) {
            return Ok(known);
        }
        let ask = id(container);
        let answer: wire::ContainerStatusResponse = self.ask("ContainerStatus", &ask, ANSWER_TIMEOUT).await?;
        let status = answer.status.unwrap_or_default();
        self.containers.put(container, status.state, status.clone());
        Ok(status)
    }

    pub async fn reopen_log(&self, container: &str) -> std::result::Result<(), CallError> {
        self.ask::<wire::Empty>("ReopenContainerLog", &id(container), ANSWER_TIMEOUT).await.map(|_| ())
    }

    /// A sandbox's status: its addresses are asked for once.
    async fn sandbox(&self, sandbox: wire::PodSandbox) -> Result<SandboxStatus> {
        // One that is not ready has given its addresses back.
        let ips = match (sandbox.state, self.addresses.get(&sandbox.id, sandbox.state)) {
            (0, None) => {
                let ask = id(&sandbox.id);
                let answered: std::result::Result<wire::PodSandboxStatusResponse, CallError> =
                    self.ask("PodSandboxStatus", &ask, ANSWER_TIMEOUT).await;
                let answered = answered.map_err(|error| answer::error("sandbox", &sandbox.id, "look at it", error))?;
                let ips = answered.status.as_ref().map(answer::addresses).unwrap_or_default();
                self.addresses.put(&sandbox.id, sandbox.state, ips.clone());
                ips
            }
            (0, Some(known)) => known,
            _ => Vec::new(),
        };
        Ok(answer::sandbox(&sandbox, ips))
    }

    async fn list_sandboxes(&self) -> Result<Vec<SandboxStatus>> {
        let listed = self.sandboxes(labels::own(&self.agent.node)).await;
        let listed = listed.map_err(|error| answer::error("sandbox", "", "list the sandboxes", error))?;
        self.addresses.keep(&listed.iter().map(|sandbox| sandbox.id.as_str()).collect::<BTreeSet<_>>());
        let mut found = Vec::with_capacity(listed.len());
        for sandbox in listed {
            match self.sandbox(sandbox).await {
                // Gone since the list was made.
                Err(error) if error.is_not_found() => {}
                other => found.push(other?),
            }
        }
        Ok(found)
    }

    async fn one_sandbox(&self, sandbox: &str) -> Result<SandboxStatus> {
        let missing = || Error::NotFound { what: "sandbox", id: sandbox.to_owned() };
        let filter = wire::PodSandboxFilter { id: sandbox.to_owned(), ..wire::PodSandboxFilter::default() };
        let ask = wire::ListPodSandboxRequest { filter: Some(filter) };
        let answered: std::result::Result<wire::ListPodSandboxResponse, CallError> =
            self.ask("ListPodSandbox", &ask, ANSWER_TIMEOUT).await;
        let answered = answered.map_err(|error| answer::error("sandbox", sandbox, "look at it", error))?;
        self.sandbox(answered.items.into_iter().next().ok_or_else(missing)?).await
    }

    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxStatus> {
        let mut own = labels::own(&self.agent.node);
        own.insert(labels::POD_UID.to_owned(), spec.meta.uid.clone());
        let known = self.sandboxes(own).await;
        let known = known.map_err(|error| answer::error("sandbox", "", "list the pod's sandboxes", error))?;
        let is_same = |sandbox: &wire::PodSandbox| {
            sandbox.metadata.as_ref().is_some_and(|meta| meta.attempt == spec.meta.attempt)
        };
        if let Some(same) = known.into_iter().find(is_same) {
            return self.sandbox(same).await;
        }
        if spec.network == NetworkMode::Pod && self.network.awaits_range(&self.info) {
            return Err(Error::NetworkNotReady);
        }
        let directory = self.agent.log_directory(spec);
        std::fs::create_dir_all(&directory).map_err(Error::io(format!("make {}", directory.display())))?;
        let ask = wire::RunPodSandboxRequest { config: Some(self.agent.sandbox(spec)) };
        let made: wire::Id = self
            .ask("RunPodSandbox", &ask, SANDBOX_TIMEOUT)
            .await
            .map_err(|error| answer::error("sandbox", &spec.meta.uid, "run the pod's sandbox", error))?;
        self.one_sandbox(&made.id).await
    }

    async fn remove_sandbox(&self, sandbox: &str) -> Result<()> {
        let known = match self.one_sandbox(sandbox).await {
            Err(error) if error.is_not_found() => None,
            other => Some(other?),
        };
        self.tell(("StopPodSandbox", "sandbox", sandbox), &id(sandbox), WORK_TIMEOUT).await?;
        self.tell(("RemovePodSandbox", "sandbox", sandbox), &id(sandbox), WORK_TIMEOUT).await?;
        let Some(known) = known else { return Ok(()) };
        let spec = known.spec;
        self.parts.release(&[sandbox]).map_err(Error::io("let go of the pod's volumes"))?;
        // What cannot be removed is small and harmless: another sandbox of the pod may use it.
        let _ = std::fs::remove_dir_all(self.hosts_directory(sandbox));
        if !self.agent.by_systemd {
            remove_groups(&self.agent.cgroup_parent(&spec));
        }
        Ok(())
    }

    fn hosts_directory(&self, sandbox: &str) -> PathBuf {
        self.root.join("hosts").join(sandbox)
    }

    async fn create(&self, sandbox: &str, spec: &ContainerSpec) -> Result<ContainerId> {
        let doing = |error: CallError| answer::error("container", &spec.name, "create the container", error);
        let status = self.one_sandbox(sandbox).await?;
        let mut label_selector = labels::own(&self.agent.node);
        label_selector.insert(labels::CONTAINER_NAME.to_owned(), spec.name.clone());
        let filter = wire::ContainerFilter {
            pod_sandbox_id: sandbox.to_owned(),
            label_selector,
            ..wire::ContainerFilter::default()
        };
        let known = self.containers(&filter).await.map_err(doing)?;
        let is_same = |one: &wire::Container| one.metadata.as_ref().is_some_and(|meta| meta.attempt == spec.attempt);
        if let Some(same) = known.into_iter().find(is_same) {
            return Ok(same.id);
        }
        let logs = self.agent.log_directory(&status.spec).join(&spec.name);
        std::fs::create_dir_all(&logs).map_err(Error::io(format!("make {}", logs.display())))?;
        let mounts = self.mounts(&status, spec)?;
        let names = [&spec.root.reference, &spec.root.image_id, &spec.root.image];
        let image = names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
        let ask = wire::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(self.agent.container(&status.spec, spec, &image, mounts)),
            sandbox_config: Some(self.agent.sandbox(&status.spec)),
        };
        let made: wire::Id = self.ask("CreateContainer", &ask, WORK_TIMEOUT).await.map_err(doing)?;
        Ok(made.id)
    }

    /// The mounts of a container, its hosts file among them: the runtime would give it the machine's.
    fn mounts(&self, sandbox: &SandboxStatus, spec: &ContainerSpec) -> Result<Vec<wire::Mount>> {
        let attempt = spec.attempt.to_string();
        let mut mounts = Vec::with_capacity(spec.mounts.len() + 1);
        for (at, mount) in spec.mounts.iter().enumerate() {
            let (path, sub_path) = match &mount.source {
                MountSource::Host { path, sub_path } => (path, sub_path),
                MountSource::Image { image_id, reference, sub_path, .. } => {
                    let image = if reference.is_empty() { image_id } else { reference };
                    mounts.push(wire::Mount {
                        image: Some(wire::ImageSpec { image: image.clone(), ..wire::ImageSpec::default() }),
                        image_sub_path: sub_path.clone(),
                        readonly: true,
                        ..request::mount(mount, Path::new(""))
                    });
                    continue;
                }
                MountSource::Tmpfs { .. } => {
                    return Err(Error::Invalid(format!("mount {:?}: not of this machine", mount.container_path)));
                }
            };
            let host_path = if sub_path.is_empty() {
                path.clone()
            } else {
                let place = [sandbox.id.as_str(), spec.name.as_str(), attempt.as_str(), &at.to_string()];
                let bound = self.parts.bind(&place, path, sub_path);
                bound.map_err(Error::io(format!("subPath {sub_path:?} of {}", mount.container_path)))?
            };
            mounts.push(request::mount(mount, &host_path));
        }
        let hosts = "/etc/hosts";
        if !spec.mounts.iter().any(|mount| mount.container_path.trim_end_matches('/') == hosts) {
            let file = self.write_hosts(sandbox).map_err(Error::io("write the pod's hosts file"))?;
            mounts.push(wire::Mount {
                container_path: hosts.to_owned(),
                host_path: file.to_string_lossy().into_owned(),
                readonly: spec.security.readonly_root,
                ..wire::Mount::default()
            });
        }
        Ok(mounts)
    }

    /// Once a sandbox: its containers share the file.
    fn write_hosts(&self, sandbox: &SandboxStatus) -> io::Result<PathBuf> {
        let directory = self.hosts_directory(&sandbox.id);
        let file = directory.join("hosts");
        if !file.exists() {
            let own = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
            std::fs::create_dir_all(&directory)?;
            let whole = directory.join("hosts.tmp");
            std::fs::write(&whole, contract::hosts_file(&sandbox.spec, sandbox.ips.first().copied(), &own))?;
            std::fs::rename(&whole, &file)?;
        }
        Ok(file)
    }

    async fn start(&self, container: &str) -> Result<()> {
        let status = self.status(container).await?;
        match status.state {
            ContainerState::Running => return Ok(()),
            ContainerState::Exited => return Err(Error::WrongState(format!("container {container} has exited"))),
            ContainerState::Created => {}
        }
        let started = self.ask::<wire::Empty>("StartContainer", &id(container), WORK_TIMEOUT).await;
        self.containers.forget(container);
        started
            .map(|_| ())
            .map_err(|error| answer::start_error(answer::error("container", container, "start the container", error)))
    }

    async fn stop(&self, container: &str, grace: Duration) -> Result<()> {
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let ask = wire::StopContainerRequest {
            container_id: container.to_owned(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        // The runtime waits for the end, then kills and waits again.
        self.tell(("StopContainer", "container", container), &ask, grace + WORK_TIMEOUT).await
    }

    async fn remove(&self, container: &str) -> Result<()> {
        let known = match self.status(container).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        if known.state == ContainerState::Running {
            self.stop(container, Duration::ZERO).await?;
        }
        self.tell(("RemoveContainer", "container", container), &id(container), WORK_TIMEOUT).await?;
        let place = [known.sandbox.as_str(), known.spec.name.as_str(), &known.spec.attempt.to_string()];
        self.parts.release(&place).map_err(Error::io("let go of the container's volumes"))
    }

    /// One container, as it is now.
    async fn status(&self, container: &str) -> Result<ContainerStatus> {
        let missing = || Error::NotFound { what: "container", id: container.to_owned() };
        let filter = wire::ContainerFilter { id: container.to_owned(), ..wire::ContainerFilter::default() };
        let listed = self.list(&filter).await?;
        listed.into_iter().next().ok_or_else(missing)
    }

    async fn list(&self, filter: &wire::ContainerFilter) -> Result<Vec<ContainerStatus>> {
        let failed = |error: CallError| answer::error("container", &filter.id, "list the containers", error);
        let listed = self.containers(filter).await.map_err(failed)?;
        let mut found = Vec::with_capacity(listed.len());
        for one in listed {
            match self.container_status(&one.id, one.state).await {
                Ok(status) => found.push(answer::container(&one.pod_sandbox_id, status)),
                // Gone since the list was made.
                Err(CallError::Refused { code: code::NOT_FOUND, .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(found)
    }

    async fn list_containers(&self, filter: &ContainerFilter) -> Result<Vec<ContainerStatus>> {
        let wanted = wire::ContainerFilter {
            pod_sandbox_id: filter.sandbox.clone().unwrap_or_default(),
            label_selector: labels::own(&self.agent.node),
            ..wire::ContainerFilter::default()
        };
        let mut found = self.list(&wanted).await?;
        if filter.sandbox.is_none() {
            self.containers.keep(&found.iter().map(|one| one.id.as_str()).collect::<BTreeSet<_>>());
        }
        found.retain(|one| filter.state.is_none_or(|state| one.state == state));
        Ok(found)
    }

    async fn exec_sync(&self, container: &str, command: &[String], timeout: Duration) -> Result<ExecOutput> {
        let limit = if timeout.is_zero() { ExecOutput::TIMEOUT_DEFAULT } else { timeout };
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        let ask = wire::ExecSyncRequest {
            container_id: container.to_owned(),
            cmd: command.to_vec(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let what = format!("command {command:?}");
        let done: std::result::Result<wire::ExecSyncResponse, CallError> =
            self.ask("ExecSync", &ask, limit + GRACE).await;
        match done {
            Ok(mut done) => {
                done.stdout.truncate(ExecOutput::OUTPUT_BYTES_MAX);
                done.stderr.truncate(ExecOutput::OUTPUT_BYTES_MAX);
                Ok(ExecOutput { exit_code: done.exit_code, stdout: done.stdout, stderr: done.stderr })
            }
            Err(CallError::Refused { code: code::DEADLINE_EXCEEDED, .. }) => Err(Error::Timeout { what, limit_ms }),
            // The runtime is late, not the command, whose container must not pay for that.
            Err(CallError::Late { .. }) => {
                Err(Error::io(format!("{what}: ask the container runtime"))(io::ErrorKind::TimedOut.into()))
            }
            // Older runtimes have no code for it.
            Err(CallError::Refused { message, .. }) if message.contains("deadline exceeded") => {
                Err(Error::Timeout { what, limit_ms })
            }
            Err(error) => Err(answer::start_error(answer::error("container", container, &what, error))),
        }
    }

    async fn exec(&self, container: &str, spec: &ExecSpec) -> Result<Session> {
        let ask = wire::ExecRequest {
            container_id: container.to_owned(),
            cmd: spec.command.clone(),
            tty: spec.tty,
            stdin: spec.stdin,
            stdout: spec.stdout,
            stderr: spec.stderr && !spec.tty,
        };
        let failed = |error: CallError| answer::error("container", container, "run a command", error);
        let answer: wire::StreamUrl = self.ask("Exec", &ask, ANSWER_TIMEOUT).await.map_err(failed)?;
        let wanted = Wanted { stdin: spec.stdin, stdout: spec.stdout, stderr: spec.stderr, tty: spec.tty };
        stream::session(&answer.url, wanted).await
    }

    async fn attach(&self, container: &str, stdin: bool) -> Result<Session> {
        let status = self.status(container).await?;
        let tty = status.spec.tty;
        let ask = wire::AttachRequest { container_id: container.to_owned(), stdin, tty, stdout: true, stderr: !tty };
        let failed = |error: CallError| answer::error("container", container, "attach", error);
        let answer: wire::StreamUrl = self.ask("Attach", &ask, ANSWER_TIMEOUT).await.map_err(failed)?;
        stream::session(&answer.url, Wanted { stdin, stdout: true, stderr: !tty, tty }).await
    }

    async fn forward(&self, sandbox: &str, port: u16) -> Result<Box<dyn Connection>> {
        let ask = wire::PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port: vec![i32::from(port)] };
        let failed = |error: CallError| answer::error("sandbox", sandbox, "connect to a port", error);
        let answer: wire::StreamUrl = self.ask("PortForward", &ask, ANSWER_TIMEOUT).await.map_err(failed)?;
        stream::forward(&answer.url, port).await
    }

    async fn update(&self, container: &str, resources: &Resources) -> Result<()> {
        let ask = wire::UpdateContainerResourcesRequest {
            container_id: container.to_owned(),
            linux: Some(request::resources(resources, None)),
        };
        let failed = |error: CallError| answer::error("container", container, "change its limits", error);
        self.ask::<wire::Empty>("UpdateContainerResources", &ask, WORK_TIMEOUT).await.map(|_| ()).map_err(failed)
    }
}

/// Removes a pod's control groups, which runtimes leave: from every hierarchy, and only when nothing is in them.
fn remove_groups(parent: &str) {
    let root = Path::new("/sys/fs/cgroup");
    let below = parent.trim_start_matches('/');
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    for hierarchy in hierarchies.chain([root.to_path_buf()]) {
        // Missing, or in use by another sandbox of the pod.
        let _ = std::fs::remove_dir(hierarchy.join(below));
    }
}

impl ContainerRuntime for CriRuntime {
    fn run_sandbox<'a>(&'a self, spec: &'a SandboxSpec) -> Pending<'a, SandboxStatus> {
        Box::pin(self.inner.run_sandbox(spec))
    }

    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> Pending<'a, ()> {
        Box::pin(
            async move { self.inner.tell(("StopPodSandbox", "sandbox", sandbox), &id(sandbox), WORK_TIMEOUT).await },
        )
    }

    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> Pending<'a, ()> {
        Box::pin(self.inner.remove_sandbox(sandbox))
    }

    fn list_sandboxes(&self) -> Pending<'_, Vec<SandboxStatus>> {
        Box::pin(self.inner.list_sandboxes())
    }

    fn sandbox_status<'a>(&'a self, sandbox: &'a str) -> Pending<'a, SandboxStatus> {
        Box::pin(self.inner.one_sandbox(sandbox))
    }

    fn update_sandbox_resources<'a>(&'a self, sandbox: &'a str, resources: &'a Resources) -> Pending<'a, ()> {
        Box::pin(async move {
            let ask = wire::UpdatePodSandboxResourcesRequest {
                pod_sandbox_id: sandbox.to_owned(),
                resources: Some(request::resources(resources, None)),
            };
            let failed = |error: CallError| answer::error("sandbox", sandbox, "change the pod's limits", error);
            match self.inner.ask::<wire::Empty>("UpdatePodSandboxResources", &ask, WORK_TIMEOUT).await {
                // The call is only told to plugins: runtimes leave the parent of a pod's control groups without limits,
                // and older ones do not know the call.
                Ok(_) | Err(CallError::Refused { code: code::UNIMPLEMENTED, .. }) => Ok(()),
                Err(error) => Err(failed(error)),
            }
        })
    }

    fn create_container<'a>(&'a self, sandbox: &'a str, spec: &'a ContainerSpec) -> Pending<'a, ContainerId> {
        Box::pin(self.inner.create(sandbox, spec))
    }

    fn start_container<'a>(&'a self, container: &'a str) -> Pending<'a, ()> {
        Box::pin(self.inner.start(container))
    }

    /// The signal is the one that the container was made with: CRI has no other.
    fn stop_container<'a>(&'a self, container: &'a str, _: Option<i32>, grace: Duration) -> Pending<'a, ()> {
        Box::pin(self.inner.stop(container, grace))
    }

    fn remove_container<'a>(&'a self, container: &'a str) -> Pending<'a, ()> {
        Box::pin(self.inner.remove(container))
    }

    fn container_status<'a>(&'a self, container: &'a str) -> Pending<'a, ContainerStatus> {
        Box::pin(self.inner.status(container))
    }

    fn list_containers<'a>(&'a self, filter: &'a ContainerFilter) -> Pending<'a, Vec<ContainerStatus>> {
        Box::pin(self.inner.list_containers(filter))
    }

    fn update_resources<'a>(&'a self, container: &'a str, resources: &'a Resources) -> Pending<'a, ()> {
        Box::pin(self.inner.update(container, resources))
    }

    fn stats<'a>(&'a self, container: &'a str) -> Pending<'a, Stats> {
        Box::pin(async move {
            let failed = |error: CallError| answer::error("container", container, "measure it", error);
            let answered: wire::ContainerStatsResponse =
                self.inner.ask("ContainerStats", &id(container), ANSWER_TIMEOUT).await.map_err(failed)?;
            Ok(answered.stats.as_ref().map(answer::stats).unwrap_or_default())
        })
    }

    fn sandbox_stats<'a>(&'a self, sandbox: &'a str) -> Pending<'a, Stats> {
        Box::pin(async move {
            let failed = |error: CallError| answer::error("sandbox", sandbox, "measure it", error);
            let filter = wire::ContainerStatsFilter { pod_sandbox_id: sandbox.to_owned() };
            let ask = wire::ListContainerStatsRequest { filter: Some(filter) };
            let answered: wire::ListContainerStatsResponse =
                self.inner.ask("ListContainerStats", &ask, ANSWER_TIMEOUT).await.map_err(failed)?;
            Ok(answer::sum(&answered.stats))
        })
    }

    fn exec<'a>(&'a self, container: &'a str, spec: &'a ExecSpec) -> Pending<'a, Session> {
        Box::pin(self.inner.exec(container, spec))
    }

    fn exec_sync<'a>(&'a self, id: &'a str, command: &'a [String], timeout: Duration) -> Pending<'a, ExecOutput> {
        Box::pin(self.inner.exec_sync(id, command, timeout))
    }

    fn attach<'a>(&'a self, container: &'a str, stdin: bool) -> Pending<'a, Session> {
        Box::pin(self.inner.attach(container, stdin))
    }

    fn port_forward<'a>(&'a self, sandbox: &'a str, port: u16) -> Pending<'a, Box<dyn Connection>> {
        Box::pin(self.inner.forward(sandbox, port))
    }

    fn update_runtime_config(&self, pod_cidr: Cidr) -> Pending<'_, ()> {
        Box::pin(self.inner.use_range(pod_cidr))
    }

    fn network_ready(&self) -> bool {
        self.inner.network.is_ready(&self.inner.info)
    }

    fn trouble(&self) -> watched::Receiver<Option<String>> {
        self.inner.health.trouble()
    }

    fn events(&self) -> Events {
        Events::new(self.inner.events.subscribe())
    }
}
