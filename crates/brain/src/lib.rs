//! The words that brains share: what they are asked, what they answer, and the pure half of the loop that turns
//! answers into effects.
//!
//! A [`Brain`] decides on facts taken from a [`View`]; it never writes (law 5), asks no clock and cannot fail. The
//! [`Loop`] keeps the keys to look at: level-triggered, with backoff and wake-ups, and holds a key back until the
//! view has reached the key's own last write. Driver, planner and simulator are the same loop with other hands.

mod action;
mod brain;
mod call;
pub mod facts;
mod naming;
mod outcome;
mod queue;
mod refusal;

pub use action::{Action, Patch, Propagation, Resource, key};
pub use brain::{Brain, Controller, Def, Watch};
pub use call::{Call, Refused, Verdict, call, path_of, request_of, verdict};
pub use naming::{Siblings, child_base, child_name, fingerprint};
pub use outcome::{Effect, Note, Outcome, Severity, Turn, Wake};
pub use queue::{Loop, Performed};
pub use refusal::{Refusal, Refusals};
pub use view::{Meta, Object, OwnerRef, View};
