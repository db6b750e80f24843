//! What a server is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a server is told on its command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where keys and the log are.
    pub data_dir: PathBuf,
    /// Where the API is served; port 0 takes any free port.
    pub listen: SocketAddr,
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
