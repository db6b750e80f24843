//! How a store on a medium is run.

use std::sync::Arc;

use clock::{Ids, SystemIds};
use store::Limits;

/// Who performs the group commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushing {
    /// A thread of the store's own; another writes checkpoints.
    Thread,
    /// Whoever calls [`crate::Disk::flush`]: for simulation on one thread.
    ByHand,
}

/// Told once, when the medium has failed and the store has stopped; the process should end and start anew.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// How a store on a medium is run.
#[derive(Clone)]
pub struct Options {
    /// Bounds of the store.
    pub limits: Limits,
    /// A segment is ended once it is longer. 64 MiB are about a second of the fastest writing, and what a start
    /// reads at once.
    pub segment_bytes: u64,
    /// A checkpoint is written once it frees this many bytes of the log, and half as many as the state has: so
    /// the medium writes at most three bytes for each byte of log.
    pub checkpoint_bytes: u64,
    /// How many revisions are reserved for volatile writes at a time, with one write to the medium. A small
    /// cluster renews its leases once a second: a million last twelve days. A crash skips at most as many
    /// revisions, of which there are 2^64.
    pub reserve_revisions: u64,
    /// After how many durable transactions the state's hash goes into the log.
    pub sum_every: u64,
    /// Who performs the group commits.
    pub flushing: Flushing,
    /// Source of the log's identity.
    pub ids: Arc<dyn Ids>,
    /// Told when the store has stopped for good.
    pub on_fatal: Option<OnFatal>,
    /// A fault planted to see whether the tests find it.
    #[cfg(any(test, feature = "testing"))]
    pub mutant: Option<Mutant>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: Limits::default(),
            segment_bytes: 64 << 20,
            checkpoint_bytes: 64 << 20,
            reserve_revisions: 1 << 20,
            sum_every: 1024,
            flushing: Flushing::Thread,
            ids: Arc::new(SystemIds),
            on_fatal: None,
            #[cfg(any(test, feature = "testing"))]
            mutant: None,
        }
    }
}

/// Historic mistakes of stores, which the suite and the crash enumerator must notice; those that are not about the
/// medium are [`store::Mutant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Acknowledges what was written but not synced.
    SkipSync,
    /// Does not sync the directory.
    SkipDirSync,
    /// Acknowledges, then writes and syncs.
    AckBeforeSync,
    /// Tries a failed sync again and believes the second answer.
    RetrySync,
    /// Leaves what a failed sync did not write for the next process to read, which believes it.
    KeepUnsynced,
    /// Leaves the length out of a frame's checksum.
    LengthUnchecked,
    /// Checkpoints a state whose log is not yet synced.
    CheckpointBeforeSync,
    /// Gives a checkpoint its name before its content is synced.
    CheckpointUnsynced,
    /// Forgets in a checkpoint which revisions may have been handed out: after a crash they go back (etcd 17780).
    CheckpointReserve,
    /// Does not go on behind the revisions that may have been handed out before a crash.
    ForgetReserve,
    /// Says that the log goes on in the next segment before that one is durable.
    RollEarly,
    /// Believes that a sync at the start covers what an earlier process wrote, although that one's sync has failed.
    TrustCache,
}

impl Options {
    /// Whether this fault is planted; never, outside tests.
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        #[cfg(any(test, feature = "testing"))]
        return self.mutant == Some(mutant);
        #[cfg(not(any(test, feature = "testing")))]
        {
            let _ = mutant;
            false
        }
    }

    pub(crate) fn header_crc(&self) -> crate::frame::HeaderCrc {
        #[cfg(any(test, feature = "testing"))]
        if self.has(Mutant::LengthUnchecked) {
            return crate::frame::HeaderCrc::WithoutLength;
        }
        crate::frame::HeaderCrc::Whole
    }
}
