//! The whole control plane in one thread of virtual time: the real store, the real verbs, every controller, the
//! scheduler, simulated nodes, users, and a nemesis; judged by oracles that share no code with what they judge.
//!
//! A seed makes a [`plan::Plan`], an explicit list of what users do and what goes wrong and when. [`run`] plays it: a
//! chaos phase, then a quiet one in which everything must come to be as it should, stay so and fall silent. The same
//! plan gives the same transcript. A plan that fails is shrunk to the entries that matter, and kept.

mod campaign;
mod cast;
mod coverage;
mod dice;
mod generate;
pub mod mutant;
mod oracle;
pub mod plan;
mod report;
mod room;
mod server;
mod shrink;
mod weather;
mod world;

pub use campaign::{Campaign, Caught, Failure, Figures, hunt, search};
pub use coverage::never;
pub use generate::generate;
pub use report::{Report, Violation};
pub use shrink::{shrink, shrink_within};
pub use world::{How2Run, run};

/// Every built-in controller for which no rule says when it has converged: what a campaign does not measure.
pub fn unmeasured() -> Vec<&'static str> {
    let names: Vec<&'static str> = controllers::all().iter().map(|controller| controller.def.name).collect();
    oracle::unjudged(&names)
}

/// The controllers that take part, by the names that plans use.
pub fn rooms() -> Vec<String> {
    let controllers = cast::everybody(None).into_iter().filter(|room| room.part != room::Part::Node);
    controllers.map(|room| room.name).collect()
}
