//! The one loop that turns brains into effects: view, turn, API, queue. Written once, for every controller.
//!
//! The pure half (which keys, when, what) is in the crate `brain`; here are the hands: requests through a transport,
//! events from notes, panics contained to a key.

mod events;
mod perform;
mod run;

pub use perform::{Hands, Refused};
pub use run::{Driver, DriverConfig, run};
