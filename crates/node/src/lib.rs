//! A node: performs what the agent decides for its pods with a container runtime, keeps its Node and Lease, and takes
//! over what ran before it was started.
//!
//! One task looks and decides ([`room`]); steps are performed by tasks of their own ([`perform`]). Everything goes to
//! the API as `system:node:<name>`, with no privilege beyond what that user is granted.

mod api;
mod box_registry;
mod container_spec;
mod cri_images;
mod dirs;
mod disks;
mod image;
mod keeper;
mod listen;
mod log;
mod machine;
mod manifests;
mod material;
mod mirrors;
mod node_object;
mod objects;
mod oci_images;
mod orphans;
mod pages;
mod perform;
mod probing;
mod resize;
mod room;
mod routes;
mod sandbox_spec;
mod seen;
mod signal;
mod streams;
mod traffic;
mod upkeep;
mod usage;
mod volume;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use client::Transport;
use clock::{Clock, Ids};
use contract::ContainerRuntime;
use driver::Source;

pub use cri_images::RuntimeImages;
pub use image::{BoxedImage, Collected, ImageLimits, ImageStore, LocalImage, Needed, Spare};
pub use listen::Door;
pub use oci_images::OciImages;
pub use room::run;
pub use routes::keep_routes;
pub use streams::Streams;

/// What a node does for its machine's sake.
#[derive(Clone, Debug, Default)]
pub struct Upkeep {
    /// When pods have to go.
    pub eviction: agent::pressure::Policy,
    /// When images have to go.
    pub images: ImageLimits,
}

/// What a node runs on.
#[derive(Clone)]
pub struct NodeConfig {
    /// The Node's name.
    pub name: String,
    /// Where pods' volumes are.
    pub root: PathBuf,
    /// Where the runtime writes logs: `<namespace>_<name>_<uid>` for each pod.
    pub logs: PathBuf,
    /// What it looks at: the server's own store, or a copy of what concerns the node.
    pub source: Source,
    /// Its way to the API, as `system:node:<name>`.
    pub transport: Arc<dyn Transport>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What runs containers.
    pub runtime: Arc<dyn ContainerRuntime>,
    /// Its name and version, as the Node shows them (`containerd://1.6.20`).
    pub runtime_version: String,
    /// Where images come from.
    pub images: Arc<dyn ImageStore>,
    /// A directory of the file system that images are on.
    pub images_root: PathBuf,
    /// What it does for its machine's sake.
    pub upkeep: Upkeep,
    /// The directory of manifests of pods that it runs by itself.
    pub manifests: Option<PathBuf>,
    /// Its addresses.
    pub ips: Vec<IpAddr>,
    /// The cluster's name server, if there is one: then pods ask it, else they ask whom the machine asks.
    pub cluster_dns: Option<IpAddr>,
    /// How many pods it takes.
    pub pods_max: u64,
    /// The version it reports.
    pub version: String,
    /// Randomness for the watches of single objects, where the source does not show config maps and secrets.
    pub watches: Option<Arc<dyn Ids>>,
    /// The port at which it is asked for logs and streams; 0 when it runs in the server's process.
    pub port: u16,
}

/// The component's name in events.
pub(crate) const COMPONENT: &str = "kubelet";
