//! The runtime on the server's side: records on disk, shims and conversations with them.

mod channel;
mod config;
mod container;
mod plug;
mod sandbox;
mod session;
mod supervise;
mod validate;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use clock::{Clock, Ids, SystemClock, SystemIds};
use tokio::sync::broadcast;

pub use config::{Config, ShimCommand};

use crate::cgroup::Hierarchies;
use crate::net;
use crate::record::{self, NetRecord, SandboxRecord};
use crate::shim;
use crate::shim::protocol::{Reply, Request};
use channel::Channel;
use contract::{Cidr, Connection, ContainerRuntime, Pending};
use contract::{ContainerFilter, ContainerState, ContainerStatus, Event, EventKind, SandboxStatus};
use contract::{ContainerId, ContainerSpec, NetworkMode, SandboxSpec};
use contract::{Error, Result};
use contract::{Events, ExecOutput, ExecSpec, Session};
use contract::{Resources, Stats};
use sandbox::Sandbox;

/// Events kept for a slow reader: two for each of a full node's 110 pods with four containers.
const EVENTS_KEPT: usize = 1024;
/// Setting up a sandbox takes milliseconds; a machine that needs longer than this is in trouble.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(30);
/// Starting may wait for slow mounts: above the shim's own limit of 60 s.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// An answer that needs no waiting on anybody else.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a killed container may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// The embedded runtime. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    /// The range of pods' addresses, once it is known.
    pod_cidr: RwLock<Option<Cidr>>,
    hierarchies: Hierarchies,
    clock: SystemClock,
    events: broadcast::Sender<Event>,
    sandboxes: Mutex<BTreeMap<String, Arc<Sandbox>>>,
    /// Held while a new sandbox gets its identity and address, which must be nobody else's. The last one given.
    creation: tokio::sync::Mutex<Option<Ipv4Addr>>,
    /// Held while a pod's cgroup is made or removed: two sandboxes of one pod share it.
    pod_groups: Mutex<()>,
    /// The shim's program, on a mount that nobody can write to: a container that gets hold of it by way of
    /// `/proc` must not be able to change it.
    program: Option<OwnedFd>,
    _lock: File,
}

