//! The group `apps`: workloads that keep running.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub(crate) mod percent;
pub mod replica_set;
pub mod stateful_set;
