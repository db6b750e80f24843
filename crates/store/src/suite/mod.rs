//! The suite that every engine passes: fixed cases, and random runs beside the reference model.
//!
//! It panics where an engine is wrong; it belongs in tests.

mod cases;
mod dice;
mod hunt;
mod random;
pub mod watch;

use std::sync::mpsc;

pub use dice::Dice;
pub use hunt::{Caught, hunt};
pub use random::{Step, compare, txn as random_txn};

use crate::{Committed, Limits, Snapshot, Store, Txn, TxnError, model::State};

/// An engine under test.
pub trait Rig {
    /// The store.
    fn store(&self) -> &dyn Store;

    /// Stops and starts the engine on the same medium; false where it has none.
    fn restart(&mut self) -> bool {
        false
    }
}

/// Makes a fresh engine.
pub type MakeRig<'m> = &'m dyn Fn(Limits) -> Box<dyn Rig>;

/// The whole suite; random runs for `seeds` seeds.
pub fn run(make: MakeRig<'_>, seeds: std::ops::Range<u64>) {
    cases::run(make);
    seeds.for_each(|seed| random::run(make, seed));
}

/// Submits and waits for the answer.
pub fn commit(store: &dyn Store, txn: Txn) -> Result<Committed, TxnError> {
    let (sender, receiver) = mpsc::channel();
    store.submit(
        txn,
        Box::new(move |outcome| {
            let _ = sender.send(outcome);
        }),
    );
    receiver.recv().unwrap_or_else(|_| Err(TxnError::Stopped("the acknowledgement was dropped".into())))
}

/// All items of a snapshot.
pub fn items(snapshot: &Snapshot) -> State {
    let mut state = State::new();
    for collection in snapshot.collections() {
        for (item, entry) in snapshot.items(collection) {
            state.insert(crate::Key::new(collection.clone(), item.clone()), entry.clone());
        }
    }
    state
}
