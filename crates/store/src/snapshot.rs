//! An immutable state of the store.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::{Collection, Entry, Key, Revision};

/// The items of one collection, ordered by name.
pub type Items = imbl::OrdMap<Arc<str>, Arc<Entry>>;

/// A state at one revision. Cloning is O(1); holding one keeps that state's memory.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(crate) revision: Revision,
    pub(crate) collections: imbl::OrdMap<Collection, Items>,
}

/// One difference between two states: name, entry before, entry after.
pub type Difference<'s> = (&'s Arc<str>, Option<&'s Arc<Entry>>, Option<&'s Arc<Entry>>);

impl Snapshot {
    /// The revision this is the state of.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// One item.
    pub fn get(&self, collection: &str, item: &str) -> Option<&Arc<Entry>> {
        self.collections.get(collection)?.get(item)
    }

    /// One item by its key.
    pub fn get_key(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.get(&key.collection, &key.item)
    }

    /// The items of a collection whose names start with `prefix`, in order, from `start` (inclusive) on.
    pub fn range<'s>(
        &'s self,
        collection: &str,
        prefix: &'s str,
        start: &'s str,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<Entry>)> {
        let from = if start > prefix { start } else { prefix };
        self.collections
            .get(collection)
            .into_iter()
            .flat_map(move |items| {
                items.range::<(Bound<&str>, Bound<&str>), str>((Bound::Included(from), Bound::Unbounded))
            })
            .take_while(move |(name, _)| name.starts_with(prefix))
    }

    /// All items of a collection, in order.
    pub fn items(&self, collection: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<Entry>)> {
        self.collections.get(collection).into_iter().flat_map(|items| items.iter())
    }

    /// The same as [`Snapshot::range`] for a prefix made on the spot.
    pub fn range_owned(
        &self,
        collection: &str,
        prefix: String,
        start: String,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<Entry>)> + use<'_> {
        let from = if start > prefix { start } else { prefix.clone() };
        self.collections
            .get(collection)
            .into_iter()
            .flat_map(move |items| {
                items.range::<(Bound<&str>, Bound<&str>), str>((Bound::Included(&*from), Bound::Unbounded))
            })
            .take_while(move |(name, _)| name.starts_with(&*prefix))
    }

    /// How many items a collection has.
    pub fn count(&self, collection: &str) -> usize {
        self.collections.get(collection).map_or(0, |items| items.len())
    }

    /// All collections that have items.
    pub fn collections(&self) -> impl Iterator<Item = &Collection> {
        self.collections.keys()
    }

    /// Whether a collection is the very same in both states (O(1); `false` may also mean merely rebuilt).
    pub fn is_same_collection(&self, other: &Snapshot, collection: &str) -> bool {
        match (self.collections.get(collection), other.collections.get(collection)) {
            (Some(a), Some(b)) => a.ptr_eq(b),
            (None, None) => true,
            _ => false,
        }
    }

    /// The collections that are not the very same in both states, in order: both are walked side by side.
    pub fn collections_changed(&self, other: &Snapshot) -> Vec<Collection> {
        let (mut ours, mut theirs) = (self.collections.iter().peekable(), other.collections.iter().peekable());
        let mut changed = Vec::new();
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return changed,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            let a = if order.is_le() { ours.next() } else { None };
            let b = if order.is_ge() { theirs.next() } else { None };
            let is_same = a.zip(b).is_some_and(|(a, b)| a.1.ptr_eq(b.1));
            changed.extend(a.or(b).filter(|_| !is_same).map(|(name, _)| Arc::clone(name)));
        }
    }

    /// How a collection differs from an earlier state of it, in order. Costs what changed, not what is there.
    pub fn changes_since<'s>(&'s self, earlier: &'s Snapshot, collection: &str) -> Vec<Difference<'s>> {
        match (earlier.collections.get(collection), self.collections.get(collection)) {
            (None, None) => Vec::new(),
            (Some(before), None) => before.iter().map(|(name, entry)| (name, Some(entry), None)).collect(),
            (None, Some(after)) => after.iter().map(|(name, entry)| (name, None, Some(entry))).collect(),
            (Some(before), Some(after)) => before
                .diff(after)
                .map(|item| match item {
                    DiffItem::Add(name, entry) => (name, None, Some(entry)),
                    DiffItem::Update { old: (_, old), new: (name, new) } => (name, Some(old), Some(new)),
                    DiffItem::Remove(name, entry) => (name, Some(entry), None),
                })
                .collect(),
        }
    }

    /// This state without the other collections: keeping it keeps only that collection's memory. O(1).
    pub fn only(&self, collection: &str) -> Snapshot {
        let kept = self.collections.get_key_value(collection);
        let collections = kept.map(|(name, items)| (Arc::clone(name), items.clone())).into_iter().collect();
        Snapshot { revision: self.revision, collections }
    }

    /// A state from its items, which are taken in as they come (in order is fastest).
    pub fn build(revision: Revision, items: impl IntoIterator<Item = (Key, Arc<Entry>)>) -> Snapshot {
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        items.into_iter().for_each(|(key, entry)| snapshot.put(&key, entry));
        snapshot
    }

    /// Sets one item. The key's own names are kept if they are new, so callers pass interned keys.
    pub(crate) fn put(&mut self, key: &Key, entry: Arc<Entry>) {
        match self.collections.get_mut(&*key.collection) {
            Some(items) => {
                items.insert(Arc::clone(&key.item), entry);
            }
            None => {
                let items = Items::unit(Arc::clone(&key.item), entry);
                self.collections.insert(Arc::clone(&key.collection), items);
            }
        }
    }

    /// Removes one item, and its collection when that was the last.
    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(items) = self.collections.get_mut(&*key.collection) else { return };
        items.remove(&*key.item);
        if items.is_empty() {
            self.collections.remove(&*key.collection);
        }
    }

    /// The same key with the names this state already holds in memory.
    pub(crate) fn intern(&self, key: Key) -> Key {
        let Some((collection, items)) = self.collections.get_key_value(&*key.collection) else { return key };
        let item = items.get_key_value(&*key.item).map_or(key.item, |(item, _)| Arc::clone(item));
        Key { collection: Arc::clone(collection), item }
    }
}
