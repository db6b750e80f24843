//! The network of pods that a runtime behind CRI runs: this program is the plugin, unless another is configured.

use std::io;
use std::path::PathBuf;

use cri::{PodNetwork, RuntimeInfo};
use runtime::{Installed, NetworkConfig};

/// Where runtimes look for networks and plugins, unless they say otherwise.
const CNI_CONF_DIR: &str = "/etc/cni/net.d";
const CNI_BIN_DIR: &str = "/opt/cni/bin";

/// What the plugin is told.
pub(crate) struct OwnPlugin {
    pub network: NetworkConfig,
    /// Where addresses in use are remembered.
    pub state_dir: PathBuf,
    pub program: PathBuf,
}

fn directories(runtime: &RuntimeInfo) -> (PathBuf, PathBuf) {
    runtime.cni.clone().unwrap_or_else(|| (CNI_CONF_DIR.into(), CNI_BIN_DIR.into()))
}

impl PodNetwork for OwnPlugin {
    fn is_foreign(&self, runtime: &RuntimeInfo) -> bool {
        // A directory that cannot be read has no network that we know of.
        matches!(runtime::other_network(&directories(runtime).0), Ok(Some(_)))
    }

    fn configure(&self, runtime: &RuntimeInfo, pod_cidr: contract::Cidr) -> io::Result<()> {
        let (conf_dir, bin_dir) = directories(runtime);
        match runtime::install(&self.network, pod_cidr, &self.state_dir, (&conf_dir, &bin_dir), &self.program)? {
            Installed::Own => {}
            Installed::Other(file) => {
                tracing::info!(file = %file.display(), "pods get the network that this file configures");
            }
        }
        Ok(())
    }
}
