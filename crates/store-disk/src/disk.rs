//! The durable engine: the heart, a log, and the thread between them.
//!
//! A transaction is applied to the pending head and encoded into the open batch under one lock; the flusher
//! writes the oldest batch as one frame, syncs it, makes it visible and only then acknowledges. While it syncs,
//! the next batch fills. An error of the medium stops everything for good: nothing is ever tried again, because
//! after a failed sync nobody knows what is on the medium.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use store::{
    Ack, Collection, Committed, Core, Event, Listener, Pending, Published, ReadError, Revision, Snapshot, Store, Txn,
    TxnError,
};

use crate::checkpoint::{self, StateFault, StateHeader, state_name};
use crate::error::OpenError;
use crate::frame::{FRAME_HEADER, segment_name};
use crate::log::{Log, LogEnd};
use crate::options::{Flushing, Mutant, OnFatal, Options};
use crate::record;
use crate::recover::{Recovered, TornTail, recover};
use crate::sum::{LogId, StateSum};
use crate::vfs::{RealVfs, Vfs};

/// A batch is closed once it has this many bytes: a frame is read and checked as a whole, and the first writers of
/// a long queue should not wait for the last.
const BATCH_BYTES: usize = 4 << 20;

/// Names have 16-bit lengths in the log.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Transactions that are written, synced and acknowledged together.
struct Batch {
    /// Room for the frame's header, then records.
    frame: Vec<u8>,
    /// Its last logged revision.
    logged: Revision,
    /// Everything up to here becomes visible with it.
    through: Revision,
    acks: Vec<(Committed, Ack)>,
}

impl Batch {
    fn new() -> Batch {
        let (logged, through) = (Revision(0), Revision(0));
        Batch { frame: vec![0; FRAME_HEADER], logged, through, acks: Vec::new() }
    }

    fn has_records(&self) -> bool {
        self.frame.len() > FRAME_HEADER
    }
}

/// What submitters and the flusher share.
struct State {
    core: Core,
    batches: VecDeque<Batch>,
    /// The sum over the durable items, as of the pending head.
    sum: StateSum,
    txns_since_sum: u64,
    /// The last revision put into a batch's records.
    logged: Revision,
    reserved: u64,
    volatile: BTreeSet<Collection>,
    /// Why nothing is taken any more.
    stopped: Option<String>,
    /// Whether a checkpoint is wanted.
    checkpoint_due: bool,
}

struct Shared {
    vfs: Arc<dyn Vfs>,
    options: Options,
    state: Mutex<State>,
    log: Mutex<Log>,
    /// Held while a checkpoint is written: one at a time.
    checkpointing: Mutex<()>,
    listeners: Mutex<Vec<Arc<Listener>>>,
    on_fatal: Mutex<Option<OnFatal>>,
    work: Condvar,
    checkpoint_work: Condvar,
}

/// A durable store in one directory.
pub struct Disk {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    torn: Option<TornTail>,
    lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked did so in a callback or by a bug that has already been reported; the data stays whole
    // because it is changed only by calls that finish.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        options.limits.value_bytes_max = options.limits.value_bytes_max.min(u32::MAX as usize / 4);
        let lock = lock(&*vfs)?;
        let found = recover(&*vfs, options.limits, options.header_crc())?;
        let torn = found.torn.clone();
        let shared = resume(vfs.clone(), options, found).map_err(|source| OpenError::Io {
            attempt: "go on with the log".into(),
            directory: vfs.describe(),
            source,
        })?;
        let threads = Mutex::new(start_threads(&shared, &*vfs)?);
        Ok(Disk { shared, threads, torn, lock: Mutex::new(Some(lock)) })
    }

    /// What the last crash left at the end of the log, if anything: it was never acknowledged and is dropped.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Writes, syncs, shows and acknowledges the oldest waiting batch, on this thread. False if none waits.
    pub fn flush(&self) -> bool {
        self.shared.flush()
    }

    /// Writes a checkpoint of the oldest state whose history is kept and drops the log before it.
    ///
    /// # Errors
    /// When the medium fails; the store has then stopped.
    pub fn checkpoint(&self) -> Result<(), TxnError> {
        self.shared.checkpoint()
    }

    /// Finishes what waits, says in the log that nothing is torn, and lets the directory go. Later submissions
    /// are refused; reads still work.
    ///
    /// # Errors
    /// When the store had stopped before, or the medium fails now.
    pub fn close(&self) -> Result<(), TxnError> {
        let earlier = self.shared.begin_close();
        self.join();
        while self.shared.flush() {}
        let outcome = match earlier {
            None => self.shared.finish_close(),
            Some(why) if why == CLOSED => Ok(()),
            Some(why) => Err(TxnError::Stopped(why)),
        };
        *guard(&self.lock) = None;
        outcome
    }

    /// Whether the medium failed or the store was closed.
    pub fn has_stopped(&self) -> bool {
        guard(&self.shared.state).stopped.is_some()
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
        guard(&self.shared.state).stopped = Some("abandoned".into());
        self.shared.wake_all();
        self.join();
        *guard(&self.lock) = None;
    }

    /// The newest state and what a state file says of it.
    pub(crate) fn newest(&self) -> (Snapshot, Vec<Collection>, StateHeader) {
        let log = guard(&self.shared.log);
        let state = guard(&self.shared.state);
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

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write the log: {error}")
}

