//! Filter, score, bind.
//!
//! [`Cache`] knows the cluster and follows events; [`decide`] finds a node for one pod and otherwise says why there
//! is none, per class of node with numbers; [`Scheduler`] keeps the queue and turns verdicts into effects. The cost
//! of a decision follows from what the pod asks and from how many nodes are looked at, not from how many pods there
//! are: everything about other pods is counted when they come and go.

mod ask;
#[cfg(any(test, feature = "testing"))]
pub mod bench;
mod budgets;
mod cache;
mod counts;
mod decide;
#[cfg(any(test, feature = "testing"))]
pub mod differential;
mod effects;
mod filter;
mod held;
mod images;
mod node_info;
mod owners;
mod preempt;
mod queue;
mod reason;
mod same;
mod scheduler;
mod score;
mod slab;
mod statics;
mod tally;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod topology;
mod verify;
mod volumes;

pub use ask::{Ask, SCHEDULER_NAME};
pub use cache::{Cache, Happened};
pub use decide::{Diagnosis, Verdict, decide};
pub use queue::Queue;
pub use reason::{Plugin, Plugins, Reason};
pub use scheduler::{Decision, Scheduler};
pub use volumes::Prepare;
