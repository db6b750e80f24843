//! Random runs beside the reference model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::watch::{self, Delivery, Watch};
use super::{Dice, MakeRig, Rig, commit, items};
use crate::model::Model;
use crate::{Collection, Key, Keyspace, Limits, Op, Precondition, ReadError, Revision, Store, Txn};

const STEPS: usize = 250;

/// `p` and `q` are durable, `v` is volatile, `m` has both: an item of it may move between the two.
const COLLECTIONS: [&str; 4] = ["p", "q", "m", "v"];

/// What a random run does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Submit this.
    Commit(Txn),
    /// Read the state at this revision.
    Read(Revision),
    /// Let a watcher fetch up to so many events.
    Watch(usize, usize),
    /// Forget the past.
    Compact(Revision),
    /// Stop and start.
    Restart,
}

fn key(dice: &mut Dice) -> Key {
    let collection = COLLECTIONS[dice.index(COLLECTIONS.len())];
    Key::new(collection, format!("{}/{}", ["a", "ab", "b"][dice.index(3)], dice.below(6)))
}

fn value(dice: &mut Dice) -> (Bytes, Option<u32>) {
    let length = [0, 1, 30, 700][dice.index(4)];
    let value: Vec<u8> = (0..length).map(|_| b'a' + (dice.below(26) as u8)).collect();
    let stamp = dice.chance(70).then(|| dice.below(length + 1) as u32);
    (value.into(), stamp)
}

fn op(dice: &mut Dice) -> Op {
    let key = key(dice);
    if dice.chance(30) {
        let last = dice.chance(50).then(|| value(dice));
        return Op::Delete { key, last };
    }
    let volatile = *key.collection == *"v" || (*key.collection == *"m" && dice.chance(40));
    let keyspace = if volatile { Keyspace::Volatile } else { Keyspace::Durable };
    let (value, stamp_at) = value(dice);
    Op::Put { key, value, annex: Bytes::from(vec![b'x'; dice.index(20)]), stamp_at, keyspace }
}

fn precondition(dice: &mut Dice, model: &Model) -> Precondition {
    let key = key(dice);
    let near = Revision((model.newest().0 + 2).saturating_sub(dice.below(12)));
    match dice.below(4) {
        0 => Precondition::Absent(key),
        1 => Precondition::ModifiedAt(key, near),
        2 => {
            let modified = model.state().get(&key).map_or(near, |entry| entry.modified);
            Precondition::ModifiedAt(key, modified)
        }
        _ => {
            let prefix = ["", "a", "a/", "b/3"][dice.index(4)];
            Precondition::UnchangedSince { prefix: Key::new(key.collection, prefix), revision: near }
        }
    }
}

/// A random transaction that fits the model's state often enough.
pub fn txn(dice: &mut Dice, model: &Model) -> Txn {
    let mut ops: Vec<Op> = Vec::new();
    for _ in 0..1 + dice.index(4) {
        let next = op(dice);
        let named = |op: &Op| match op {
            Op::Put { key, .. } | Op::Delete { key, .. } => key.clone(),
        };
        if ops.iter().all(|op| named(op) != named(&next)) {
            ops.push(next);
        }
    }
    let count = if dice.chance(40) { 1 + dice.index(2) } else { 0 };
    Txn { preconditions: (0..count).map(|_| precondition(dice, model)).collect(), ops }
}

fn step(dice: &mut Dice, model: &Model) -> Step {
    let any = |dice: &mut Dice| Revision(dice.below(model.newest().0 + 3));
    match dice.below(100) {
        0..60 => Step::Commit(txn(dice, model)),
        60..75 => {
            let recent = Revision((model.newest().0 + 1).saturating_sub(dice.below(40)));
            Step::Read(if dice.chance(20) { any(dice) } else { recent })
        }
        75..96 => Step::Watch(dice.index(COLLECTIONS.len()), 1 + dice.index(8)),
        96..98 => Step::Compact(Revision(model.newest().0.saturating_sub(dice.below(30)))),
        _ => Step::Restart,
    }
}

/// Bounds small enough that the random runs hit them.
fn tight() -> Limits {
    Limits { history_events_max: 60, history_bytes_max: 40_000, roots_max: 3, ..Limits::default() }
}

pub(super) fn run(make: MakeRig<'_>, seed: u64) {
    let limits = if seed.is_multiple_of(2) { Limits::default() } else { tight() };
    let bounded = !seed.is_multiple_of(2);
    let mut run = Run::new(make(limits), bounded);
    let mut dice = Dice::new(seed);
    for index in 0..STEPS {
        let step = step(&mut dice, &run.model);
        run.perform(&step, &format!("seed {seed}, step {index}, {step:?}"));
    }
    run.finish(seed);
}

struct Run {
    rig: Box<dyn Rig>,
    model: Model,
    watches: Vec<Watch>,
    done: Vec<Watch>,
    /// Whether the engine may have given up more than the model.
    bounded: bool,
    heard: Arc<AtomicU64>,
}

