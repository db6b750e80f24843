//! A short random life of a store, with everything recorded.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clock::SeededIds;
use store::model::{Model, State};
use store::suite::Dice;
use store::{Committed, Key, Keyspace, Limits, Op, Revision, Store, Txn, TxnError};

use super::Planted;
use crate::vfs::{Call, Medium, RecordVfs, SimVfs, Trouble, Vfs};
use crate::{Disk, Flushing, Options};

/// More calls make more images than a night has time for; the states repeat anyway.
const CALLS_MAX: usize = 200;
const STEPS_MAX: usize = 60;

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// After how many calls it came.
    pub calls: usize,
    /// What was acknowledged.
    pub revision: Revision,
}

/// A recorded run.
pub struct Run {
    /// What was done to the medium.
    pub calls: Vec<Call>,
    /// What was promised, in order.
    pub acked: Vec<Acked>,
    /// The durable items after each revision, in order, from the empty store on.
    pub states: Vec<(Revision, State)>,
    /// Everything that happened.
    pub model: Model,
    /// How the store was run.
    pub options: Options,
}

struct Life {
    dice: Dice,
    sim: Arc<SimVfs>,
    record: Arc<RecordVfs>,
    options: Options,
    disk: Option<Disk>,
    model: Model,
    acked: Arc<Mutex<Vec<Acked>>>,
    wrong: Arc<Mutex<Vec<String>>>,
    states: Vec<(Revision, State)>,
    stopped: bool,
}

/// Only the durable items.
pub fn durable(mut state: State) -> State {
    state.retain(|_, entry| entry.is_durable());
    state
}

/// Options that make everything happen within few calls.
fn options(dice: &mut Dice, seed: u64, planted: Planted) -> Options {
    Options {
        limits: Limits { history_events_max: 2 + dice.index(12), mutant: planted.core, ..Limits::default() },
        segment_bytes: 300 + dice.below(2500),
        checkpoint_bytes: u64::MAX,
        reserve_revisions: dice.below(6),
        sum_every: 1 + dice.below(4),
        flushing: Flushing::ByHand,
        ids: Arc::new(SeededIds::new(seed)),
        on_fatal: None,
        mutant: planted.disk,
    }
}

/// Lives the life of `seed`.
///
/// # Errors
/// When the store answers otherwise than the model, crash or no crash.
pub(super) fn run(seed: u64, planted: Planted) -> Result<Run, String> {
    let mut dice = Dice::new(seed);
    let options = options(&mut dice, seed, planted);
    let sim = Arc::new(SimVfs::new(Medium::default()));
    let record = Arc::new(RecordVfs::new(sim.clone()));
    let states = vec![(Revision::FIRST, State::new())];
    let mut life = Life {
        dice,
        sim,
        record,
        options,
        disk: None,
        model: Model::new(),
        acked: Arc::default(),
        wrong: Arc::default(),
        states,
        stopped: false,
    };
    life.open()?;
    for _ in 0..STEPS_MAX {
        if life.record.len() >= CALLS_MAX || life.stopped {
            break;
        }
        life.step()?;
    }
    life.finish()
}

