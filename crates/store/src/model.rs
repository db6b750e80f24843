//! The reference model: what a store is, said as plainly as possible and without regard to cost. Every engine is
//! compared with it. It shares no code with the heart except the words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Change, Collection, Committed, Entry, Event, Key, Keyspace, Op, Precondition, ReadError, Revision, Txn, TxnError,
};

/// All items of a store at one revision.
pub type State = BTreeMap<Key, Arc<Entry>>;

/// Every state and every event there ever was.
#[derive(Clone)]
pub struct Model {
    states: BTreeMap<Revision, State>,
    events: Vec<Event>,
    newest: Revision,
    readable: Revision,
    resumable: Revision,
    volatile: BTreeSet<Collection>,
    life: Revision,
}

impl Default for Model {
    fn default() -> Self {
        Model::new()
    }
}

impl Model {
    /// An empty store.
    pub fn new() -> Model {
        Model {
            states: BTreeMap::from([(Revision::FIRST, State::new())]),
            events: Vec::new(),
            newest: Revision::FIRST,
            readable: Revision::FIRST,
            resumable: Revision::FIRST,
            volatile: BTreeSet::new(),
            life: Revision::FIRST,
        }
    }

    /// The newest revision.
    pub fn newest(&self) -> Revision {
        self.newest
    }

    /// The newest state.
    pub fn state(&self) -> State {
        self.states.values().next_back().cloned().unwrap_or_default()
    }

    /// Everything that ever happened, in order.
    pub fn history(&self) -> &[Event] {
        &self.events
    }

    /// Commits a transaction or says why not.
    ///
    /// # Errors
    /// `Failed` with the first precondition that does not hold.
    pub fn apply(&mut self, txn: &Txn) -> Result<Committed, TxnError> {
        if let Some(failed) = txn.preconditions.iter().find(|precondition| !self.holds(precondition)) {
            return Err(TxnError::Failed(failed.clone()));
        }
        let revision = Revision(self.newest.0 + 1);
        let mut state = self.state();
        let mut events = Vec::new();
        let mut entries = Vec::new();
        for op in &txn.ops {
            let (entry, event) = step(&mut state, op, revision);
            entries.push(entry);
            events.extend(event);
        }
        if events.is_empty() {
            return Ok(Committed { revision: self.newest, entries });
        }
        let volatile = events.iter().filter(|event| event.entry.keyspace() == Keyspace::Volatile);
        self.volatile.extend(volatile.map(|event| event.key.collection.clone()));
        self.newest = revision;
        self.states.insert(revision, state);
        self.events.extend(events);
        Ok(Committed { revision, entries })
    }

    fn holds(&self, precondition: &Precondition) -> bool {
        let state = self.state();
        match precondition {
            Precondition::Absent(key) => !state.contains_key(key),
            Precondition::ModifiedAt(key, revision) => state.get(key).is_some_and(|entry| entry.modified == *revision),
            Precondition::UnchangedSince { prefix, revision } => {
                let touched = |event: &Event| {
                    event.revision > *revision
                        && event.key.collection == prefix.collection
                        && event.key.item.starts_with(&*prefix.item)
                };
                *revision <= self.newest
                    && *revision >= self.floor(&prefix.collection)
                    && !self.events.iter().any(touched)
            }
        }
    }

    fn floor(&self, collection: &Collection) -> Revision {
        if self.volatile.contains(collection) { self.resumable.max(self.life) } else { self.resumable }
    }

    /// The state at exactly `revision`.
    ///
    /// # Errors
    /// When it is compacted, of a former life, or in the future.
    pub fn state_at(&self, revision: Revision) -> Result<State, ReadError> {
        if revision > self.newest {
            return Err(ReadError::Future { newest: self.newest });
        }
        if revision < self.readable {
            return Err(ReadError::Compacted { oldest: self.readable });
        }
        Ok(self.states.range(..=revision).next_back().map(|(_, state)| state.clone()).unwrap_or_default())
    }

    /// All events of a collection after a revision.
    ///
    /// # Errors
    /// As for [`crate::Store::events`].
    pub fn events_after(&self, collection: &Collection, after: Revision) -> Result<Vec<Event>, ReadError> {
        if after > self.newest {
            return Err(ReadError::Future { newest: self.newest });
        }
        if after < self.floor(collection) {
            return Err(ReadError::Compacted { oldest: self.floor(collection) });
        }
        let wanted = |event: &&Event| event.revision > after && event.key.collection == *collection;
        Ok(self.events.iter().filter(wanted).cloned().collect())
    }

    /// Forgets what is older than `through`.
    pub fn compact(&mut self, through: Revision) {
        let through = through.min(self.newest);
        // An engine may ignore a compaction behind what it can read anyway.
        if through > self.readable {
            self.readable = through;
            self.resumable = self.resumable.max(through);
        }
    }

    /// A new life that starts at `revision`: volatile items are gone, without events.
    pub fn restart(&mut self, revision: Revision) {
        let mut state = self.state();
        state.retain(|_, entry| entry.keyspace() == Keyspace::Durable);
        self.states.insert(revision, state);
        self.newest = revision;
        self.readable = revision;
        self.life = revision;
    }
}

fn step(state: &mut State, op: &Op, revision: Revision) -> (Option<Arc<Entry>>, Option<Event>) {
    match op {
        Op::Put { key, value, annex, stamp_at, keyspace } => {
            let previous = state.get(key).cloned();
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            let value = stamped(value, *stamp_at, revision);
            let entry = Arc::new(Entry::new(value, annex.clone(), created, revision).within(*keyspace));
            state.insert(key.clone(), entry.clone());
            let change = if previous.is_none() { Change::Created } else { Change::Modified };
            (Some(entry.clone()), Some(Event { revision, key: key.clone(), change, entry, previous }))
        }
        Op::Delete { key, last } => {
            let Some(previous) = state.remove(key) else { return (None, None) };
            let value = match last {
                Some((value, stamp_at)) => stamped(value, *stamp_at, revision),
                None => previous.value.clone(),
            };
            let entry = Entry::new(value, previous.annex.clone(), previous.created, revision);
            let entry = Arc::new(entry.within(previous.keyspace()));
            let (key, change) = (key.clone(), Change::Deleted);
            (None, Some(Event { revision, key, change, entry, previous: Some(previous) }))
        }
    }
}

fn stamped(value: &Bytes, at: Option<u32>, revision: Revision) -> Bytes {
    let Some(at) = at else { return value.clone() };
    let mut text = value.to_vec();
    let at = at as usize;
    text.splice(at..at, revision.to_string().into_bytes());
    text.into()
}
