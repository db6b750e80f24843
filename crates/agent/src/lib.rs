//! What a node does next for itself and for its pods, decided purely: [`pod::turn`] for real nodes, and what their
//! containers are told and given. Simulated nodes stand here too: a whole cluster in a second, for operator
//! developers, CI, plans and the simulator.

pub mod downward;
pub mod env;
pub mod expand;
pub mod figures;
pub mod fit;
pub mod images;
pub mod material;
pub mod mirror;
pub mod payload;
pub mod pod;
pub mod pressure;
pub mod resize;
pub mod service_env;
mod simulated_node;
mod simulated_pod;
mod simulated_program;
mod simulated_status;
pub mod static_pod;

use brain::Controller;

pub use simulated_node::{SIMULATED, node_object};
pub use simulated_pod::log as simulated_log;

/// The brains that play simulated nodes.
pub fn simulated() -> Vec<Controller> {
    vec![Controller::of::<simulated_node::SimulatedNode>(), Controller::of::<simulated_pod::SimulatedPod>()]
}

/// The brain that plays the pods of every node: the hands of a plan.
pub fn played() -> Controller {
    Controller::of::<simulated_pod::Played<true>>()
}