fn guard<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Life {
    fn open(&mut self) -> Result<(), String> {
        let vfs: Arc<dyn Vfs> = self.record.clone();
        let disk = Disk::open_on(vfs, self.options.clone()).map_err(|error| format!("it does not open: {error}"))?;
        self.disk = Some(disk);
        Ok(())
    }

    fn disk(&self) -> Result<&Disk, String> {
        self.disk.as_ref().ok_or_else(|| "the store is not open".to_owned())
    }

    fn step(&mut self) -> Result<(), String> {
        match self.dice.below(100) {
            0..60 => {
                for _ in 0..1 + self.dice.index(3) {
                    self.submit()?;
                }
                if self.dice.chance(80) { self.flush() } else { Ok(()) }
            }
            60..80 => self.flush(),
            80..90 => self.checkpoint(),
            90..94 => self.restart(true),
            94..97 => self.restart(false),
            _ => {
                let nth = 1 + self.dice.below(4);
                self.sim.trouble(Trouble { sync_fails_in: Some(nth), ..Trouble::default() });
                Ok(())
            }
        }
    }

    fn txn(&mut self) -> Txn {
        let dice = &mut self.dice;
        let volatile = dice.chance(20);
        let (collection, keyspace) =
            if volatile { ("v", Keyspace::Volatile) } else { (["p", "m"][dice.index(2)], Keyspace::Durable) };
        let keyspace = if collection == "m" && dice.chance(30) { Keyspace::Volatile } else { keyspace };
        let mut items: Vec<u64> = (0..6).collect();
        let count = 1 + dice.index(2);
        let ops = (0..count).map(|_| {
            let item = items.swap_remove(dice.index(items.len()));
            let key = Key::new(collection, item.to_string());
            if dice.chance(25) {
                let last = dice.chance(30).then(|| (Bytes::from_static(b"last"), Some(2)));
                return Op::Delete { key, last };
            }
            let length = [0, 3, 200, 900][dice.index(4)];
            let value = Bytes::from(vec![b'a' + (dice.below(26) as u8); length]);
            Op::Put { key, value, annex: Bytes::new(), stamp_at: Some(0), keyspace }
        });
        Txn { preconditions: Vec::new(), ops: ops.collect() }
    }

    fn submit(&mut self) -> Result<(), String> {
        let txn = self.txn();
        let expected = self.model.apply(&txn).map_err(|error| format!("the model refuses: {error:?}"))?;
        self.states.push((self.model.newest(), durable(self.model.state())));
        let (acked, wrong, record) = (self.acked.clone(), self.wrong.clone(), self.record.clone());
        let ack = move |outcome: Result<Committed, TxnError>| match outcome {
            Ok(committed) if committed == expected => {
                let calls = record.len();
                guard(&acked).push(Acked { calls, revision: committed.revision });
            }
            Ok(committed) => guard(&wrong).push(format!("answered {committed:?}, expected {expected:?}")),
            Err(TxnError::Stopped(_)) => (),
            Err(error) => guard(&wrong).push(format!("answered {error:?}, expected {expected:?}")),
        };
        self.disk()?.submit(txn, Box::new(ack));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        while self.disk()?.flush() {}
        self.notice()
    }

    fn checkpoint(&mut self) -> Result<(), String> {
        let _ = self.disk()?.checkpoint();
        self.notice()
    }

    /// After a failure of the medium the store takes nothing any more, and this life is over.
    fn notice(&mut self) -> Result<(), String> {
        self.stopped = self.disk()?.has_stopped();
        match guard(&self.wrong).first() {
            Some(what) => Err(what.clone()),
            None => Ok(()),
        }
    }

    fn restart(&mut self, clean: bool) -> Result<(), String> {
        self.flush()?;
        if self.stopped {
            return Ok(());
        }
        let Some(disk) = self.disk.take() else { return Ok(()) };
        if clean {
            if disk.close().is_err() {
                self.stopped = true;
                return Ok(());
            }
        } else {
            disk.abandon();
        }
        self.sim.trouble(Trouble::default());
        self.open()?;
        let revision = self.disk()?.snapshot().revision();
        if revision < self.model.newest() {
            return Err(format!("revision {} became {revision} by a restart", self.model.newest()));
        }
        self.model.restart(revision);
        self.states.push((revision, durable(self.model.state())));
        Ok(())
    }

    fn finish(mut self) -> Result<Run, String> {
        if !self.stopped {
            self.flush()?;
        }
        if let Some(disk) = self.disk.take() {
            disk.abandon();
        }
        let acked = guard(&self.acked).clone();
        Ok(Run {
            calls: self.record.calls(),
            acked,
            states: self.states,
            model: self.model,
            options: Options { mutant: None, ..self.options },
        })
    }
}
