//! What a server is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The usual range of all pods' addresses: 256 nodes.
pub const CLUSTER_CIDR: &str = "10.244.0.0/16";

/// What a server is told on its command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where keys and the log are.
    pub data_dir: PathBuf,
    /// Where the API is served; port 0 takes any free port.
    pub listen: SocketAddr,
    /// The range that nodes get ranges for their pods from, a /24 each.
    pub cluster_cidr: String,
    /// Further names and addresses of the server, for its certificate.
    pub names: Vec<String>,
    /// The kubeconfig that the administrator's entry is merged into; `None` writes none.
    pub kubeconfig: Option<PathBuf>,
    /// Run the built-in controllers and the scheduler.
    pub controllers: bool,
    /// How many simulated nodes to have.
    pub simulated_nodes: usize,
    /// The node that runs in this process, if one does.
    pub node: Option<crate::NodeRole>,
    /// How long a revision can be read after newer ones came, at least; twice that at most.
    pub compaction_interval: Duration,
    /// Connections at a time; more are closed at once.
    pub connections_max: u32,
    /// The Kubernetes version that `/version` reports.
    pub git_version: String,
}
