//! Small extensions of `std` that every floor may use. No policy lives here.

mod time;

pub use time::Time;
