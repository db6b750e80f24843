//! What submitters and the flusher share: the heart, and the batches that wait for the medium.

use std::collections::{BTreeSet, VecDeque};

use store::{Ack, Collection, Committed, Core, Pending, Published, Revision, Txn, TxnError};

use crate::frame::FRAME_HEADER;
use crate::options::Options;
use crate::record;
use crate::sum::StateSum;

/// A batch is closed once it has this many bytes: a frame is read and checked as a whole, and the first writers of
/// a long queue should not wait for the last.
const BATCH_BYTES: usize = 4 << 20;

/// Transactions that are written, synced and acknowledged together.
pub(crate) struct Batch {
    /// Room for the frame's header, then records.
    pub frame: Vec<u8>,
    /// Its last logged revision.
    pub logged: Revision,
    /// Everything up to here becomes visible with it.
    pub through: Revision,
    pub acks: Vec<(Result<Committed, TxnError>, Ack)>,
}

impl Batch {
    fn new() -> Batch {
        let (logged, through) = (Revision(0), Revision(0));
        Batch { frame: vec![0; FRAME_HEADER], logged, through, acks: Vec::new() }
    }

    pub fn has_records(&self) -> bool {
        self.frame.len() > FRAME_HEADER
    }
}

/// What submitters and the flusher share.
pub(crate) struct State {
    pub core: Core,
    pub batches: VecDeque<Batch>,
    /// The sum over the durable items, as of the pending head.
    pub sum: StateSum,
    pub txns_since_sum: u64,
    /// The last revision put into a batch's records.
    pub logged: Revision,
    pub reserved: u64,
    pub volatile: BTreeSet<Collection>,
    /// Why nothing is taken any more.
    pub stopped: Option<String>,
    /// Whether a checkpoint is wanted.
    pub checkpoint_due: bool,
}

/// What is to be told at once: nothing that has to wait.
pub(crate) struct Told {
    /// Whom.
    pub ack: Ack,
    /// What.
    pub outcome: Result<Committed, TxnError>,
    /// And the listeners.
    pub published: Option<Published>,
}

impl State {
    /// Takes a transaction: into a batch, or, where nothing has to be made durable and nothing waits, to be told
    /// at once.
    pub fn take(&mut self, txn: Txn, ack: Ack, options: &Options) -> Option<Told> {
        let refused = |ack, error| Some(Told { ack, outcome: Err(error), published: None });
        if let Some(why) = &self.stopped {
            return refused(ack, TxnError::Stopped(why.clone()));
        }
        let pending = match self.core.apply(txn) {
            Ok(pending) => pending,
            Err(error @ TxnError::Failed(_)) => return self.refuse(error, ack, options),
            Err(error) => return refused(ack, error),
        };
        let alone = self.batches.is_empty() && self.core.waiting() == usize::from(!pending.events().is_empty());
        let mut batch = self.open_batch();
        let logged = self.encode(&mut batch, &pending, options);
        if alone && !logged {
            let published = self.core.publish(pending.revision());
            return Some(Told { ack, outcome: Ok(pending.committed), published: Some(published) });
        }
        batch.through = batch.through.max(pending.revision());
        batch.acks.push((Ok(pending.committed), ack));
        self.batches.push_back(batch);
        None
    }

    /// What failed may have failed on what is not visible yet: it is told when that is, or whoever reads after the answer
    /// would not find the reason for it, and would fail again.
    fn refuse(&mut self, error: TxnError, ack: Ack, options: &Options) -> Option<Told> {
        let mut batch = self.open_batch();
        let waits = self.core.waiting() > 0 && batch.acks.len() < options.limits.pending_txns_max;
        if !waits {
            if !batch.acks.is_empty() {
                self.batches.push_back(batch);
            }
            return Some(Told { ack, outcome: Err(error), published: None });
        }
        batch.through = self.core.head();
        batch.acks.push((Err(error), ack));
        self.batches.push_back(batch);
        None
    }

    /// The batch that still takes transactions, off the queue.
    fn open_batch(&mut self) -> Batch {
        match self.batches.pop_back() {
            Some(full) if full.frame.len() >= BATCH_BYTES => {
                self.batches.push_back(full);
                Batch::new()
            }
            Some(open) => open,
            None => Batch::new(),
        }
    }

    /// Writes what must be durable into the batch. True if there was anything.
    fn encode(&mut self, batch: &mut Batch, pending: &Pending, options: &Options) -> bool {
        let marks: BTreeSet<Collection> =
            pending.volatile_collections().filter(|name| !self.volatile.contains(*name)).cloned().collect();
        let revision = pending.revision();
        let reserve = revision.0 > self.reserved && pending.volatile_collections().next().is_some();
        if reserve {
            self.reserved = revision.0.saturating_add(options.reserve_revisions);
            record::put_reserve(&mut batch.frame, self.reserved);
        }
        marks.iter().for_each(|mark| record::put_volatile(&mut batch.frame, mark));
        let has_records = record::put_txn(&mut batch.frame, revision, pending.records());
        if has_records {
            self.logged = revision;
            if let Some(hash) = self.sum_due(pending, options) {
                record::put_state_sum(&mut batch.frame, hash);
            }
        }
        batch.logged = self.logged;
        let wrote = has_records || reserve || !marks.is_empty();
        self.volatile.extend(marks);
        wrote
    }

    /// Follows the transaction with the state's sum; gives it if it is time to log it.
    fn sum_due(&mut self, pending: &Pending, options: &Options) -> Option<u64> {
        pending.events().iter().for_each(|event| self.sum.follow(event));
        self.txns_since_sum += 1;
        if self.txns_since_sum < options.sum_every {
            return None;
        }
        self.txns_since_sum = 0;
        Some(self.sum.hash)
    }
}
