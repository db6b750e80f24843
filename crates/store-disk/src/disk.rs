//! The durable engine: the heart, a log, and the thread between them.
//!
//! A transaction is applied to the pending head and encoded into the open batch under one lock; the flusher
//! writes the oldest batch as one frame, syncs it, makes it visible and only then acknowledges. While it syncs,
//! the next batch fills. An error of the medium stops everything for good: nothing is ever tried again, because
//! after a failed sync nobody knows what is on the medium.

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use store::{Ack, Collection, Event, Listener, ReadError, Revision, Snapshot, Store, Txn, TxnError};

use crate::batch::Told;
use crate::checkpoint::StateHeader;
use crate::engine::{self, CLOSED, Engine, guard};
use crate::error::OpenError;
use crate::options::{Flushing, Options};
use crate::recover::{TornTail, recover};
use crate::vfs::{RealVfs, Vfs};

/// Names have 16-bit lengths in the log.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Values and frames have 32-bit lengths in the log; this leaves room for a batch around the transaction.
const TXN_BYTES_MAX: usize = 1 << 30;

/// A durable store in one directory.
pub struct Disk {
    engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    torn: Option<TornTail>,
    lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl Disk {
    /// Opens the store in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// When the directory is in use, cannot be used, or is damaged.
    pub fn open(path: &Path, options: Options) -> Result<Disk, OpenError> {
        let vfs = RealVfs::open(path).map_err(|source| OpenError::Io {
            attempt: "open the directory".into(),
            directory: path.display().to_string(),
            source,
        })?;
        Disk::open_on(Arc::new(vfs), options)
    }

    /// Opens the store in a directory of any kind.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    pub fn open_on(vfs: Arc<dyn Vfs>, mut options: Options) -> Result<Disk, OpenError> {
        options.limits.key_bytes_max = options.limits.key_bytes_max.min(KEY_BYTES_MAX);
        options.limits.txn_bytes_max = options.limits.txn_bytes_max.min(TXN_BYTES_MAX);
        let lock = lock(&*vfs)?;
        let found = recover(&*vfs, options.limits, options.header_crc())?;
        let torn = found.torn.clone();
        let engine = engine::resume(vfs.clone(), options, found).map_err(|source| OpenError::Io {
            attempt: "go on with the log".into(),
            directory: vfs.describe(),
            source,
        })?;
        let threads = Mutex::new(start_threads(&engine, &*vfs)?);
        Ok(Disk { engine, threads, torn, lock: Mutex::new(Some(lock)) })
    }

    /// What the last crash left at the end of the log, if anything: it was never acknowledged and is dropped.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Writes, syncs, shows and acknowledges the oldest waiting batch, on this thread. False if none waits.
    pub fn flush(&self) -> bool {
        self.engine.flush()
    }

    /// Writes a checkpoint of the oldest state whose history is kept and drops the log before it.
    ///
    /// # Errors
    /// When the medium fails; the store has then stopped.
    pub fn checkpoint(&self) -> Result<(), TxnError> {
        self.engine.checkpoint()
    }

    /// Whether a checkpoint would now free enough of the log. Only a store that flushes by hand leaves this to its
    /// owner.
    pub fn is_checkpoint_due(&self) -> bool {
        guard(&self.engine.state).checkpoint_due
    }

    /// Finishes what waits, says in the log that nothing is torn, and lets the directory go. Later submissions
    /// are refused; reads still work.
    ///
    /// # Errors
    /// When the store had stopped before, or the medium fails now.
    pub fn close(&self) -> Result<(), TxnError> {
        let earlier = self.engine.begin_close();
        self.join();
        while self.engine.flush() {}
        let outcome = match earlier {
            None => self.engine.finish_close(),
            Some(why) if why == CLOSED => Ok(()),
            Some(why) => Err(TxnError::Stopped(why)),
        };
        // A checkpoint that somebody else began must not go on after the directory is let go.
        let _no_checkpoint = guard(&self.engine.checkpointing);
        *guard(&self.lock) = None;
        outcome
    }

    /// Whether the medium failed or the store was closed.
    pub fn has_stopped(&self) -> bool {
        guard(&self.engine.state).stopped.is_some()
    }

    fn join(&self) {
        let threads: Vec<JoinHandle<()>> = guard(&self.threads).drain(..).collect();
        // The last owner may let go in a callback, on the store's own thread, which then ends by itself.
        let current = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != current) {
            let _ = thread.join();
        }
    }

    /// Leaves everything as a killed process would: for tests of recovery.
    #[cfg(any(test, feature = "testing"))]
    pub fn abandon(self) {
        {
            let mut state = guard(&self.engine.state);
            state.stopped = Some("abandoned".into());
            state.batches.clear();
        }
        self.engine.wake_all();
        self.join();
        *guard(&self.lock) = None;
    }

    /// The newest state and what a state file says of it.
    pub(crate) fn newest(&self) -> (Snapshot, Vec<Collection>, StateHeader) {
        let log = guard(&self.engine.log);
        let state = guard(&self.engine.state);
        let snapshot = state.core.snapshot();
        let header = StateHeader {
            id: log.id(),
            revision: snapshot.revision(),
            reserved: state.reserved,
            first_segment: log.first_segment(snapshot.revision()),
            logged: log.revision().0,
        };
        (snapshot, state.volatile.iter().cloned().collect(), header)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked calls `close`.
        let _ = self.close();
    }
}

fn lock(vfs: &dyn Vfs) -> Result<Box<dyn Any + Send + Sync>, OpenError> {
    vfs.lock().map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { directory: vfs.describe() },
        _ => OpenError::Io { attempt: "lock the directory".into(), directory: vfs.describe(), source },
    })
}

fn start_threads(engine: &Arc<Engine>, vfs: &dyn Vfs) -> Result<Vec<JoinHandle<()>>, OpenError> {
    if engine.options.flushing == Flushing::ByHand {
        return Ok(Vec::new());
    }
    let start = |name: &str, run: fn(&Engine)| {
        let engine = engine.clone();
        std::thread::Builder::new().name(name.into()).spawn(move || run(&engine)).map_err(|source| OpenError::Io {
            attempt: format!("start the thread {name}"),
            directory: vfs.describe(),
            source,
        })
    };
    Ok(vec![start("store-flush", Engine::run_flusher)?, start("store-checkpoint", Engine::run_checkpointer)?])
}

impl Store for Disk {
    fn snapshot(&self) -> Snapshot {
        guard(&self.engine.state).core.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let way = guard(&self.engine.state).core.way_to(revision)?;
        let (snapshot, folded) = way.run_kept();
        guard(&self.engine.state).core.keep(folded);
        Ok(snapshot)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        let told = guard(&self.engine.state).take(txn, ack, &self.engine.options);
        let Some(Told { ack, outcome, published }) = told else {
            self.engine.work.notify_one();
            return;
        };
        ack(outcome);
        if let Some(published) = published {
            self.engine.tell(&published);
        }
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        guard(&self.engine.state).core.events(collection, after, limit)
    }

    fn listen(&self, listener: Listener) {
        guard(&self.engine.listeners).push(Arc::new(listener));
    }

    fn compact(&self, through: Revision) {
        guard(&self.engine.state).core.compact(through);
    }
}