impl Runtime {
    /// Opens the runtime at `config.root`, adopts the sandboxes whose shims live, and cleans up after those whose do
    /// not. Waits for a predecessor that is just dying, a few seconds.
    pub async fn open(config: Config) -> Result<Runtime> {
        let sandboxes = config.root.join("sandboxes");
        fs::create_dir_all(&sandboxes).map_err(Error::io(format!("make {}", sandboxes.display())))?;
        let lock = supervise::lock_root(&config.root).await?;
        let hierarchies = Hierarchies::detect().map_err(Error::io("find the control groups"))?;
        let shims = hierarchies.group(&shim::shims_group(&config.cgroup_root));
        shims.create().map_err(Error::io("make the shims' control group"))?;
        let range = config.network.as_ref().and_then(|network| network.pod_cidr);
        let inner = Inner {
            program: supervise::readonly_program(&config.shim.program).ok(),
            config,
            pod_cidr: RwLock::new(None),
            hierarchies,
            clock: SystemClock::new(),
            events: broadcast::Sender::new(EVENTS_KEPT),
            sandboxes: Mutex::default(),
            creation: tokio::sync::Mutex::default(),
            pod_groups: Mutex::default(),
            _lock: lock,
        };
        let runtime = Runtime { inner: Arc::new(inner) };
        runtime.watch_plugs().map_err(Error::io("listen to the kernel about interfaces"))?;
        runtime.adopt_all().await?;
        if let Some(range) = range {
            runtime.use_range(range)?;
        }
        Ok(runtime)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sandbox>>> {
        // Entries are added and removed whole.
        self.inner.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(&self) -> Option<Cidr> {
        *self.inner.pod_cidr.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives pods addresses of this range from now on; those that have one keep it.
    fn use_range(&self, range: Cidr) -> Result<()> {
        let Some(network) = &self.inner.config.network else { return Ok(()) };
        net::remove_leftovers(&network.bridge, range).map_err(Error::io("look for bridges of other nodes"))?;
        net::ensure_bridge(network, range).map_err(Error::io(format!("set up bridge {}", network.bridge)))?;
        *self.inner.pod_cidr.write().unwrap_or_else(PoisonError::into_inner) = Some(range);
        // The bridge may have been made anew.
        self.join_bridge();
        Ok(())
    }

    fn list(&self) -> Vec<Arc<Sandbox>> {
        self.all().values().cloned().collect()
    }

    fn sandbox(&self, id: &str) -> Result<Arc<Sandbox>> {
        self.all().get(id).cloned().ok_or_else(|| Error::NotFound { what: "sandbox", id: id.to_owned() })
    }

    /// The sandbox a container belongs to.
    fn owner(&self, container: &str) -> Result<Arc<Sandbox>> {
        let found = self.all().values().find(|sandbox| sandbox.view().containers.contains_key(container)).cloned();
        found.ok_or_else(|| Error::NotFound { what: "container", id: container.to_owned() })
    }

    fn publish(&self, sandbox: &Sandbox, kind: EventKind) {
        // Nobody listening is fine: events are a hint, the lists are the truth.
        let _ = self.inner.events.send(Event { sandbox: sandbox.record.id.clone(), kind });
    }

    /// One question and its answer.
    async fn ask(&self, sandbox: &Sandbox, request: &Request, limit: Duration) -> Result<(Reply, Vec<OwnedFd>)> {
        let shim = |message: String| Error::Shim { id: sandbox.record.id.clone(), message };
        let talk = async {
            let channel = Channel::connect(&sandbox.dir).await?;
            channel.send(request, &[]).await?;
            channel.receive().await
        };
        let answer =
            timed(&format!("{request:?}"), limit, async { talk.await.map_err(|e| shim(e.to_string())) }).await?;
        answer.ok_or_else(|| shim("hung up".to_owned()))
    }

    /// A question whose answer is `Done`.
    async fn tell(&self, sandbox: &Sandbox, request: &Request) -> Result<Vec<OwnedFd>> {
        match self.ask(sandbox, request, ANSWER_TIMEOUT).await? {
            (Reply::Done, fds) => Ok(fds),
            (Reply::Failed { message, .. }, _) => Err(Error::WrongState(message)),
            (other, _) => Err(Error::Shim { id: sandbox.record.id.clone(), message: format!("answered {other:?}") }),
        }
    }

    async fn run(&self, spec: &SandboxSpec) -> Result<SandboxStatus> {
        validate::sandbox(spec)?;
        let mut last = self.inner.creation.lock().await;
        let same = |known: &Arc<Sandbox>| {
            known.record.spec.meta.uid == spec.meta.uid && known.record.spec.meta.attempt == spec.meta.attempt
        };
        if let Some(known) = self.list().into_iter().find(same) {
            drop(last);
            // Still being started, perhaps.
            let _finished = known.operation.lock().await;
            return Ok(known.status());
        }
        let record = self.new_record(spec, &mut last)?;
        let sandbox = Arc::new(self.write_sandbox(record)?);
        let operation = sandbox.operation.try_lock();
        self.all().insert(sandbox.record.id.clone(), sandbox.clone());
        drop(last);
        let result = self.start_shim(&sandbox).await;
        drop(operation);
        if let Err(e) = result {
            // Nothing of a sandbox that never was ready is worth keeping.
            self.remove_whole_sandbox(&sandbox.record.id).await?;
            return Err(e);
        }
        Ok(sandbox.status())
    }

    fn new_record(&self, spec: &SandboxSpec, last: &mut Option<Ipv4Addr>) -> Result<SandboxRecord> {
        let config = &self.inner.config;
        let net = match (spec.network, &config.network) {
            (NetworkMode::Node, _) => None,
            (NetworkMode::Pod, None) => return Err(Error::Invalid("this node has no pod network".to_owned())),
            (NetworkMode::Pod, Some(network)) => {
                let range = self.range().ok_or(Error::NetworkNotReady)?;
                let taken = self.taken_addresses();
                let address = net::allocate(range, last.or(taken.last().copied()), |a| taken.contains(&a))
                    .ok_or_else(|| Error::NoAddress(range.to_string()))?;
                *last = Some(address);
                Some(NetRecord {
                    bridge: network.bridge.clone(),
                    address,
                    prefix: range.prefix,
                    gateway: range.gateway(),
                    mtu: network.mtu,
                })
            }
        };
        Ok(SandboxRecord {
            id: new_id(),
            spec: spec.clone(),
            created_at: self.inner.clock.now(),
            cgroup_root: config.cgroup_root.clone(),
            logs: config.logs.clone(),
            net,
        })
    }

    /// Addresses in use: those of sandboxes that were not stopped for good.
    fn taken_addresses(&self) -> Vec<Ipv4Addr> {
        let live = |sandbox: &Arc<Sandbox>| !sandbox.dir.join(record::STOPPED).exists();
        let mut taken: Vec<Ipv4Addr> = self
            .list()
            .iter()
            .filter(|sandbox| live(sandbox))
            .filter_map(|sandbox| sandbox.record.net.as_ref().map(|net| net.address))
            .collect();
        taken.sort();
        taken
    }

    /// The directory appears with its record in it, or not at all.
    fn write_sandbox(&self, record: SandboxRecord) -> Result<Sandbox> {
        let parent = self.inner.config.root.join("sandboxes");
        let (hidden, dir) = (parent.join(format!(".{}", record.id)), parent.join(&record.id));
        let write = || {
            fs::create_dir(&hidden)?;
            fs::create_dir(hidden.join("containers"))?;
            record::write(&hidden.join(record::SANDBOX), &record, false)?;
            fs::rename(&hidden, &dir)
        };
        write().map_err(Error::io(format!("make {}", dir.display())))?;
        Ok(Sandbox::new(record, dir))
    }

    fn make_pod_group(&self, sandbox: &Sandbox) -> Result<()> {
        let _alone = self.inner.pod_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let group = sandbox.pod_group(&self.inner.hierarchies);
        group
            .create()
            .and_then(|()| group.apply(&sandbox.record.spec.resources))
            .map_err(Error::io("make the pod's cgroup"))
    }

    /// Unless another sandbox of the same pod uses it.
    fn remove_pod_group(&self, sandbox: &Sandbox) {
        let _alone = self.inner.pod_groups.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = &sandbox.record.spec.meta.uid;
        let shared = self.list().iter().any(|other| {
            other.record.id != sandbox.record.id && other.record.spec.meta.uid == *uid && other.view().ready
        });
        if !shared {
            sandbox.pod_group(&self.inner.hierarchies).remove_if_empty();
        }
    }

    async fn stop_whole_sandbox(&self, sandbox: &Arc<Sandbox>) -> Result<()> {
        let _operation = sandbox.operation.lock().await;
        if sandbox.view().ready {
            let mut changes = sandbox.changes();
            let stop = self.ask(sandbox, &Request::Stop, KILL_TIMEOUT);
            // Hanging up is the answer; what went wrong shows in whether it goes.
            let _ = stop.await;
            let gone = async {
                while sandbox.view().ready {
                    changes.changed().await.map_err(|_| Error::WrongState("the runtime is closing".to_owned()))?;
                }
                Ok(())
            };
            if timed("stopping the sandbox", KILL_TIMEOUT, gone).await.is_err() {
                supervise::kill_shim(sandbox);
                self.bury(sandbox).await?;
            }
        }
        match fs::write(sandbox.dir.join(record::STOPPED), "") {
            // Its address stays taken until it is removed, which is what makes room.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
            other => other.map_err(Error::io("record the stop"))?,
        }
        self.remove_pod_group(sandbox);
        Ok(())
    }

    async fn remove_whole_sandbox(&self, id: &str) -> Result<()> {
        let sandbox = match self.sandbox(id) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        self.stop_whole_sandbox(&sandbox).await?;
        // Once more without a shim: it may have been cut short.
        self.bury(&sandbox).await?;
        self.remove_pod_group(&sandbox);
        let hidden = sandbox.dir.with_file_name(format!(".{id}"));
        fs::rename(&sandbox.dir, &hidden).map_err(Error::io(format!("remove {}", sandbox.dir.display())))?;
        self.all().remove(id);
        self.publish(&sandbox, EventKind::SandboxRemoved);
        remove_in_background(hidden).await
    }
}

/// Trees may be large: not on a thread that others need.
async fn remove_in_background(path: PathBuf) -> Result<()> {
    let doing = format!("remove {}", path.display());
    blocking(&doing, move || record::remove_tree(&path)).await
}

/// Runs file and cgroup work that may wait.
async fn blocking<T: Send + 'static>(
    doing: &str,
    step: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let joined = tokio::task::spawn_blocking(step).await.map_err(std::io::Error::other);
    joined.and_then(|result| result).map_err(Error::io(doing))
}

async fn timed<T>(what: &str, limit: Duration, step: impl Future<Output = Result<T>>) -> Result<T> {
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let late = || Error::Timeout { what: what.to_owned(), limit_ms };
    tokio::time::timeout(limit, step).await.map_err(|_| late())?
}

/// 32 hexadecimal digits.
fn new_id() -> String {
    SystemIds.uid().replace('-', "")
}

impl ContainerRuntime for Runtime {
    fn run_sandbox<'a>(&'a self, spec: &'a SandboxSpec) -> Pending<'a, SandboxStatus> {
        Box::pin(self.run(spec))
    }

    fn stop_sandbox<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            match self.sandbox(id) {
                Err(e) if e.is_not_found() => Ok(()),
                other => self.stop_whole_sandbox(&other?).await,
            }
        })
    }

    fn remove_sandbox<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(self.remove_whole_sandbox(id))
    }

    fn list_sandboxes(&self) -> Pending<'_, Vec<SandboxStatus>> {
        Box::pin(async { Ok(self.list().iter().map(|sandbox| sandbox.status()).collect()) })
    }

    fn sandbox_status<'a>(&'a self, id: &'a str) -> Pending<'a, SandboxStatus> {
        Box::pin(async move { Ok(self.sandbox(id)?.status()) })
    }

    fn update_sandbox_resources<'a>(&'a self, id: &'a str, resources: &'a Resources) -> Pending<'a, ()> {
        Box::pin(async move {
            let group = self.sandbox(id)?.pod_group(&self.inner.hierarchies);
            group.apply(resources).map_err(Error::io("apply the pod's limits"))
        })
    }

    fn create_container<'a>(&'a self, sandbox: &'a str, spec: &'a ContainerSpec) -> Pending<'a, ContainerId> {
        Box::pin(self.create(sandbox, spec))
    }

    fn start_container<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(self.start(id))
    }

    fn stop_container<'a>(&'a self, id: &'a str, signal: Option<i32>, grace: Duration) -> Pending<'a, ()> {
        Box::pin(self.stop(id, signal.unwrap_or(libc::SIGTERM), grace))
    }

    fn remove_container<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(self.remove(id))
    }

    fn container_status<'a>(&'a self, id: &'a str) -> Pending<'a, ContainerStatus> {
        Box::pin(async move {
            let owner = self.owner(id)?;
            let view = self.container(&owner, id)?;
            Ok(owner.container_status(&view))
        })
    }

    fn list_containers<'a>(&'a self, filter: &'a ContainerFilter) -> Pending<'a, Vec<ContainerStatus>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for sandbox in self.list() {
                if filter.sandbox.as_ref().is_some_and(|wanted| *wanted != sandbox.record.id) {
                    continue;
                }
                let matches = |state: ContainerState| filter.state.is_none_or(|wanted| wanted == state);
                let views = sandbox.view();
                let views = views.containers.values().filter(|view| matches(view.state()));
                found.extend(views.map(|view| sandbox.container_status(view)));
            }
            Ok(found)
        })
    }

    fn update_resources<'a>(&'a self, id: &'a str, resources: &'a Resources) -> Pending<'a, ()> {
        Box::pin(self.update(id, resources))
    }

    fn stats<'a>(&'a self, id: &'a str) -> Pending<'a, Stats> {
        Box::pin(async move {
            let owner = self.owner(id)?;
            Ok(owner.pod_group(&self.inner.hierarchies).child(id).stats())
        })
    }

    fn sandbox_stats<'a>(&'a self, id: &'a str) -> Pending<'a, Stats> {
        Box::pin(async move { Ok(self.sandbox(id)?.pod_group(&self.inner.hierarchies).stats()) })
    }

    fn exec<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> Pending<'a, Session> {
        Box::pin(self.open_exec(id, spec))
    }

    fn exec_sync<'a>(&'a self, id: &'a str, command: &'a [String], timeout: Duration) -> Pending<'a, ExecOutput> {
        Box::pin(self.run_exec(id, command, timeout))
    }

    fn attach<'a>(&'a self, id: &'a str, stdin: bool) -> Pending<'a, Session> {
        Box::pin(self.open_attach(id, stdin))
    }

    fn port_forward<'a>(&'a self, sandbox: &'a str, port: u16) -> Pending<'a, Box<dyn Connection>> {
        Box::pin(self.dial(sandbox, port))
    }

    fn update_runtime_config(&self, pod_cidr: Cidr) -> Pending<'_, ()> {
        Box::pin(async move { self.use_range(pod_cidr) })
    }

    fn network_ready(&self) -> bool {
        self.inner.config.network.is_none() || self.range().is_some()
    }

    fn events(&self) -> Events {
        Events::new(self.inner.events.subscribe())
    }
}

/// A descriptor's path, to start the program it is.
fn fd_path(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}
