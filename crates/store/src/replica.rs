//! A copy of another store, fed from outside: what a process far from the store looks at.
//!
//! The copy counts its own revisions, one for every batch that arrives, because the collections of the original arrive
//! independently of one another. An entry keeps the revision that the original gave it: preconditions speak of that one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use crate::{
    Ack, Change, Collection, Core, Entry, Event, Key, Keyspace, Limits, Listener, ReadError, Revision, Snapshot, Store,
    Txn, TxnError,
};

/// Enough for a reader that was busy for a while; one that was away longer looks at everything again.
const EVENTS_MAX: usize = 16_384;
/// The superseded values of those events at 512 bytes each: a reader is usually milliseconds behind.
const BYTES_MAX: usize = 8 << 20;

/// One item as the original has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its name inside the collection.
    pub item: Arc<str>,
    /// Its value.
    pub value: Bytes,
    /// The original's revision that last wrote it.
    pub modified: Revision,
}

/// One change of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copy {
    /// The item is now this.
    Put(Copied),
    /// The item is gone; this is its last value.
    Delete(Copied),
}

/// A store that only its feeder writes to.
pub struct Replica {
    core: Mutex<Core>,
    listeners: Mutex<Vec<Arc<Listener>>>,
}

impl Default for Replica {
    fn default() -> Self {
        let limits = Limits { history_events_max: EVENTS_MAX, history_bytes_max: BYTES_MAX, ..Limits::default() };
        Replica { core: Mutex::new(Core::new(limits)), listeners: Mutex::default() }
    }
}

impl Replica {
    /// Takes in changes of one collection, in order and at one revision; that revision, or the newest one when nothing
    /// changed.
    pub fn apply(&self, collection: &Collection, changes: impl IntoIterator<Item = Copy>) -> Revision {
        let (before, after) = {
            let mut core = self.core();
            let before = core.revision();
            (before, core.copy(collection, changes))
        };
        if after != before {
            self.tell(after, collection);
        }
        after
    }

    /// Makes a collection consist of exactly these items; what is the same as before makes no event.
    pub fn replace(&self, collection: &Collection, items: Vec<Copied>) -> Revision {
        let old = self.snapshot();
        let mut gone: BTreeMap<&Arc<str>, &Arc<Entry>> = old.items(collection).collect();
        let mut changes = Vec::new();
        for item in items {
            let known = gone.remove(&item.item);
            if known.is_none_or(|entry| entry.modified != item.modified || entry.value != item.value) {
                changes.push(Copy::Put(item));
            }
        }
        let lost = gone.into_iter().map(|(item, entry)| {
            Copy::Delete(Copied { item: Arc::clone(item), value: entry.value.clone(), modified: entry.modified })
        });
        changes.extend(lost);
        self.apply(collection, changes)
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // A panic while the lock was held is a bug elsewhere; the state is still whole between calls.
        self.core.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tell(&self, revision: Revision, collection: &Collection) {
        let listeners = self.listeners.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        listeners.iter().for_each(|listener| listener(revision, std::slice::from_ref(collection)));
    }
}

impl Core {
    /// Shows changes that another store has made, with the revisions that it gave them, as one revision of this one.
    pub(crate) fn copy(&mut self, collection: &Collection, changes: impl IntoIterator<Item = Copy>) -> Revision {
        let revision = self.head().next();
        let mut events: Vec<Option<Event>> = Vec::new();
        let mut at: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for change in changes {
            let (Copy::Put(copied) | Copy::Delete(copied)) = &change;
            // One revision has one event for an item: from what was before it to what is after it.
            let earlier = at.get(&copied.item).copied();
            let previous = self.visible_entry(collection, &copied.item);
            let item = Arc::clone(&copied.item);
            let event = event(revision, collection, change, previous);
            match earlier {
                Some(index) => events[index] = event,
                None => {
                    at.insert(item, events.len());
                    events.push(event);
                }
            }
        }
        let events: Vec<Event> = events.into_iter().flatten().collect();
        if events.is_empty() {
            return self.revision();
        }
        self.show_copied(revision, events);
        revision
    }
}

/// `None`: what is to go is not there.
fn event(revision: Revision, collection: &Collection, change: Copy, previous: Option<Arc<Entry>>) -> Option<Event> {
    let (kind, copied) = match change {
        Copy::Put(copied) if previous.is_some() => (Change::Modified, copied),
        Copy::Put(copied) => (Change::Created, copied),
        Copy::Delete(copied) => (Change::Deleted, copied),
    };
    if kind == Change::Deleted && previous.is_none() {
        return None;
    }
    let created = previous.as_ref().map_or(copied.modified, |entry| entry.created);
    let entry = Entry::new(copied.value, Bytes::new(), created, copied.modified).within(Keyspace::Volatile);
    let key = Key { collection: Arc::clone(collection), item: copied.item };
    Some(Event { revision, key, change: kind, entry: Arc::new(entry), previous })
}

impl Store for Replica {
    fn snapshot(&self) -> Snapshot {
        self.core().snapshot()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let way = self.core().way_to(revision)?;
        let (snapshot, folded) = way.run_kept();
        self.core().keep(folded);
        Ok(snapshot)
    }