impl Run {
    fn new(rig: Box<dyn Rig>, bounded: bool) -> Run {
        let start = rig.store().snapshot().revision();
        assert_eq!(start, Revision::FIRST, "a new store starts at the first revision");
        let watches = COLLECTIONS.iter().map(|collection| begin(collection, start)).collect();
        let heard = Arc::new(AtomicU64::new(start.0));
        let run = Run { rig, model: Model::new(), watches, done: Vec::new(), bounded, heard };
        run.listen();
        run
    }

    fn listen(&self) {
        let heard = self.heard.clone();
        let listener = move |revision: Revision, collections: &[Collection]| {
            assert!(!collections.is_empty(), "a listener is told what changed");
            heard.fetch_max(revision.0, Ordering::SeqCst);
        };
        self.rig.store().listen(Box::new(listener));
    }

    fn perform(&mut self, step: &Step, told: &str) {
        match step {
            Step::Commit(txn) => self.commit(txn, told),
            Step::Read(revision) => self.read(*revision, told),
            Step::Watch(index, limit) => self.watch(*index, *limit, told),
            Step::Compact(through) => {
                self.rig.store().compact(*through);
                self.model.compact(*through);
            }
            Step::Restart => self.restart(told),
        }
    }

    fn commit(&mut self, txn: &Txn, told: &str) {
        let got = commit(self.rig.store(), txn.clone());
        let unchanged = |p: &Precondition| matches!(p, Precondition::UnchangedSince { .. });
        if let (true, Err(crate::TxnError::Failed(failed))) = (self.bounded, &got) {
            // The engine may have given up the past that would have let it pass.
            if unchanged(failed) {
                return;
            }
        }
        let expected = self.model.apply(txn);
        assert_eq!(got, expected, "{told}");
        compare(self.rig.store(), &self.model, told);
    }

    fn read(&self, revision: Revision, told: &str) {
        let got = self.rig.store().snapshot_at(revision);
        match (got, self.model.state_at(revision)) {
            (Ok(snapshot), expected) => {
                assert_eq!(snapshot.revision(), revision, "{told}");
                assert_eq!(Ok(items(&snapshot)), expected, "{told}");
            }
            (Err(ReadError::Compacted { oldest }), _) if self.bounded => assert!(oldest > revision, "{told}"),
            (Err(error), expected) => assert_eq!(Err(error), expected, "{told}"),
        }
    }

    fn watch(&mut self, index: usize, limit: usize, told: &str) {
        let watch = &mut self.watches[index];
        let after = watch.deliveries.last().map_or(watch.after, |delivery| delivery.through);
        let newest = self.model.newest();
        let future = self.rig.store().events(&watch.collection, newest.next(), limit);
        assert_eq!(future, Err(ReadError::Future { newest }), "{told}: of the future");
        match self.rig.store().events(&watch.collection, after, limit) {
            Ok((events, through)) => {
                let whole = events.iter().filter(|event| Some(event.revision) != events.last().map(|e| e.revision));
                assert!(events.len() <= limit || whole.count() == 0, "{told}: over the limit");
                watch.deliveries.push(Delivery { events, through });
            }
            Err(error) => {
                let allowed = self.bounded || self.model.events_after(&watch.collection, after) == Err(error);
                assert!(allowed, "{told}: {error:?} after {after}");
                let next = begin(&watch.collection, self.model.newest());
                self.done.push(std::mem::replace(watch, next));
            }
        }
    }

    fn restart(&mut self, told: &str) {
        if !self.rig.restart() {
            return;
        }
        let revision = self.rig.store().snapshot().revision();
        assert!(revision >= self.model.newest(), "{told}: the revision went back to {revision}");
        self.model.restart(revision);
        compare(self.rig.store(), &self.model, told);
        self.listen();
        // How far back watches can be resumed depends on the engine's checkpoints; what comes must be right.
        self.bounded = true;
    }

    fn finish(mut self, seed: u64) {
        for index in 0..COLLECTIONS.len() {
            self.watch(index, usize::MAX, &format!("seed {seed}, end"));
        }
        for watch in self.done.iter().chain(&self.watches) {
            assert_eq!(watch::check(watch, self.model.history()), Ok(()), "seed {seed}: {watch:?}");
        }
        let newest = self.rig.store().snapshot().revision();
        assert!(self.heard.load(Ordering::SeqCst) <= newest.0, "seed {seed}: told of the future");
    }
}

fn begin(collection: &str, after: Revision) -> Watch {
    Watch { collection: collection.into(), prefix: String::new(), after, deliveries: Vec::new() }
}

/// Checks that the newest state is the model's.
pub fn compare(store: &dyn Store, model: &Model, told: &str) {
    let snapshot = store.snapshot();
    assert_eq!(snapshot.revision(), model.newest(), "{told}");
    assert_eq!(items(&snapshot), model.state(), "{told}");
}
