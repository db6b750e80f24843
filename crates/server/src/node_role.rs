//! A node of this machine: its runtime, its images, its way to the API.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admit::UserInfo;
use apiserver::{App, InProcess};
use client::Transport;
use clock::{Clock, Ids};
use contract::ContainerRuntime;
use cri::CriRuntime;
use driver::Source;
use node::{ImageStore, NodeConfig, OciImages, RuntimeImages};
use runtime::{BRIDGE_PREFIX, NetworkConfig, Runtime, ShimCommand};

use crate::StartError;
use crate::pod_network::OwnPlugin;

/// The hidden command that this program is started again with, to run one sandbox (`setpoint`'s `main`).
const SHIM_COMMAND: &str = "shim";
const MTU: u32 = 1500;
/// Where manifests are looked for, below the data directory.
const MANIFESTS: &str = "manifests";
/// Where registries are described, in the data directory.
const REGISTRIES: &str = "registries.yaml";
/// What is to be said to whoever describes registries for a runtime that has images of its own.
const CRI_REGISTRIES: &str = "with --cri, registries are the runtime's own configuration (containerd: its config_path, usually \
                              /etc/containerd/certs.d; CRI-O: /etc/containers/registries.conf)";
/// Of the data directory's fingerprint: names of interfaces hold 15 bytes.
const MARK_CHARS: usize = 8;

/// How many pods a node takes unless it is told otherwise: upstream's number.
pub const PODS_MAX: u64 = 110;

/// What a server is told of its node.
#[derive(Clone, Debug)]
pub struct NodeRole {
    /// The Node's name.
    pub name: String,
    /// The parent of all control groups; `None`: one that the data directory names.
    pub cgroup_root: Option<String>,
    /// How many pods it takes.
    pub pods_max: u64,
    /// The socket of a runtime that speaks CRI, instead of the embedded one.
    pub cri: Option<PathBuf>,
    /// The file that describes registries; `registries.yaml` of the data directory if absent.
    pub registries: Option<PathBuf>,
    /// What it does for its machine's sake.
    pub upkeep: node::Upkeep,
    /// The directory of manifests of pods that it runs by itself; `manifests` of the data directory if absent.
    pub manifests: Option<PathBuf>,
}

impl NodeRole {
    /// A node of this name.
    pub fn named(name: impl Into<String>) -> NodeRole {
        NodeRole {
            name: name.into(),
            cgroup_root: None,
            pods_max: PODS_MAX,
            upkeep: node::Upkeep::default(),
            manifests: None,
            cri: None,
            registries: None,
        }
    }
}

/// What a node of this machine looks at and speaks through.
pub(crate) struct Surroundings {
    pub source: Source,
    pub transport: Arc<dyn Transport>,
    pub clock: Arc<dyn Clock>,
    pub ips: Vec<IpAddr>,
    pub version: String,
    /// Where the source shows no config maps and secrets.
    pub watches: Option<Arc<dyn Ids>>,
    pub port: u16,
}

/// Opens runtime and images; containers that run already are taken over.
pub(crate) async fn prepare(role: &NodeRole, data_dir: &Path, around: Surroundings) -> Result<NodeConfig, StartError> {
    // The shim has another working directory.
    let data_dir = &std::path::absolute(data_dir).map_err(|error| StartError::Node(error.to_string()))?;
    let config = runtime_config(role, data_dir);
    let root = data_dir.join(oci::STORE_DIRECTORY);
    let images = tokio::task::spawn_blocking(move || {
        let images = oci::Images::open(&root, oci::StoreOptions::default())?;
        images.ensure_box(&oci::Program::running()?)?;
        Ok::<_, oci::ImageError>(images)
    });
    let images = images.await.map_err(|error| StartError::Node(error.to_string()))?;
    let images = images.map_err(|error| StartError::Node(error.message()))?;
    let runs = match &role.cri {
        None => {
            let hosts = registries(role.registries.as_deref(), data_dir);
            let hosts = hosts.map_err(|error| StartError::Node(stdx::chain(&error)))?;
            embedded(config, data_dir, images, hosts).await?
        }
        Some(socket) => adapted(socket, role, config, data_dir, images, &around.clock).await?,
    };
    let manifests = role.manifests.clone().unwrap_or_else(|| data_dir.join(MANIFESTS));
    std::fs::create_dir_all(&manifests)
        .map_err(|error| StartError::Node(format!("make {}: {error}", manifests.display())))?;
    Ok(NodeConfig {
        name: role.name.clone(),
        root: data_dir.join("node"),
        logs: data_dir.join("logs"),
        source: around.source,
        transport: around.transport,
        clock: around.clock,
        runtime: runs.runtime,
        runtime_version: runs.version,
        images: runs.images,
        images_root: runs.images_root,
        upkeep: role.upkeep.clone(),
        manifests: Some(manifests),
        ips: around.ips,
        cluster_dns: None,
        pods_max: role.pods_max,
        version: around.version,
        watches: around.watches,
        port: around.port,
    })
}

