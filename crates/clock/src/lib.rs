//! The only place that asks the time, makes randomness and mints identities (law 2).
//!
//! Everything above takes a [`Clock`] and an [`Ids`]; the system's own stand here, simulated ones are
//! seeded and moved by hand.

mod ids;
mod wall;

pub use ids::{Ids, SeededIds, SystemIds};
pub use wall::{Clock, ManualClock, SystemClock};
