//! The engine without a medium: for tests, plans and simulation.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Ack, Collection, Core, Event, Limits, Listener, Published, ReadError, Revision, Snapshot, Store, Txn};

/// A store in memory. Every transaction is acknowledged, and the listeners are called, before `submit` returns,
/// on the caller's thread and without a lock held; so a run on one thread is deterministic.
pub struct Mem {
    core: Mutex<Core>,
    listeners: Mutex<Vec<Arc<Listener>>>,
}

impl Default for Mem {
    fn default() -> Self {
        Mem::new()
    }
}

impl Mem {
    /// An empty store with the default limits.
    pub fn new() -> Mem {
        Mem::with_limits(Limits::default())
    }

    /// An empty store.
    pub fn with_limits(limits: Limits) -> Mem {
        Mem::from_core(Core::new(limits))
    }

    /// A store that goes its own way from `snapshot` on; neither sees the other's later writes. O(1).
    pub fn fork(snapshot: &Snapshot) -> Mem {
        Mem::from_core(Core::from_snapshot(Limits::default(), snapshot.clone()))
    }

    fn from_core(core: Core) -> Mem {
        Mem { core: Mutex::new(core), listeners: Mutex::default() }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // A panic while the lock was held is a bug elsewhere; the state is still whole between calls.
        self.core.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tell(&self, published: &Published) {
        if published.collections.is_empty() {
            return;
        }
        let listeners = self.listeners.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        listeners.iter().for_each(|listener| listener(published.revision, &published.collections));
    }
}

impl Store for Mem {
    fn snapshot(&self) -> Snapshot {
        self.core().snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let way = self.core().way_to(revision)?;
        let (snapshot, folded) = way.run_kept();
        self.core().keep(folded);
        Ok(snapshot)
    }

    fn submit(&self, txn: Txn, ack: Ack) {
        let (outcome, published) = {
            let mut core = self.core();
            match core.apply(txn) {
                Err(error) => (Err(error), None),
                Ok(pending) => {
                    let published = core.publish(pending.revision());
                    (Ok(pending.committed), Some(published))
                }
            }
        };
        ack(outcome);
        if let Some(published) = published {
            self.tell(&published);
        }
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        self.core().events(collection, after, limit)
    }

    fn listen(&self, listener: Listener) {
        self.listeners.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Arc::new(listener));
    }

    fn compact(&self, through: Revision) {
        self.core().compact(through);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{self, Rig, commit};
    use crate::{Key, Keyspace, Mutant, Op};

    struct InMemory(Mem);

    impl Rig for InMemory {
        fn store(&self) -> &dyn Store {
            &self.0
        }
    }

    fn put(store: &Mem, item: &str) -> Revision {
        let (key, value) = (Key::new("c", item), item.to_owned().into());
        let put = Op::Put { key, value, annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable };
        commit(store, Txn { preconditions: Vec::new(), ops: vec![put] }).expect("committed").revision
    }

    #[test]
    fn it_passes_the_suite() {
        suite::run(&|limits| Box::new(InMemory(Mem::with_limits(limits))), 0..60);
    }

    /// What waits is visible at once in this engine; the durable one finds this mistake.
    const NOT_HERE: Mutant = Mutant::StalePreconditions;

    #[test]
    fn every_planted_mistake_is_noticed_by_the_suite() {
        for mutant in Mutant::ALL.iter().filter(|mutant| **mutant != NOT_HERE) {
            let make = |limits| {
                let limits = Limits { mutant: Some(*mutant), ..limits };
                Box::new(InMemory(Mem::with_limits(limits))) as Box<dyn Rig>
            };
            let caught = suite::hunt(&make, 0..20);
            println!("| {mutant:?} | {caught} |");
            assert!(caught.is_caught(), "{mutant:?} was not noticed");
        }
    }

    #[test]
    fn a_fork_goes_its_own_way() {
        let store = Mem::new();
        put(&store, "a");
        let fork = Mem::fork(&store.snapshot());
        assert_eq!(put(&fork, "b"), put(&store, "d"), "both go on from the same revision");
        let names =
            |store: &Mem| -> Vec<String> { store.snapshot().items("c").map(|(item, _)| item.to_string()).collect() };
        assert_eq!((names(&store), names(&fork)), (vec!["a".into(), "d".into()], vec!["a".into(), "b".into()]));
    }

    #[test]
    fn an_acknowledgement_may_submit_again() {
        let store = Arc::new(Mem::new());
        let again = store.clone();
        store.submit(Txn::default(), Box::new(move |_| assert_eq!(put(&again, "nested"), Revision(2))));
        assert_eq!(store.snapshot().count("c"), 1);
    }
}