/// The registries that a file describes: the one named, or else that of the data directory, where there is one.
///
/// # Errors
/// A file that is there, or was named, and cannot be used.
pub fn registries(named: Option<&Path>, data_dir: &Path) -> Result<oci::Hosts, oci::HostsError> {
    let own = data_dir.join(REGISTRIES);
    let file = named.or_else(|| own.exists().then_some(own.as_path()));
    file.map(oci::Hosts::read).transpose().map(Option::unwrap_or_default)
}

/// What runs the node's containers.
struct Runs {
    runtime: Arc<dyn ContainerRuntime>,
    images: Arc<dyn ImageStore>,
    /// A directory of the disk that images are on.
    images_root: PathBuf,
    /// How the Node calls it.
    version: String,
}

async fn embedded(
    config: runtime::Config,
    data_dir: &Path,
    images: oci::Images,
    registries: oci::Hosts,
) -> Result<Runs, StartError> {
    let runtime = Runtime::open(config).await.map_err(|error| StartError::Node(stdx::chain(&error)))?;
    let images = OciImages::new(images, oci::Registries::new(registries));
    Ok(Runs {
        runtime: Arc::new(runtime),
        images: images.into(),
        images_root: data_dir.join(oci::STORE_DIRECTORY),
        version: format!("setpoint://{}", env!("CARGO_PKG_VERSION")),
    })
}

/// A runtime behind CRI. Its pods get our network, unless its directory of networks has another.
async fn adapted(
    socket: &Path,
    role: &NodeRole,
    config: runtime::Config,
    data_dir: &Path,
    images: oci::Images,
    clock: &Arc<dyn Clock>,
) -> Result<Runs, StartError> {
    if let Some(named) = &role.registries {
        return Err(StartError::Node(format!("{} cannot be used: {CRI_REGISTRIES}", named.display())));
    }
    let unused = data_dir.join(REGISTRIES);
    if unused.exists() {
        tracing::warn!("{} is not used: {CRI_REGISTRIES}", unused.display());
    }
    let program = std::env::current_exe().map_err(|error| StartError::Node(error.to_string()))?;
    let plugin = OwnPlugin { network: network(data_dir), state_dir: data_dir.join("cni"), program };
    let config = cri::Config {
        socket: socket.to_owned(),
        node: role.name.clone(),
        root: data_dir.join("cri"),
        logs: config.logs,
        cgroup_root: config.cgroup_root,
    };
    let runtime = CriRuntime::open(config, Box::new(plugin)).await;
    let runtime = runtime.map_err(|error| StartError::Node(stdx::chain(&error)))?;
    let version = format!("{}://{}", runtime.info().name, runtime.info().version);
    let place = runtime.images().place().await.map_err(|error| StartError::Node(stdx::chain(&error)))?;
    // A runtime that does not say where its images are is taken to have them where everything else is.
    let images_root = place.unwrap_or_else(|| data_dir.to_owned());
    let images = RuntimeImages::new(runtime.images(), images, images_root.clone(), Arc::clone(clock));
    Ok(Runs { runtime: Arc::new(runtime), images: images.into(), images_root, version })
}

/// What names that nodes of one machine share are told apart by: their data directories.
fn mark(data_dir: &Path) -> String {
    let mark = brain::fingerprint([&*data_dir.to_string_lossy()]);
    mark.get(..MARK_CHARS).unwrap_or(&mark).to_owned()
}

/// The range of the pods comes with the Node.
fn network(data_dir: &Path) -> NetworkConfig {
    NetworkConfig { bridge: format!("{BRIDGE_PREFIX}{}", mark(data_dir)), pod_cidr: None, mtu: MTU, forward: true }
}

fn runtime_config(role: &NodeRole, data_dir: &Path) -> runtime::Config {
    runtime::Config {
        root: data_dir.join("runtime"),
        logs: data_dir.join("logs"),
        cgroup_root: role.cgroup_root.clone().unwrap_or_else(|| format!("setpoint-{}", mark(data_dir))),
        shim: ShimCommand::this_program([SHIM_COMMAND.to_owned()]),
        network: Some(network(data_dir)),
    }
}

/// The user of the node in this process.
pub(crate) fn in_process(app: &Arc<App>, name: &str) -> Arc<dyn Transport> {
    let user = UserInfo::new(format!("system:node:{name}"), ["system:nodes"]).authenticated();
    Arc::new(InProcess::new(Arc::clone(app), user))
}
