//! The engine behind the handle: group commit, checkpoints, and how it stops.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use store::{Listener, Published, Revision, Snapshot, TxnError};

use crate::batch::{Batch, State};
use crate::checkpoint::{self, StateFault, StateHeader, Sync, state_name};
use crate::frame::{FRAME_HEADER, segment_name};
use crate::log::{Log, LogEnd};
use crate::options::{Mutant, OnFatal, Options};
use crate::record;
use crate::recover::Recovered;
use crate::sum::LogId;
use crate::vfs::Vfs;

/// Everything but the threads.
pub(crate) struct Engine {
    vfs: Arc<dyn Vfs>,
    pub options: Options,
    pub state: Mutex<State>,
    pub log: Mutex<Log>,
    /// Held while a checkpoint is written: one at a time.
    pub checkpointing: Mutex<()>,
    pub listeners: Mutex<Vec<Arc<Listener>>>,
    on_fatal: Mutex<Option<OnFatal>>,
    pub work: Condvar,
    checkpoint_work: Condvar,
}

/// Locks.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked did so in a callback or by a bug that has already been reported; the data stays whole
    // because it is changed only by calls that finish.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Why a closed store takes nothing.
pub(crate) const CLOSED: &str = "the store is closed";

fn cannot_write(error: &io::Error) -> String {
    format!("cannot write the log: {error}")
}

/// Begins the new life: repairs what the crash left, then takes the log up where it ends.
pub(crate) fn resume(vfs: Arc<dyn Vfs>, options: Options, found: Recovered) -> io::Result<Arc<Engine>> {
    let Recovered { mut core, sum, mut reserved, volatile, segments, id, chain, synced, logged, leftovers, .. } = found;
    for name in &leftovers {
        vfs.remove(name)?;
    }
    let log = if segments.is_empty() {
        let mut bytes = [0; 16];
        options.ids.fill(&mut bytes);
        Log::begin(vfs.clone(), options.clone(), LogId(bytes), core.revision())?
    } else {
        Log::resume(vfs.clone(), options.clone(), LogEnd { id, chain, synced, revision: logged, segments })?
    };
    if options.has(Mutant::ForgetReserve) {
        reserved = 0;
    }
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
    Ok(Arc::new(Engine {
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

/// A callback that panics must not leave the store waiting for a thread that is gone.
struct Bail<'e>(&'e Engine);

impl Drop for Bail<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a thread of the store panicked", None);
        }
    }
}

impl Engine {
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.checkpoint_work.notify_all();
    }

    pub fn run_flusher(&self) {
        let _bail = Bail(self);
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

    pub fn run_checkpointer(&self) {
        let _bail = Bail(self);
        loop {
            let mut state = guard(&self.state);
            while !state.checkpoint_due && state.stopped.is_none() {
                state = self.checkpoint_work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            if state.stopped.is_some() {
                return;
            }
            drop(state);
            // A failure has stopped the store and told its owner.
            let _ = self.checkpoint();
        }
    }

    pub fn flush(&self) -> bool {
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
        for (outcome, ack) in batch.acks.drain(..) {
            ack(outcome);
        }
        self.tell(&published);
    }

    pub fn tell(&self, published: &Published) {
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

    /// Takes nothing any more; the first reason stays.
    fn stop(&self, why: &str) {
        guard(&self.state).stopped.get_or_insert_with(|| why.to_owned());
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

    pub fn begin_close(&self) -> Option<String> {
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
    pub fn finish_close(&self) -> Result<(), TxnError> {
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

    pub fn checkpoint(&self) -> Result<(), TxnError> {
        let _one = guard(&self.checkpointing);
        if let Some(why) = guard(&self.state).stopped.clone() {
            return Err(TxnError::Stopped(why));
        }
        let outcome = self.write_checkpoint();
        guard(&self.state).checkpoint_due = false;
        outcome.map_err(|fault| {
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
            let revision = state.core.oldest();
            let header = StateHeader {
                id: log.id(),
                revision,
                reserved: if self.options.has(Mutant::CheckpointReserve) { 0 } else { state.reserved },
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
        let sync = Sync {
            content: !self.options.has(Mutant::CheckpointUnsynced),
            name: !self.options.has(Mutant::SkipDirSync),
        };
        checkpoint::publish(&*self.vfs, &name, header, &volatile, &snapshot, sync)?;
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
}
