//! What the store bounds, and why at these figures.

/// Bounds of one store. The defaults are derived next to each constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest value together with its annex, in bytes.
    pub value_bytes_max: usize,
    /// Longest collection name plus item name, in bytes.
    pub key_bytes_max: usize,
    /// Most operations, and most preconditions, of one transaction.
    pub txn_ops_max: usize,
    /// Most bytes of one transaction: keys, values and annexes.
    pub txn_bytes_max: usize,
    /// Most transactions that wait for the medium.
    pub pending_txns_max: usize,
    /// Most bytes that wait for the medium.
    pub pending_bytes_max: usize,
    /// Most events kept for resuming watches and for reading old revisions.
    pub history_events_max: usize,
    /// Most bytes that the kept events alone hold in memory.
    pub history_bytes_max: usize,
    /// Most sparse roots kept inside the history.
    pub roots_max: usize,
    /// A mistake planted to see whether the tests find it.
    #[cfg(any(test, feature = "suite"))]
    pub mutant: Option<crate::Mutant>,
}

/// etcd's request limit, which every Kubernetes client already lives with.
pub const VALUE_BYTES_MAX: usize = 1_572_864;

/// A collection is at most group (253) and resource (63) with a separator, an item at most namespace (63) and
/// name (253) with a separator: 634, rounded up.
pub const KEY_BYTES_MAX: usize = 1024;

/// The API server writes one object at a time and batches deletions of a collection; etcd takes 128.
pub const TXN_OPS_MAX: usize = 1024;

/// Five of the largest values. A log frame holds at least one transaction, so this bounds the frame too.
pub const TXN_BYTES_MAX: usize = 8 << 20;

/// One flush takes about 2 ms and 64 clients wait at a time; 4,096 are a hundred such flushes, far beyond the
/// 600 requests that the API server lets in.
pub const PENDING_TXNS_MAX: usize = 4096;

/// What a slow disk (50 MB/s) writes in about a second; waiting longer is overload.
pub const PENDING_BYTES_MAX: usize = 64 << 20;

/// At 100 writes a second a quarter of an hour, three times the five minutes that etcd keeps for Kubernetes.
pub const HISTORY_EVENTS_MAX: usize = 100_000;

/// 16,000 superseded values of 2 KB: at ten rewrites a second, half an hour. The whole control plane is to fit
/// in 80 MB after load, so the past may take at most 32 of them.
pub const HISTORY_BYTES_MAX: usize = 32 << 20;

/// A root makes later inserts copy their path, about 2.4 KB each until every leaf has been copied once; at
/// 100,000 keys a whole copy of the paths is about 4 MB. Four roots cost 16 MB at the very worst and leave at
/// most an eighth of the history to fold on the way to any revision: 12,500 events, about 12 ms.
pub const ROOTS_MAX: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            value_bytes_max: VALUE_BYTES_MAX,
            key_bytes_max: KEY_BYTES_MAX,
            txn_ops_max: TXN_OPS_MAX,
            txn_bytes_max: TXN_BYTES_MAX,
            pending_txns_max: PENDING_TXNS_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
            history_events_max: HISTORY_EVENTS_MAX,
            history_bytes_max: HISTORY_BYTES_MAX,
            roots_max: ROOTS_MAX,
            #[cfg(any(test, feature = "suite"))]
            mutant: None,
        }
    }
}
