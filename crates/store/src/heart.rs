//! The pure heart that every engine drives: takes transactions onto a pending head, makes them visible when the
//! engine says they are durable, keeps the past.
//!
//! The pending head is the visible state plus an overlay of what waits, not a second map: a second map would
//! share its nodes with the first, and every insert would copy its path.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::history::{Fold, Folded, History, redo};
use crate::pending::{Pending, Replayed};
use crate::{
    Change, Collection, Committed, Entry, Event, Key, Keyspace, Limits, Mutant, Op, Precondition, ReadError, Revision,
    Snapshot, Txn, TxnError,
};

/// What became visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The newest visible revision.
    pub revision: Revision,
    /// The collections that changed, each once.
    pub collections: Vec<Collection>,
}

/// A transaction that waits to become visible.
struct Waiting {
    revision: Revision,
    events: Arc<[Event]>,
    bytes: usize,
}

/// What waits for one item: the revision that wrote it and what it wrote (`None` for a deletion).
type Overlaid = (Revision, Option<Arc<Entry>>);

/// State, pending writes and past of one store.
pub struct Core {
    limits: Limits,
    visible: Snapshot,
    head: Revision,
    overlay: BTreeMap<Collection, BTreeMap<Arc<str>, Overlaid>>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    pub(crate) history: History,
}

impl Core {
    /// An empty store at [`Revision::FIRST`].
    pub fn new(limits: Limits) -> Core {
        Core::from_snapshot(limits, Snapshot { revision: Revision::FIRST, ..Snapshot::default() })
    }