const CLOSED: &str = "the store is closed";

fn lock(vfs: &dyn Vfs) -> Result<Box<dyn Any + Send + Sync>, OpenError> {
    vfs.lock().map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { directory: vfs.describe() },
        _ => OpenError::Io { attempt: "lock the directory".into(), directory: vfs.describe(), source },
    })
}

/// Begins the new life: repairs what the crash left, then takes the log up where it ends.
fn resume(vfs: Arc<dyn Vfs>, options: Options, found: Recovered) -> io::Result<Arc<Shared>> {
    let Recovered { mut core, sum, mut reserved, volatile, segments, id, chain, logged, leftovers, .. } = found;
    for name in &leftovers {
        vfs.remove(name)?;
    }
    let log = if segments.is_empty() {
        let mut bytes = [0; 16];
        options.ids.fill(&mut bytes);
        Log::begin(vfs.clone(), options.clone(), LogId(bytes), core.revision())?
    } else {
        Log::resume(vfs.clone(), options.clone(), LogEnd { id, chain, revision: logged, segments })?
    };
    core.begin_life(Revision(reserved), volatile.iter().cloned());
    reserved = reserved.max(core.revision().0);
    let state = State {
        logged: log.revision(),
        core,
        batches: VecDeque::new(),
        sum,
        txns_since_sum: 0,
        reserved,
        volatile,
        stopped: None,
        checkpoint_due: false,
    };
    Ok(Arc::new(Shared {
        on_fatal: Mutex::new(options.on_fatal.clone()),
        vfs,
        options,
        state: Mutex::new(state),
        log: Mutex::new(log),
        checkpointing: Mutex::new(()),
        listeners: Mutex::default(),
        work: Condvar::new(),
        checkpoint_work: Condvar::new(),
    }))
}

fn start_threads(shared: &Arc<Shared>, vfs: &dyn Vfs) -> Result<Vec<JoinHandle<()>>, OpenError> {
    if shared.options.flushing == Flushing::ByHand {
        return Ok(Vec::new());
    }
    let start = |name: &str, run: fn(&Shared)| {
        let shared = shared.clone();
        std::thread::Builder::new().name(name.into()).spawn(move || run(&shared)).map_err(|source| OpenError::Io {
            attempt: format!("start the thread {name}"),
            directory: vfs.describe(),
            source,
        })
    };
    Ok(vec![start("store-flush", Shared::run_flusher)?, start("store-checkpoint", Shared::run_checkpointer)?])
}

impl Shared {
    fn wake_all(&self) {
        self.work.notify_all();
        self.checkpoint_work.notify_all();
    }

