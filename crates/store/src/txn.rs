//! Transactions and what comes of them.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Entry, Key, Keyspace, Revision};

/// What must hold for a transaction to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// There is no such item.
    Absent(Key),
    /// The item's last write is exactly this revision.
    ModifiedAt(Key, Revision),
    /// No item in the collection whose name starts with `prefix` was written or removed after `revision`
    /// (what was read there still holds). Fails when history is compacted past `revision`.
    UnchangedSince {
        /// Collection and name prefix.
        prefix: Key,
        /// The revision that was read.
        revision: Revision,
    },
}

/// One change.
#[derive(Clone, Debug)]
pub enum Op {
    /// Makes or replaces an item.
    Put {
        /// Which item.
        key: Key,
        /// The new value.
        value: Bytes,
        /// Opaque companion, see [`Entry::annex`].
        annex: Bytes,
        /// Where in `value` the store inserts the transaction's revision, in decimal, when it commits.
        stamp_at: Option<u32>,
        /// Whether the write must survive a restart.
        keyspace: Keyspace,
    },
    /// Removes an item; an absent one is no error.
    Delete {
        /// Which item.
        key: Key,
        /// The item's last value as watchers see it, in place of the stored one (with `stamp_at` as for Put).
        last: Option<(Bytes, Option<u32>)>,
    },
}

/// All or nothing.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// All must hold.
    pub preconditions: Vec<Precondition>,
    /// Applied together, at one revision. A key occurs at most once. A transaction that changes nothing (no
    /// ops, or deletions of absent items only) makes no new revision.
    pub ops: Vec<Op>,
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Its revision; of a transaction that changed nothing, the newest revision before it.
    pub revision: Revision,
    /// One per op, in order: the entry written, or `None` for a delete.
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnError {
    /// A precondition does not hold; nothing was changed.
    Failed(Precondition),
    /// The transaction breaks a limit or names a key twice; nothing was changed, and trying again is useless.
    Invalid(String),
    /// The store takes no more writes (shutting down, or the medium failed); whether this transaction will be
    /// found after the next start is unknown.
    Stopped(String),
    /// The queue of unsynced writes is full; nothing was changed.
    Overloaded,
}

/// What happened to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It came into being.
    Created,
    /// It was written again.
    Modified,
    /// It was removed.
    Deleted,
}

/// One change, as watchers get it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The transaction's revision.
    pub revision: Revision,
    /// Which item.
    pub key: Key,
    /// What happened.
    pub change: Change,
    /// The entry after the change; for a deletion the last value, as of this revision.
    pub entry: Arc<Entry>,
    /// The entry before the change.
    pub previous: Option<Arc<Entry>>,
}
