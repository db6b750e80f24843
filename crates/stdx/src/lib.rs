//! Small extensions of `std` that every floor may use. No policy lives here.

mod chain;
mod time;

pub use chain::chain;
pub use time::Time;
