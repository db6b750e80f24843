//! The durable engine of the store: one log, group commit, verified checkpoints, on a directory of plain files.
//!
//! An acknowledged write survives `kill -9` and power loss. A torn tail, which was never acknowledged, is dropped;
//! damage anywhere else stops the start with an error that says where, and how to restore. The layout, the
//! invariants and what is assumed of the medium stand in `docs/design/storage.md`.

mod backup;
mod batch;
pub mod bench;
mod checkpoint;
#[cfg(any(test, feature = "testing"))]
pub mod crash;
mod disk;
mod engine;
mod error;
mod frame;
mod fsck;
mod log;
mod options;
mod record;
mod recover;
mod sum;
#[cfg(test)]
mod tests;
pub mod vfs;

pub use backup::{BackupInfo, RESTORE_SKIPS, inspect, restore};
pub use disk::Disk;
pub use error::{BackupError, Damage, OpenError};
pub use fsck::{Report, fsck, fsck_on};
pub use options::{Flushing, Mutant, OnFatal, Options};
pub use recover::TornTail;