    fn submit(&self, _: Txn, ack: Ack) {
        ack(Err(TxnError::Stopped("a copy takes no writes of its own".to_owned())));
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

    fn copied(item: &str, modified: u64) -> Copied {
        Copied { item: item.into(), value: format!("{item}@{modified}").into(), modified: Revision(modified) }
    }

    fn told(store: &Replica, after: Revision) -> Vec<(String, Change, u64, Option<u64>)> {
        let (events, _) = store.events(&"c".into(), after, 100).expect("kept");
        let told = |e: &Event| {
            (e.key.item.to_string(), e.change, e.entry.modified.0, e.previous.as_ref().map(|entry| entry.modified.0))
        };
        events.iter().map(told).collect()
    }

    #[test]
    fn entries_keep_the_revision_of_the_original() {
        let store = Replica::default();
        let first = store.apply(&"c".into(), [Copy::Put(copied("a", 900))]);
        assert_eq!(first, Revision::FIRST.next());
        assert_eq!(store.snapshot().get("c", "a").map(|entry| entry.modified), Some(Revision(900)));
        let second = store.apply(&"d".into(), [Copy::Put(copied("x", 7))]);
        assert_eq!(second, first.next(), "collections arrive independently");
        store.apply(&"c".into(), [Copy::Delete(copied("a", 901))]);
        assert_eq!(told(&store, first), [("a".to_owned(), Change::Deleted, 901, Some(900))]);
        assert_eq!(store.apply(&"c".into(), [Copy::Delete(copied("a", 902))]), store.snapshot().revision());
    }

    #[test]
    fn a_replacement_tells_only_what_differs() {
        let store = Replica::default();
        let before = store.replace(&"c".into(), vec![copied("a", 1), copied("b", 2), copied("gone", 3)]);
        let after = store.replace(&"c".into(), vec![copied("a", 1), copied("b", 5), copied("new", 6)]);
        assert_eq!(
            told(&store, before),
            [
                ("b".to_owned(), Change::Modified, 5, Some(2)),
                ("new".to_owned(), Change::Created, 6, None),
                ("gone".to_owned(), Change::Deleted, 3, Some(3)),
            ]
        );
        assert_eq!(store.replace(&"c".into(), vec![copied("a", 1), copied("b", 5), copied("new", 6)]), after);
        assert_eq!(store.replace(&"c".into(), Vec::new()), after.next());
        assert_eq!(store.snapshot().collections().count(), 0);
    }

    #[test]
    fn a_batch_has_one_event_for_an_item() {
        let store = Replica::default();
        let start = store.snapshot().revision();
        store.apply(&"c".into(), [Copy::Put(copied("a", 1)), Copy::Put(copied("a", 2)), Copy::Put(copied("b", 3))]);
        assert_eq!(
            told(&store, start),
            [("a".to_owned(), Change::Created, 2, None), ("b".to_owned(), Change::Created, 3, None)]
        );
        let before = store.snapshot().revision();
        store.apply(
            &"c".into(),
            [Copy::Put(copied("n", 4)), Copy::Delete(copied("n", 5)), Copy::Delete(copied("a", 6))],
        );
        assert_eq!(told(&store, before), [("a".to_owned(), Change::Deleted, 6, Some(2))]);
    }
}
