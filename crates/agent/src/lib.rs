//! What a node does next for itself and for its pods, decided purely. Simulated nodes stand here: a whole cluster
//! in a second, for operator developers, CI, plans and the simulator.

mod simulated_node;
mod simulated_pod;

use brain::Controller;

pub use simulated_node::{SIMULATED, node_object};

/// The brains that play simulated nodes.
pub fn simulated() -> Vec<Controller> {
    vec![Controller::of::<simulated_node::SimulatedNode>(), Controller::of::<simulated_pod::SimulatedPod>()]
}
