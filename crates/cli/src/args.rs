//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::node_args::NodeArgs;

/// Keeps declared workloads true; speaks the Kubernetes API.
#[derive(Debug, Parser)]
#[command(name = "setpoint", version, disable_help_subcommand = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything on this machine, apply files, and show how it comes to be.
    Up(UpArgs),
    /// Run the API server with its store and controllers.
    Server(ServerArgs),
    /// Run pods on this machine for a server on another one (docs/multi-machine.md).
    Agent(AgentArgs),
    /// Make, list and delete the tokens that machines join with.
    Token(crate::token::TokenArgs),
    /// Run the controllers alone, against an API server that is somewhere else.
    Controllers(ControllersArgs),
    /// Show what applying manifests would do, and what would follow from it.
    Plan(crate::planning::PlanArgs),
    /// Plan, ask, do exactly that or stop, and wait until it is so.
    Apply(crate::planning::ApplyArgs),
    /// Show where the world differs from manifests, and who made it so (exit code 2).
    Drift(crate::reports::DriftArgs),
    /// Show an object with a name beside each of its fields.
    Blame(crate::reach::ObjectArgs),
    /// Show what happened to an object, as far as its log goes back.
    History(crate::reach::ObjectArgs),
    /// Take back the last change of an object, or all since a time; shown as a plan first.
    Undo(crate::undo::UndoArgs),
    /// Show which managers keep taking fields from one another (exit code 2).
    Fights(crate::reports::FightsArgs),
    /// Say why an object is not as it should be (exit code 2, or 3 when it stays so).
    Why(crate::reach::ObjectArgs),
    /// Wait until objects are as they should be, and say why not (exit code 2 at the deadline, 3 when it stays so).
    Wait(crate::reports::WaitArgs),
    /// The rollout of a workload.
    #[command(subcommand)]
    Rollout(crate::reports::RolloutCommand),
    /// Copy the store of a running or stopped server into one file.
    Backup(BackupArgs),
    /// Make a data directory from a backup.
    Restore(RestoreArgs),
    /// Check a data directory from end to end.
    Fsck(DataDir),
    /// The container images of a node.
    Image(crate::image::ImageArgs),
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    Completion {
        /// bash, elvish, fish, powershell or zsh.
        shell: clap_complete::Shell,
    },
}

/// Options of `server`.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    #[command(flatten)]
    pub data: DataDir,
    /// Address and port of the API; port 0 takes any free port.
    #[arg(long, default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Kubeconfig that the administrator's entry is merged into [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Serve the API alone: no controllers, no scheduler (simulated nodes still run).
    #[arg(long)]
    pub no_controllers: bool,
    /// Run pods on this machine as well, as a node of this name [default name: the machine's].
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub node: Option<String>,
    /// The range of all pods' addresses; each node gets a /24 of it.
    #[arg(long, default_value = server::CLUSTER_CIDR, value_name = "CIDR", value_parser = cluster_cidr)]
    pub cluster_cidr: String,
    /// A further name or address of the server, for its certificate; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub tls_san: Vec<String>,
    /// Have this many nodes whose pods are played, not run (docs/simulated-nodes.md).
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub simulated_nodes: u64,
    /// Seconds after which lists and watches cannot go on from an old state any more.
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub compaction_interval: u64,
    /// Log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub node_args: NodeArgs,
}

/// Options of `agent`.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub data: DataDir,
    /// The server; needed the first time, and when it has moved.
    #[arg(long, value_name = "https://HOST:PORT", value_parser = server_address)]
    pub join: Option<http::Uri>,
    /// What 'setpoint token create' printed on the server; not needed once the machine has joined.
    #[arg(long, env = "SETPOINT_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// The pin of the server's authority, where the token does not carry it.
    #[arg(long, value_name = "sha256:HASH", alias = "discovery-token-ca-cert-hash")]
    pub ca_cert_hash: Option<String>,
    /// The name of the node [default: the machine's].
    #[arg(long, value_name = "NAME", default_value = "")]
    pub node_name: String,
    /// The node's address [default: the one from which it reaches the server].
    #[arg(long, value_name = "IP")]
    pub node_ip: Option<std::net::IpAddr>,
    /// Where the server asks for logs and streams; port 0 takes any free port.
    #[arg(long, default_value = "0.0.0.0:10250")]
    pub listen: SocketAddr,
    /// Log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub node_args: NodeArgs,
}

