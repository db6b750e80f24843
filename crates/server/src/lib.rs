//! Assembles one process from its roles: the store, the API, the controllers, a node.

mod agent;
mod bootstrap;
mod certificates;
mod compaction;
mod config;
mod control;
mod error;
mod identity;
mod node_role;
mod pod_network;
mod remote;
mod roles;
mod selection;
mod simulated;
mod tls;

pub use self::agent::{AgentConfig, JoinError, JoinToken, run_agent};
pub use ::agent::pressure::Policy;
pub use apiserver::CONNECTIONS_MAX;
pub use config::{CLUSTER_CIDR, Config};
pub use control::ask_backup;
pub use error::StartError;
pub use node::{ImageLimits, Upkeep};
pub use node_role::{NodeRole, PODS_MAX, registries};
pub use remote::{ControllersConfig, run_controllers};
pub use roles::{Started, run, run_by};
pub use selection::Selection;
