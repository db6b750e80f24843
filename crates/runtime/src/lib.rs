//! The embedded container runtime: pod sandboxes and their containers.
//!
//! It implements `contract::ContainerRuntime`. Every sandbox is run by one small process, the shim, which is this
//! same binary started again with a hidden command: containers outlive the server, and the next
//! [`Runtime::open`] finds them all.

mod cgroup;
pub mod cni;
mod host;
mod init;
mod net;
mod record;
pub mod shim;
mod sys;

pub use cni::{Installed, install, other_network};
pub use host::{Config, Runtime, ShimCommand};
pub use net::{BRIDGE_PREFIX, NetworkConfig, RouteFailure, remove_bridge, set_routes};
pub use sys::{register, register_urgent};
