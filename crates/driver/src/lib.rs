//! The one loop that turns brains into effects: view, turn, API, queue. Written once, for every controller.
//!
//! The pure half (which keys, when, what) is in the crate `brain`; here are the hands: requests through a transport,
//! events from notes, panics contained to a key.

pub mod events;
pub mod lease;
mod perform;
pub mod remote;
mod run;
mod schedule;
mod source;

pub use brain::{Call, Refused, Verdict, request_of, verdict};
pub use perform::Hands;
pub use run::{Driver, DriverConfig, run};
pub use schedule::{SchedulerConfig, run_scheduler};
pub use source::{Source, Write};