    fn run_flusher(&self) {
        loop {
            let mut state = guard(&self.state);
            while state.batches.is_empty() && state.stopped.is_none() {
                state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.batches.is_empty() {
                return;
            }
            drop(state);
            self.flush();
        }
    }

    fn run_checkpointer(&self) {
        loop {
            let mut state = guard(&self.state);
            while !state.checkpoint_due && state.stopped.is_none() {
                state = self.checkpoint_work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.stopped.is_some() {
                return;
            }
            drop(state);
            let _ = self.checkpoint();
            guard(&self.state).checkpoint_due = false;
        }
    }

    fn flush(&self) -> bool {
        let Some(mut batch) = self.write_next() else { return false };
        let wrote = batch.has_records();
        self.show(&mut batch);
        if wrote && let Err(error) = self.after_write() {
            self.fail(&cannot_write(&error), None);
        }
        true
    }

    /// Makes the oldest waiting batch durable. The log is let go before anybody is called back, so that a callback
    /// may submit, close, or drop the store.
    fn write_next(&self) -> Option<Batch> {
        let mut log = guard(&self.log);
        let mut batch = guard(&self.state).batches.pop_front()?;
        if self.options.has(Mutant::AckBeforeSync) {
            self.show(&mut batch);
        }
        if !batch.has_records() {
            return Some(batch);
        }
        match log.commit(&mut batch.frame, batch.logged) {
            Ok(()) => Some(batch),
            Err(error) => {
                let why = cannot_write(&error);
                // Before the log is let go: a checkpoint must not take it for durable.
                self.stop(&why);
                drop(log);
                self.fail(&why, Some(batch));
                None
            }
        }
    }

    /// Makes a batch visible, then acknowledges it, then tells the listeners.
    fn show(&self, batch: &mut Batch) {
        let published = guard(&self.state).core.publish(batch.through);
        for (committed, ack) in batch.acks.drain(..) {
            ack(Ok(committed));
        }
        self.tell(&published);
    }

    fn tell(&self, published: &Published) {
        if published.collections.is_empty() {
            return;
        }
        let listeners = guard(&self.listeners).clone();
        listeners.iter().for_each(|listener| listener(published.revision, &published.collections));
    }

    /// Seals when idle, moves on to a new segment or asks for a checkpoint when it is time.
    fn after_write(&self) -> io::Result<()> {
        let mut log = guard(&self.log);
        let (idle, oldest, bytes) = {
            let state = guard(&self.state);
            (state.batches.is_empty(), state.core.oldest(), state.sum.bytes)
        };
        if log.is_roll_due() {
            log.roll()?;
        } else if idle {
            log.seal()?;
        }
        let freeable = log.freeable(oldest);
        if freeable > 0 && freeable >= self.options.checkpoint_bytes.max(bytes / 2) {
            guard(&self.state).checkpoint_due = true;
            self.checkpoint_work.notify_all();
        }
        Ok(())
    }

    /// Takes nothing any more; gives the first reason.
    fn stop(&self, why: &str) -> String {
        guard(&self.state).stopped.get_or_insert_with(|| why.to_owned()).clone()
    }

    /// Stops for good, and tells everybody who waits.
    fn fail(&self, why: &str, batch: Option<Batch>) {
        self.stop(why);
        let waiting = std::mem::take(&mut guard(&self.state).batches);
        for (_, ack) in batch.into_iter().chain(waiting).flat_map(|batch| batch.acks) {
            ack(Err(TxnError::Stopped(why.to_owned())));
        }
        self.wake_all();
        let on_fatal = guard(&self.on_fatal).take();
        if let Some(on_fatal) = on_fatal {
            on_fatal(why);
        }
    }

    fn begin_close(&self) -> Option<String> {
        let earlier = {
            let mut state = guard(&self.state);
            let earlier = state.stopped.clone();
            state.stopped.get_or_insert_with(|| CLOSED.to_owned());
            earlier
        };
        self.wake_all();
        earlier
    }

    /// The last words: which revisions were really handed out, and that everything before is durable.
    fn finish_close(&self) -> Result<(), TxnError> {
        let mut log = guard(&self.log);
        let (head, reserved, logged, stopped) = {
            let state = guard(&self.state);
            (state.core.head(), state.reserved, state.logged, state.stopped.clone())
        };
        if let Some(why) = stopped.filter(|why| why != CLOSED) {
            return Err(TxnError::Stopped(why));
        }
        let mut write = || {
            if reserved > head.0 {
                let mut frame = vec![0; FRAME_HEADER];
                record::put_reserve(&mut frame, head.0);
                log.commit(&mut frame, logged)?;
            }
            log.close()
        };
        write().map_err(|error| TxnError::Stopped(format!("cannot close the log: {error}")))
    }

    fn checkpoint(&self) -> Result<(), TxnError> {
        let _one = guard(&self.checkpointing);
        self.write_checkpoint().map_err(|fault| {
            let why = match fault {
                StateFault::Io(error) => format!("cannot write a checkpoint: {error}"),
                StateFault::Damaged(at, what) => format!("cannot write a checkpoint: at byte {at}: {what}"),
                StateFault::TooNew(version) => format!("cannot write a checkpoint: version {version} came back"),
            };
            self.fail(&why, None);
            TxnError::Stopped(why)
        })
    }

    /// The oldest state whose history is kept, so that watches can be resumed across a restart just as before it.
    fn write_checkpoint(&self) -> Result<(), StateFault> {
        let (snapshot, volatile, header) = {
            let log = guard(&self.log);
            let state = guard(&self.state);
            if let Some(why) = state.stopped.as_ref().filter(|why| *why != CLOSED) {
                return Err(StateFault::Io(io::Error::other(why.clone())));
            }
            let revision = state.core.oldest();
            let header = StateHeader {
                id: log.id(),
                revision,
                reserved: state.reserved,
                first_segment: log.first_segment(revision),
                logged: log.revision().0,
            };
            (state.core.way_to(revision), state.volatile.iter().cloned().collect::<Vec<_>>(), header)
        };
        let snapshot = snapshot.map_err(|error| io::Error::other(format!("{error:?}")))?.run();
        let (snapshot, header) = self.with_mutant(snapshot, header);
        let name = state_name(header.revision);
        if self.vfs.list()?.contains(&name) {
            return Ok(());
        }
        let faithful = !self.options.has(Mutant::SkipDirSync);
        checkpoint::publish(&*self.vfs, &name, header, &volatile, &snapshot, faithful)?;
        self.drop_before(header)?;
        Ok(())
    }

    fn with_mutant(&self, snapshot: Snapshot, header: StateHeader) -> (Snapshot, StateHeader) {
        if !self.options.has(Mutant::CheckpointBeforeSync) {
            return (snapshot, header);
        }
        let mut state = guard(&self.state);
        let (snapshot, logged) = (state.core.publish(Revision(u64::MAX)), state.logged.0);
        (state.core.snapshot(), StateHeader { revision: snapshot.revision, logged, ..header })
    }

    fn drop_before(&self, header: StateHeader) -> io::Result<()> {
        let segments = guard(&self.log).forget_before(header.first_segment);
        for segment in segments {
            self.vfs.remove(&segment_name(segment.number))?;
        }
        let states = self
            .vfs
            .list()?
            .into_iter()
            .filter(|name| checkpoint::state_revision(name).is_some_and(|revision| revision < header.revision));
        for name in states {
            self.vfs.remove(&name)?;
        }
        self.vfs.sync_dir()
    }

    /// Takes a transaction; gives back what can be acknowledged at once.
    fn take(&self, txn: Txn, ack: Ack) -> Option<(Ack, Result<Committed, TxnError>, Option<Published>)> {
        let mut state = guard(&self.state);
        if let Some(why) = &state.stopped {
            let why = why.clone();
            return Some((ack, Err(TxnError::Stopped(why)), None));
        }
        let pending = match state.core.apply(txn) {
            Ok(pending) => pending,
            Err(error) => return Some((ack, Err(error), None)),
        };
        let alone = state.core.waiting() == usize::from(!pending.events().is_empty());
        let logged = state.encode(&pending, &self.options);
        if alone && !logged && state.batches.is_empty() {
            // Nothing to make durable and nothing before it that waits: the medium is not touched.
            let published = state.core.publish(pending.revision());
            return Some((ack, Ok(pending.committed), Some(published)));
        }
        let batch = state.batch();
        batch.through = batch.through.max(pending.revision());
        batch.acks.push((pending.committed, ack));
        self.work.notify_one();
        None
    }
}

impl State {
    /// The batch that still takes transactions.
    fn batch(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(|batch| batch.frame.len() >= BATCH_BYTES) {
            self.batches.push_back(Batch::new());
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    /// Writes what must be durable into the open batch. True if there was anything.
    fn encode(&mut self, pending: &Pending, options: &Options) -> bool {
        let marks: Vec<Collection> =
            pending.volatile_collections().filter(|name| !self.volatile.contains(*name)).cloned().collect();
        let revision = pending.revision();
        let has_volatile = pending.volatile_collections().next().is_some();
        let reserve = has_volatile && revision.0 > self.reserved;
        let has_records = pending.records().next().is_some();
        if !has_records && !reserve && marks.is_empty() {
            return false;
        }
        let logged = if has_records { revision } else { self.logged };
        self.logged = logged;
        let sum = self.sum_due(pending, has_records, options);
        if reserve {
            self.reserved = revision.0.saturating_add(options.reserve_revisions);
        }
        let reserved = self.reserved;
        self.volatile.extend(marks.iter().cloned());
        let batch = self.batch();
        batch.logged = logged;
        if reserve {
            record::put_reserve(&mut batch.frame, reserved);
        }
        marks.iter().for_each(|mark| record::put_volatile(&mut batch.frame, mark));
        record::put_txn(&mut batch.frame, revision, pending.records());
        if let Some(hash) = sum {
            record::put_state_sum(&mut batch.frame, hash);
        }
        true
    }

    /// Follows the transaction with the state's sum; gives it if it is time to log it.
    fn sum_due(&mut self, pending: &Pending, has_records: bool, options: &Options) -> Option<u64> {
        pending.events().iter().for_each(|event| self.sum.follow(event));
        self.txns_since_sum += u64::from(has_records);
        if self.txns_since_sum < options.sum_every {
            return None;
        }
        self.txns_since_sum = 0;
        Some(self.sum.hash)
    }
}

impl Store for Disk {
    fn snapshot(&self) -> Snapshot {
        guard(&self.shared.state).core.snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let way = guard(&self.shared.state).core.way_to(revision)?;
        let (snapshot, folded) = way.run_kept();
        guard(&self.shared.state).core.keep(folded);
        Ok(snapshot)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        if let Some((ack, outcome, published)) = self.shared.take(txn, ack) {
            ack(outcome);
            if let Some(published) = published {
                self.shared.tell(&published);
            }
        }
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        guard(&self.shared.state).core.events(collection, after, limit)
    }

    fn listen(&self, listener: Listener) {
        guard(&self.shared.listeners).push(Arc::new(listener));
    }

    fn compact(&self, through: Revision) {
        guard(&self.shared.state).core.compact(through);
    }
}