fn server_address(text: &str) -> Result<http::Uri, String> {
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    match text.parse::<http::Uri>() {
        Ok(uri) if uri.scheme_str() == Some("https") && uri.host().is_some() => Ok(uri),
        _ => Err(format!("{text:?} is not an address such as https://192.0.2.1:6443")),
    }
}

/// Options of `controllers`.
#[derive(Debug, clap::Args)]
pub struct ControllersArgs {
    /// The kubeconfig that says where the API server is and who one is there.
    #[arg(long, env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Act only while holding the Lease kube-system/setpoint-controllers: of several such processes one acts.
    #[arg(long)]
    pub leader_elect: bool,
    /// Each controller acts as its own service account in kube-system, which the kubeconfig's user must be allowed to.
    #[arg(long)]
    pub impersonate: bool,
    /// Which controllers run: '*' for all, NAME for one, -NAME for all but one.
    #[arg(long, default_value = "*", value_delimiter = ',', allow_hyphen_values = true, value_name = "NAMES")]
    pub controllers: Vec<String>,
    /// Run the scheduler too.
    #[arg(long)]
    pub scheduler: bool,
    /// Log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Options of `up`.
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// File or directory of manifests (YAML or JSON) to apply; may be given several times.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// What becomes of the containers when this command is stopped.
    #[arg(long, value_enum, default_value_t = OnExit::Keep)]
    pub on_exit: OnExit,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What becomes of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnExit {
    /// They go on running; the next start takes them over.
    Keep,
    /// What was applied is deleted first.
    Stop,
}

/// Where a server keeps its state.
#[derive(Debug, clap::Args)]
pub struct DataDir {
    /// Directory of keys and log [default: /var/lib/setpoint for root, else ~/.local/share/setpoint].
    #[arg(long, env = "SETPOINT_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Options of `backup`.
#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// The file to write; it must not exist.
    pub file: PathBuf,
    #[command(flatten)]
    pub data: DataDir,
}

/// Options of `restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The backup.
    pub file: PathBuf,
    #[command(flatten)]
    pub data: DataDir,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl DataDir {
    /// The directory, by option, environment or default.
    pub fn path(&self) -> PathBuf {
        if let Some(path) = &self.data_dir {
            return path.clone();
        }
        match std::env::var_os("HOME").map(PathBuf::from) {
            Some(home) if home != std::path::Path::new("/root") => home.join(".local/share/setpoint"),
            _ => PathBuf::from("/var/lib/setpoint"),
        }
    }
}

/// A range that at least one node fits into, and no more nodes than upstream allows.
fn cluster_cidr(text: &str) -> Result<String, String> {
    let refuse = || format!("{text:?} is not an IPv4 range such as {}, with a prefix of 8 to 24", server::CLUSTER_CIDR);
    let (network, prefix) = text.split_once('/').ok_or_else(refuse)?;
    let network: std::net::Ipv4Addr = network.parse().map_err(|_| refuse())?;
    let prefix: u32 = prefix.parse().ok().filter(|prefix| (8..=24).contains(prefix)).ok_or_else(refuse)?;
    let is_whole = u32::from(network) & (u32::MAX >> prefix) == 0;
    if is_whole { Ok(text.to_owned()) } else { Err(format!("{text:?} has bits beyond its prefix")) }
}

/// The kubeconfig, by option, environment or default.
pub fn kubeconfig(given: Option<&PathBuf>) -> Option<PathBuf> {
    let from_environment = || std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty()).map(PathBuf::from);
    let from_home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    given.cloned().or_else(from_environment).or_else(from_home)
}
