//! A revisioned store of bytes (law 3: it has never heard of a Pod).
//!
//! State is a persistent map from collection to item to [`Entry`]; every committed transaction makes one new
//! [`Revision`]. A [`Snapshot`] is an O(1) copy of the root. Engines differ only in durability: all of them
//! drive the same [`Core`], pass the same suite and are compared with the same reference model.

mod check;
mod entry;
mod heart;
mod history;
mod key;
mod limits;
mod mem;
#[cfg(any(test, feature = "suite"))]
pub mod model;
mod mutant;
mod pending;
mod replica;
mod snapshot;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
mod txn;

pub use entry::Entry;
pub use heart::{Core, Published};
pub use history::{Fold, Folded};
pub use key::{Collection, Key, Keyspace, Revision};
pub use limits::Limits;
pub use mem::Mem;
pub use mutant::Mutant;
pub use pending::{Pending, Record, Replayed};
pub use replica::{Copied, Copy, Replica};
pub use snapshot::{Difference, Items, Snapshot};
pub use txn::{Change, Committed, Event, Op, Precondition, Txn, TxnError};

/// Why a revision cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Older than the oldest kept revision.
    Compacted {
        /// The oldest revision that can still be read.
        oldest: Revision,
    },
    /// Newer than the newest committed revision.
    Future {
        /// The newest committed revision.
        newest: Revision,
    },
}

/// Called once, with the outcome, when the transaction is durable and visible or has been refused.
pub type Ack = Box<dyn FnOnce(Result<Committed, TxnError>) + Send>;

/// Called after new revisions become visible, with the collections that changed. Must not block. The revision is
/// visible by then, and possibly a newer one; with several writing threads calls may overlap or come out of order.
pub type Listener = Box<dyn Fn(Revision, &[Collection]) + Send + Sync>;

/// What every engine offers. No method blocks on the medium.
pub trait Store: Send + Sync {
    /// The newest visible state.
    fn snapshot(&self) -> Snapshot;

    /// The state at exactly `revision`.
    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError>;

    /// Hands in a transaction. `ack` is called once, possibly before this returns, possibly on another thread.
    /// What was acknowledged is visible to every later `snapshot`.
    fn submit(&self, txn: Txn, ack: Ack);

    /// Events of `collection` after `after`, oldest first, at most `limit`, and the revision up to which the
    /// answer is complete. Deliveries are gapless: resuming with the returned revision misses nothing. The events
    /// of one transaction are never separated, so `limit` is exceeded where one transaction alone exceeds it.
    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError>;

    /// Registers a listener for newly visible revisions, for the life of the store.
    fn listen(&self, listener: Listener);

    /// Forgets history up to and including `through`: older revisions can then no longer be read or resumed. The
    /// state at `through` itself stays readable, and no living item is touched.
    fn compact(&self, through: Revision);
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn snapshot(&self) -> Snapshot {
        (**self).snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        (**self).snapshot_at(revision)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        (**self).submit(txn, ack);
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        (**self).events(collection, after, limit)
    }

    fn listen(&self, listener: Listener) {
        (**self).listen(listener);
    }

    fn compact(&self, through: Revision) {
        (**self).compact(through);
    }
}
