//! How the runtime is set up on a node.

use std::path::PathBuf;

use crate::net::NetworkConfig;

/// How to start a shim: this binary again, with a hidden command before the sandbox's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimCommand {
    pub program: PathBuf,
    pub args: Vec<String>,
}

impl ShimCommand {
    /// This very program, even if its file was replaced meanwhile, with `args`.
    pub fn this_program(args: impl IntoIterator<Item = String>) -> ShimCommand {
        ShimCommand { program: PathBuf::from("/proc/self/exe"), args: args.into_iter().collect() }
    }
}

/// The node's part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where sandboxes and containers are kept; one runtime at a time.
    pub root: PathBuf,
    /// Where logs are written: `<logs>/<namespace>_<pod>_<uid>/<container>/<attempt>.log`.
    pub logs: PathBuf,
    /// The parent of all control groups (`setpoint`), relative to the hierarchies.
    pub cgroup_root: String,
    pub shim: ShimCommand,
    /// Absent: only pods on the host's network can be run.
    pub network: Option<NetworkConfig>,
}
