//! Tests of the engine as a whole.

mod crash;
mod durable;
mod files;
mod mutants;
mod suite;

use std::sync::Arc;

use bytes::Bytes;
use clock::SeededIds;
use store::suite::commit;
use store::{
    Ack, Collection, Committed, Event, Key, Keyspace, Limits, Listener, Op, ReadError, Revision, Snapshot, Store, Txn,
    TxnError,
};

use crate::vfs::{Medium, SimVfs, Vfs};
use crate::{Disk, Flushing, Options};

/// An engine that flushes whenever something is submitted.
pub struct ByHand(pub Disk);

impl Store for ByHand {
    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        self.0.snapshot_at(revision)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        self.0.submit(txn, ack);
        while self.0.flush() {}
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        self.0.events(collection, after, limit)
    }

    fn listen(&self, listener: Listener) {
        self.0.listen(listener);
    }

    fn compact(&self, through: Revision) {
        self.0.compact(through);
    }
}

pub fn by_hand() -> Options {
    Options { flushing: Flushing::ByHand, ids: Arc::new(SeededIds::new(1)), ..Options::default() }
}

pub fn open(vfs: &Arc<SimVfs>, options: &Options) -> ByHand {
    let vfs: Arc<dyn Vfs> = vfs.clone();
    ByHand(Disk::open_on(vfs, options.clone()).expect("it opens"))
}

pub fn sim() -> Arc<SimVfs> {
    Arc::new(SimVfs::new(Medium::default()))
}

pub fn put_in(keyspace: Keyspace, item: &str, value: &str) -> Txn {
    let (key, value) = (Key::new("c", item), Bytes::from(value.to_owned()));
    let put = Op::Put { key, value, annex: Bytes::new(), stamp_at: None, keyspace };
    Txn { preconditions: Vec::new(), ops: vec![put] }
}

pub fn put(store: &dyn Store, item: &str, value: &str) -> Result<Committed, TxnError> {
    commit(store, put_in(Keyspace::Durable, item, value))
}

pub fn tight() -> Limits {
    Limits { history_events_max: 8, ..Limits::default() }
}