    /// A store whose past begins at `snapshot`. O(1).
    pub fn from_snapshot(limits: Limits, snapshot: Snapshot) -> Core {
        Core {
            limits,
            head: snapshot.revision,
            history: History::new(limits, &snapshot),
            visible: snapshot,
            overlay: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// The bounds it works within.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The newest revision handed out, visible or not.
    pub fn head(&self) -> Revision {
        self.head
    }

    /// The newest visible state.
    pub fn snapshot(&self) -> Snapshot {
        self.visible.clone()
    }

    /// The newest visible revision.
    pub fn revision(&self) -> Revision {
        self.visible.revision
    }

    /// The oldest revision that can be read.
    pub fn oldest(&self) -> Revision {
        self.history.oldest()
    }

    /// How many transactions wait to become visible.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a transaction onto the pending head: later transactions see it, readers do not yet.
    ///
    /// # Errors
    /// `Overloaded`, `Invalid` or `Failed`; then nothing has changed.
    pub fn apply(&mut self, txn: Txn) -> Result<Pending, TxnError> {
        self.check_room()?;
        let bytes = crate::check::shape(&txn, &self.limits)?;
        let looked_at = if self.limits.has(Mutant::FirstPrecondition) { 1 } else { usize::MAX };
        let mut preconditions = txn.preconditions.iter().take(looked_at);
        if let Some(failed) = preconditions.find(|precondition| !self.holds(precondition)) {
            return Err(TxnError::Failed(failed.clone()));
        }
        let revision = self.head.next();
        let mut entries = Vec::with_capacity(txn.ops.len());
        let mut events = Vec::with_capacity(txn.ops.len());
        for op in txn.ops {
            let (entry, event) = self.stage(op, revision);
            entries.push(entry);
            events.extend(event);
        }
        if events.is_empty() {
            let committed = Committed { revision: self.head, entries };
            return Ok(Pending { committed, events: Arc::from([]) });
        }
        Ok(self.enqueue(Committed { revision, entries }, events.into(), bytes))
    }

    fn check_room(&self) -> Result<(), TxnError> {
        let full =
            self.waiting.len() >= self.limits.pending_txns_max || self.waiting_bytes >= self.limits.pending_bytes_max;
        if full { Err(TxnError::Overloaded) } else { Ok(()) }
    }

    fn enqueue(&mut self, committed: Committed, events: Arc<[Event]>, bytes: usize) -> Pending {
        let revision = committed.revision;
        for event in events.iter() {
            let after = (event.change != Change::Deleted).then(|| event.entry.clone());
            let items = self.overlay.entry(event.key.collection.clone()).or_default();
            items.insert(event.key.item.clone(), (revision, after));
        }
        self.head = revision;
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { revision, events: events.clone(), bytes });
        Pending { committed, events }
    }

    /// The item as the next transaction sees it.
    fn current(&self, key: &Key) -> Option<&Arc<Entry>> {
        match self.overlay.get(&*key.collection).and_then(|items| items.get(&*key.item)) {
            Some((_, entry)) if !self.limits.has(Mutant::StalePreconditions) => entry.as_ref(),
            _ => self.visible.get_key(key),
        }
    }

    /// What one operation does at `revision`: the entry it writes and the event, if it changes anything.
    fn stage(&self, op: Op, revision: Revision) -> (Option<Arc<Entry>>, Option<Event>) {
        match op {
            Op::Put { key, value, annex, stamp_at, keyspace } => {
                let value = stamp(value, stamp_at, revision);
                let event = self.put(key, value, annex, keyspace, revision, None);
                (Some(event.entry.clone()), Some(event))
            }
            Op::Delete { key, last } => {
                let last = last.map(|(value, stamp_at)| stamp(value, stamp_at, revision));
                (None, self.delete(key, last, revision))
            }
        }
    }

    fn put(
        &self,
        key: Key,
        value: Bytes,
        annex: Bytes,
        keyspace: Keyspace,
        revision: Revision,
        created: Option<Revision>,
    ) -> Event {
        let previous = self.current(&key).cloned();
        let created = created.or(previous.as_ref().map(|entry| entry.created)).unwrap_or(revision);
        let change = if previous.is_some() { Change::Modified } else { Change::Created };
        let entry = Arc::new(Entry::new(value, annex, created, revision).within(keyspace));
        Event { revision, key: self.visible.intern(key), change, entry, previous }
    }

    fn delete(&self, key: Key, last: Option<Bytes>, revision: Revision) -> Option<Event> {
        let previous = self.current(&key).cloned()?;
        let value = last.unwrap_or_else(|| previous.value.clone());
        let entry = Entry::new(value, previous.annex.clone(), previous.created, revision).within(previous.keyspace());
        let key = self.visible.intern(key);
        Some(Event { revision, key, change: Change::Deleted, entry: Arc::new(entry), previous: Some(previous) })
    }

    fn holds(&self, precondition: &Precondition) -> bool {
        match precondition {
            Precondition::Absent(key) => self.current(key).is_none(),
            Precondition::ModifiedAt(key, revision) => {
                self.current(key).is_some_and(|entry| entry.modified == *revision)
            }
            Precondition::UnchangedSince { prefix, revision } => self.is_unchanged(prefix, *revision),
        }
    }

    fn is_unchanged(&self, prefix: &Key, since: Revision) -> bool {
        // A revision that was not handed out yet cannot have been read.
        if since > self.head || since < self.history.floor(&prefix.collection) {
            return false;
        }
        let from = (Bound::Included(&*prefix.item), Bound::Unbounded);
        let waiting = self.overlay.get(&*prefix.collection).into_iter().flat_map(|items| items.range::<str, _>(from));
        let mut waiting = waiting.take_while(|(item, _)| item.starts_with(&*prefix.item));
        if waiting.any(|(_, (revision, _))| *revision > since) {
            return false;
        }
        self.history.last_change(&prefix.collection, &prefix.item, since).is_none()
    }

    /// Makes everything up to `through` visible, in order.
    pub fn publish(&mut self, through: Revision) -> Published {
        let mut collections = Vec::new();
        while self.waiting.front().is_some_and(|txn| txn.revision <= through) {
            let Some(txn) = self.waiting.pop_front() else { break };
            self.waiting_bytes = self.waiting_bytes.saturating_sub(txn.bytes);
            txn.events.iter().for_each(|event| self.uncover(event));
            self.show(txn.revision, txn.events.iter().cloned());
            let told = if self.limits.has(Mutant::FirstCollection) { 1 } else { usize::MAX };
            for event in txn.events.iter().take(told) {
                if !collections.contains(&event.key.collection) {
                    collections.push(event.key.collection.clone());
                }
            }
        }
        Published { revision: self.visible.revision, collections }
    }

    /// Takes an event off the overlay, unless a later write of the same item waits.
    fn uncover(&mut self, event: &Event) {
        let Some(items) = self.overlay.get_mut(&*event.key.collection) else { return };
        if items.get(&*event.key.item).is_some_and(|(revision, _)| *revision == event.revision) {
            items.remove(&*event.key.item);
        }
        if items.is_empty() {
            self.overlay.remove(&*event.key.collection);
        }
    }

    fn show(&mut self, revision: Revision, events: impl Iterator<Item = Event>) {
        for event in events {
            redo(&mut self.visible, &event);
            self.history.push(event);
        }
        self.visible.revision = revision;
        self.history.settle(&self.visible);
    }

    /// The way to the state at exactly `revision`: take it under the lock, walk it outside.
    ///
    /// # Errors
    /// When the revision is compacted or not yet visible.
    pub fn way_to(&self, revision: Revision) -> Result<Fold, ReadError> {
        self.history.way_to(revision, &self.visible)
    }

    /// Keeps a state that was folded, for the next read of the same revision.
    pub fn keep(&mut self, folded: Folded) {
        self.history.keep(folded);
    }

    /// See [`crate::Store::events`].
    ///
    /// # Errors
    /// When `after` is compacted for this collection or not yet visible.
    pub fn events(&self, collection: &str, after: Revision, limit: usize) -> Result<(Vec<Event>, Revision), ReadError> {
        self.history.events(collection, after, limit, self.visible.revision)
    }

    /// See [`crate::Store::compact`]. Only the past is dropped, never a living item.
    pub fn compact(&mut self, through: Revision) {
        self.history.compact(through.min(self.visible.revision));
    }

    /// Recovery: applies one logged transaction, which is durable and so visible at once. Returns its events.
    ///
    /// # Errors
    /// When the revision does not come after the visible one, which means that the log is not this store's.
    pub fn replay(&mut self, revision: Revision, changes: Vec<Replayed>) -> Result<Vec<Event>, TxnError> {
        if revision <= self.visible.revision || !self.waiting.is_empty() {
            let text = format!("revision {revision} cannot follow revision {}", self.visible.revision);
            return Err(TxnError::Invalid(text));
        }
        let mut events = Vec::with_capacity(changes.len());
        for change in changes {
            events.extend(match change {
                Replayed::Put { key, value, annex, created } => {
                    Some(self.put(key, value, annex, Keyspace::Durable, revision, Some(created)))
                }
                Replayed::Delete { key, last } => self.delete(key, last, revision),
            });
        }
        self.head = revision;
        self.show(revision, events.iter().cloned());
        Ok(events)
    }

    /// The visible entry of an item.
    pub(crate) fn visible_entry(&self, collection: &str, item: &str) -> Option<Arc<Entry>> {
        self.visible.get(collection, item).cloned()
    }

    /// Shows events that another store's revisions stand in.
    pub(crate) fn show_copied(&mut self, revision: Revision, events: Vec<Event>) {
        self.head = revision;
        let interned: Vec<Event> =
            events.into_iter().map(|event| Event { key: self.visible.intern(event.key), ..event }).collect();
        self.show(revision, interned.into_iter());
    }

    /// Recovery, after the last `replay`: the new life starts at `revision` or where the log ended, whichever is
    /// later. States of the former life can no longer be read, because its volatile items are unknown; its
    /// durable events can be resumed, except in collections that had volatile items.
    pub fn begin_life(&mut self, revision: Revision, volatile: impl IntoIterator<Item = Collection>) {
        self.head = self.head.max(revision);
        self.visible.revision = self.head;
        self.history.unread_before(&self.visible);
        for collection in volatile {
            self.history.lose(&collection, self.head);
        }
    }
}

/// Inserts the revision, in decimal, where the writer left room for it.
fn stamp(value: Bytes, at: Option<u32>, revision: Revision) -> Bytes {
    let Some((before, after)) = at.and_then(|at| value.split_at_checked(at as usize)) else { return value };
    let digits = revision.to_string();
    let mut stamped = Vec::with_capacity(value.len() + digits.len());
    stamped.extend_from_slice(before);
    stamped.extend_from_slice(digits.as_bytes());
    stamped.extend_from_slice(after);
    stamped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(item: &str, preconditions: Vec<Precondition>) -> Txn {
        let key = Key::new("c", item);
        let put = Op::Put { key, value: "v".into(), annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable };
        Txn { preconditions, ops: vec![put] }
    }

    #[test]
    fn preconditions_see_what_is_not_yet_durable() {
        let mut core = Core::new(Limits::default());
        let key = Key::new("c", "ns/a");
        let first = core.apply(put("ns/a", vec![Precondition::Absent(key.clone())])).expect("absent").revision();
        assert_eq!(core.snapshot().count("c"), 0, "readers do not see it");
        let absent = Precondition::Absent(key.clone());
        assert_eq!(core.apply(put("ns/a", vec![absent.clone()])).err(), Some(TxnError::Failed(absent)));
        let unchanged = |revision| Precondition::UnchangedSince { prefix: Key::new("c", "ns/"), revision };
        let since = unchanged(Revision::FIRST);
        assert_eq!(core.apply(put("x", vec![since.clone()])).err(), Some(TxnError::Failed(since)));
        let second = core.apply(put("ns/a", vec![Precondition::ModifiedAt(key.clone(), first), unchanged(first)]));
        let second = second.expect("the pending write is what it is compared with").revision();
        assert_eq!(core.publish(first), Published { revision: first, collections: vec!["c".into()] });
        assert_eq!(core.snapshot().get_key(&key).map(|entry| entry.modified), Some(first));
        let stale = Precondition::ModifiedAt(key.clone(), first);
        assert_eq!(core.apply(put("ns/a", vec![stale.clone()])).err(), Some(TxnError::Failed(stale)));
        core.publish(second);
        assert!(core.overlay.is_empty() && core.waiting_bytes == 0, "nothing stays behind");
    }

    #[test]
    fn a_pending_deletion_is_an_absence() {
        let mut core = Core::new(Limits::default());
        let key = Key::new("c", "a");
        let first = core.apply(put("a", vec![])).expect("committed").revision();
        core.publish(first);
        core.apply(Txn { preconditions: vec![], ops: vec![Op::Delete { key: key.clone(), last: None }] })
            .expect("gone");
        let made = core.apply(put("a", vec![Precondition::Absent(key)])).expect("absent again");
        assert_eq!(made.events()[0].change, Change::Created);
        assert_eq!(core.publish(made.revision()).revision, Revision(4));
    }

    #[test]
    fn a_full_queue_is_overload() {
        let mut core = Core::new(Limits { pending_txns_max: 2, ..Limits::default() });
        let first = core.apply(put("a", vec![])).expect("room").revision();
        core.apply(put("b", vec![])).expect("room");
        assert_eq!(core.apply(put("d", vec![])).err(), Some(TxnError::Overloaded));
        core.publish(first);
        assert!(core.apply(put("d", vec![])).is_ok());
        let mut core = Core::new(Limits { pending_bytes_max: 2, ..Limits::default() });
        core.apply(put("a", vec![])).expect("room");
        assert_eq!(core.apply(put("b", vec![])).err(), Some(TxnError::Overloaded));
    }

    #[test]
    fn a_new_life_forgets_volatile_collections() {
        let mut core = Core::new(Limits::default());
        let put = |value: &'static str| Replayed::Put {
            key: Key::new("c", "a"),
            value: value.into(),
            annex: "".into(),
            created: Revision(2),
        };
        core.replay(Revision(2), vec![put("1")]).expect("in order");
        core.replay(Revision(9), vec![put("2")]).expect("revisions of volatile writes are missing");
        assert!(core.replay(Revision(9), vec![put("3")]).is_err());
        core.begin_life(Revision(100), ["v".into()]);
        assert_eq!(core.events("c", Revision(2), 9).map(|(events, through)| (events.len(), through.0)), Ok((1, 100)));
        assert_eq!(core.events("v", Revision(99), 9), Err(ReadError::Compacted { oldest: Revision(100) }));
        assert!(core.way_to(Revision(99)).is_err() && core.way_to(Revision(100)).is_ok());
    }

    #[test]
    fn giving_up_events_does_not_bring_back_what_was_lost() {
        let mut core = Core::new(Limits { history_events_max: 2, ..Limits::default() });
        for revision in [2, 3] {
            let key = Key::new("c", "a");
            let put = Replayed::Put { key, value: "v".into(), annex: "".into(), created: Revision(2) };
            core.replay(Revision(revision), vec![put]).expect("in order");
        }
        core.begin_life(Revision(100), ["c".into()]);
        let made = core.apply(put("b", vec![])).expect("committed");
        core.publish(made.revision());
        assert_eq!(core.events("c", Revision(99), 9), Err(ReadError::Compacted { oldest: Revision(100) }));
    }
}
