//! The node that runs in the server's own process: its runtime, its images, its way to the API.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admit::UserInfo;
use apiserver::{App, InProcess};
use clock::Clock;
use contract::ContainerRuntime;
use cri::CriRuntime;
use node::{ImageStore, NodeConfig, OciImages, RuntimeImages};
use runtime::{Installed, NetworkConfig, Runtime, ShimCommand};
use store::Store;

use crate::StartError;

/// The hidden command that this program is started again with, to run one sandbox (`setpoint`'s `main`).
const SHIM_COMMAND: &str = "shim";
/// The bridge of the node's pods, and their range.
const BRIDGE: &str = "setpoint0";
const POD_CIDR: &str = "10.244.0.0/24";
const MTU: u32 = 1500;
/// Where runtimes look for networks and plugins, unless they say otherwise.
const CNI_CONF_DIR: &str = "/etc/cni/net.d";
const CNI_BIN_DIR: &str = "/opt/cni/bin";
/// Where manifests are looked for, below the data directory.
const MANIFESTS: &str = "manifests";

/// How many pods a node takes unless it is told otherwise: upstream's number.
pub const PODS_MAX: u64 = 110;

/// What a server is told of its node.
#[derive(Clone, Debug)]
pub struct NodeRole {
    /// The Node's name.
    pub name: String,
    /// The bridge of its pods and their range, where the usual ones are taken.
    pub network: Option<(String, String)>,
    /// The parent of all control groups.
    pub cgroup_root: String,
    /// How many pods it takes.
    pub pods_max: u64,
    /// The socket of a runtime that speaks CRI, instead of the embedded one.
    pub cri: Option<PathBuf>,
    /// What it does for its machine's sake.
    pub upkeep: node::Upkeep,
    /// The directory of manifests of pods that it runs by itself; `manifests` of the data directory if absent.
    pub manifests: Option<PathBuf>,
}

impl NodeRole {
    /// A node with everything as usual.
    pub fn named(name: impl Into<String>) -> NodeRole {
        NodeRole {
            name: name.into(),
            network: None,
            cgroup_root: "setpoint".to_owned(),
            pods_max: PODS_MAX,
            upkeep: node::Upkeep::default(),
            manifests: None,
            cri: None,
        }
    }
}

/// Opens runtime and images; containers that run already are taken over.
pub(crate) async fn prepare(
    role: &NodeRole,
    data_dir: &Path,
    app: &Arc<App>,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    ips: Vec<IpAddr>,
    version: &str,
) -> Result<NodeConfig, StartError> {
    let failed = |what: &'static str| move |error: String| StartError::Node(format!("{what}: {error}"));
    // The shim has another working directory.
    let data_dir = &std::path::absolute(data_dir).map_err(|error| StartError::Node(error.to_string()))?;
    let config = runtime_config(role, data_dir).map_err(failed("the pods' network"))?;
    let root = data_dir.join(oci::STORE_DIRECTORY);
    let images = tokio::task::spawn_blocking(move || {
        let images = oci::Images::open(&root, oci::StoreOptions::default())?;
        images.ensure_box(&oci::Program::running()?)?;
        Ok::<_, oci::ImageError>(images)
    });
    let images = images.await.map_err(|error| StartError::Node(error.to_string()))?;
    let images = images.map_err(|error| StartError::Node(error.message()))?;
    let (runtime, images, runtime_version) = match &role.cri {
        None => embedded(config, images).await?,
        Some(socket) => adapted(socket, role, &config, data_dir, images).await?,
    };
    let manifests = role.manifests.clone().unwrap_or_else(|| data_dir.join(MANIFESTS));
    std::fs::create_dir_all(&manifests)
        .map_err(|error| StartError::Node(format!("make {}: {error}", manifests.display())))?;
    let user = UserInfo::new(format!("system:node:{}", role.name), ["system:nodes"]).authenticated();
    Ok(NodeConfig {
        name: role.name.clone(),
        root: data_dir.join("node"),
        logs: data_dir.join("logs"),
        store: Arc::clone(store),
        moved: app.moved(),
        transport: Arc::new(InProcess::new(Arc::clone(app), user)),
        clock: Arc::clone(clock),
        runtime,
        runtime_version,
        images,
        images_root: data_dir.join(oci::STORE_DIRECTORY),
        upkeep: role.upkeep.clone(),
        manifests: Some(manifests),
        ips,
        cluster_dns: None,
        pods_max: role.pods_max,
        version: version.to_owned(),
    })
}

/// A runtime, its images, and how the Node calls it.
type Runs = (Arc<dyn ContainerRuntime>, Arc<dyn ImageStore>, String);

async fn embedded(config: runtime::Config, images: oci::Images) -> Result<Runs, StartError> {
    let runtime = Runtime::open(config).await.map_err(|error| StartError::Node(stdx::chain(&error)))?;
    let images = OciImages::new(images, oci::Registries::new(oci::Hosts::default()));
    Ok((Arc::new(runtime), images.into(), format!("setpoint://{}", env!("CARGO_PKG_VERSION"))))
}

/// A runtime behind CRI. Its pods get our network, unless its directory of networks has another.
async fn adapted(
    socket: &Path,
    role: &NodeRole,
    config: &runtime::Config,
    data_dir: &Path,
    images: oci::Images,
) -> Result<Runs, StartError> {
    let opened = CriRuntime::open(cri::Config {
        socket: socket.to_owned(),
        node: role.name.clone(),
        root: data_dir.join("cri"),
        logs: config.logs.clone(),
        cgroup_root: config.cgroup_root.clone(),
    });
    let runtime = opened.await.map_err(|error| StartError::Node(stdx::chain(&error)))?;
    let info = runtime.info().clone();
    if let Some(network) = &config.network {
        let usual = || (PathBuf::from(CNI_CONF_DIR), PathBuf::from(CNI_BIN_DIR));
        let (conf_dir, bin_dir) = info.cni.clone().unwrap_or_else(usual);
        let program = std::env::current_exe().map_err(|error| StartError::Node(error.to_string()))?;
        let installed = runtime::install(network, &data_dir.join("cni"), (&conf_dir, &bin_dir), &program);
        match installed {
            Ok(Installed::Own) => {}
            Ok(Installed::Other(file)) => {
                tracing::info!(file = %file.display(), "pods get the network that this file configures");
            }
            Err(error) => {
                return Err(StartError::Node(format!("configure the network in {}: {error}", conf_dir.display())));
            }
        }
    }
    let version = format!("{}://{}", info.name, info.version);
    let images = RuntimeImages::new(runtime.images(), images);
    Ok((Arc::new(runtime), images.into(), version))
}

fn runtime_config(role: &NodeRole, data_dir: &Path) -> Result<runtime::Config, String> {
    let (bridge, cidr) = role.network.clone().unwrap_or_else(|| (BRIDGE.to_owned(), POD_CIDR.to_owned()));
    Ok(runtime::Config {
        root: data_dir.join("runtime"),
        logs: data_dir.join("logs"),
        cgroup_root: role.cgroup_root.clone(),
        shim: ShimCommand::this_program([SHIM_COMMAND.to_owned()]),
        network: Some(NetworkConfig { bridge, pod_cidr: cidr.parse()?, mtu: MTU, forward: true }),
    })
}
