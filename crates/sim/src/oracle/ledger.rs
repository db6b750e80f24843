//! The oracles' own copy of the world, folded from events alone. It shares no code with the views of controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use meta::ObjectExt;
use serde_json::Value;
use store::{Change, Event, Key, Revision, Snapshot};

use crate::dice::fnv;

/// An object as the oracles keep it.
#[derive(Clone)]
pub struct Kept {
    /// The object without `managedFields`.
    pub tree: Arc<Value>,
    /// Its bytes.
    pub bytes: Bytes,
    /// When it was last written.
    pub modified: Revision,
    /// Whether it survives a restart.
    pub durable: bool,
    /// Whether it was there from the beginning.
    pub is_original: bool,
}

/// The world as told by events.
#[derive(Clone, Default)]
pub struct Ledger {
    objects: BTreeMap<Key, Kept>,
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    by_uid: BTreeMap<String, Key>,
    by_namespace: BTreeMap<String, BTreeSet<Key>>,
    /// The sum of the objects' essences: two worlds that mean the same have the same.
    essence: u64,
    /// The newest revision told.
    pub revision: Revision,
}

impl Ledger {
    /// A copy of a state.
    pub fn of(snapshot: &Snapshot) -> Ledger {
        let mut ledger = Ledger { revision: snapshot.revision(), ..Ledger::default() };
        for collection in snapshot.collections() {
            for (item, entry) in snapshot.items(collection) {
                let key = Key { collection: Arc::clone(collection), item: Arc::clone(item) };
                ledger.put(key, Kept { is_original: true, ..kept(entry) });
            }
        }
        ledger
    }

    /// The same world after a restart, as a state has it: what was there from the beginning still was.
    pub fn anew(&self, snapshot: &Snapshot) -> Ledger {
        let mut ledger = Ledger::of(snapshot);
        for (key, kept) in &mut ledger.objects {
            kept.is_original = self.objects.get(key).is_some_and(|known| known.is_original);
        }
        ledger
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Takes in an event; the error says why it cannot follow what was told before.
    pub fn tell(&mut self, event: &Event) -> Result<(), String> {
        if event.revision < self.revision {
            return Err(format!("{} comes after {}", event.revision, self.revision));
        }
        self.revision = event.revision;
        let known = self.objects.get(&event.key);
        let fault = match (event.change, known) {
            (Change::Created, Some(_)) => Some("is created though it is there"),
            (Change::Modified | Change::Deleted, None) => Some("changes though it is not there"),
            (_, Some(known)) if event.previous.as_ref().is_none_or(|previous| previous.value != known.bytes) => {
                Some("changes from what it never was")
            }
            _ => None,
        };
        match event.change {
            Change::Deleted => self.remove(&event.key),
            Change::Created | Change::Modified => self.put(event.key.clone(), kept(&event.entry)),
        }
        match fault {
            Some(fault) => Err(format!("{} {fault} at {}", event.key, event.revision)),
            None => Ok(()),
        }
    }

    fn put(&mut self, key: Key, kept: Kept) {
        self.remove(&key);
        for owner in owner_uids(&kept.tree) {
            self.by_owner.entry(owner).or_default().insert(key.clone());
        }
        if !kept.tree.uid().is_empty() {
            self.by_uid.insert(kept.tree.uid().to_owned(), key.clone());
        }
        if let Some((namespace, _)) = key.item.split_once('/') {
            self.by_namespace.entry(namespace.to_owned()).or_default().insert(key.clone());
        }
        self.essence = self.essence.wrapping_add(essence_of(&key, &kept));
        self.objects.insert(key, kept);
    }

    fn remove(&mut self, key: &Key) {
        let Some(old) = self.objects.remove(key) else { return };
        for owner in owner_uids(&old.tree) {
            if let Some(owned) = self.by_owner.get_mut(&owner) {
                owned.remove(key);
                if owned.is_empty() {
                    self.by_owner.remove(&owner);
                }
            }
        }
        self.by_uid.remove(old.tree.uid());
        if let Some((namespace, _)) = key.item.split_once('/')
            && let Some(inside) = self.by_namespace.get_mut(namespace)
        {
            inside.remove(key);
        }
        self.essence = self.essence.wrapping_sub(essence_of(key, &old));
    }

    /// A number that is the same for two states that mean the same.
    pub fn essence(&self) -> u64 {
        self.essence
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Kept> {
        self.objects.get(key)
    }

    /// One object by its names; `namespace` may be empty.
    pub fn find(&self, collection: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&brain::key(collection, namespace, name)).map(|kept| &kept.tree)
    }

    /// Whoever has this uid.
    pub fn living(&self, uid: &str) -> Option<&Arc<Value>> {
        self.by_uid.get(uid).and_then(|key| self.objects.get(key)).map(|kept| &kept.tree)
    }

    /// Whoever has this uid, and its key.
    pub fn living_key(&self, uid: &str) -> Option<(&Key, &Value)> {
        let key = self.by_uid.get(uid)?;
        self.objects.get(key).map(|kept| (key, &*kept.tree))
    }

    /// The keys of the objects that name `uid` among their owners.
    pub fn owned_keys(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.by_owner.get(uid).into_iter().flatten()
    }

    /// The keys of everything in a namespace.
    pub fn keys_of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    fn range<'l>(
        &'l self,
        collection: &'l str,
        namespace: &str,
    ) -> impl Iterator<Item = (&'l Key, &'l Kept)> + use<'l> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let from = Key::new(collection, &*prefix);
        let inside = move |(key, _): &(&Key, &Kept)| &*key.collection == collection && key.item.starts_with(&prefix);
        self.objects.range(from..).take_while(inside)
    }

    /// The keys of a collection's objects, in a namespace or (empty) in all.
    pub fn keys_in<'l>(&'l self, collection: &'l str, namespace: &str) -> impl Iterator<Item = &'l Key> + use<'l> {
        self.range(collection, namespace).map(|(key, _)| key)
    }

    /// The objects of a collection in a namespace.
    pub fn list_in<'l>(
        &'l self,
        collection: &'l str,
        namespace: &str,
    ) -> impl Iterator<Item = &'l Arc<Value>> + use<'l> {
        self.range(collection, namespace).map(|(_, kept)| &kept.tree)
    }

    /// The objects of a collection.
    pub fn list<'l>(&'l self, collection: &'l str) -> impl Iterator<Item = &'l Arc<Value>> {
        self.list_in(collection, "")
    }

    /// The objects that name `uid` among their owners, of one collection.
    pub fn owned<'l>(&'l self, uid: &str, collection: &'l str) -> impl Iterator<Item = &'l Arc<Value>> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter(move |key| &*key.collection == collection).filter_map(|key| self.objects.get(key)).map(|k| &k.tree)
    }

    /// Everything.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Kept)> {
        self.objects.iter()
    }

    /// What differs from a state, leaving out `except`; volatile objects count only if `with_volatile`.
    pub fn difference(&self, snapshot: &Snapshot, except: &BTreeSet<Key>, with_volatile: bool) -> Option<String> {
        for (key, kept) in
            self.objects.iter().filter(|(key, kept)| (kept.durable || with_volatile) && !except.contains(key))
        {
            match snapshot.get_key(key) {
                None => return Some(format!("{key} is missing")),
                Some(entry) if entry.modified != kept.modified || entry.value != kept.bytes => {
                    return Some(format!("{key} is of {} instead of {}", entry.modified, kept.modified));
                }
                Some(_) => {}
            }
        }
        for collection in snapshot.collections() {
            for (item, entry) in snapshot.items(collection).filter(|(_, entry)| entry.is_durable() || with_volatile) {
                let key = Key { collection: Arc::clone(collection), item: Arc::clone(item) };
                if !self.objects.contains_key(&key) && !except.contains(&key) {
                    return Some(format!("{key} of {} is there", entry.modified));
                }
            }
        }
        None
    }
}

fn kept(entry: &store::Entry) -> Kept {
    Kept {
        tree: Arc::new(parse(&entry.value)),
        bytes: entry.value.clone(),
        modified: entry.modified,
        durable: entry.is_durable(),
        is_original: false,
    }
}

/// A hash of what an object means: no identities, counters or times.
fn essence_of(key: &Key, kept: &Kept) -> u64 {
    if !kept.durable {
        return 0;
    }
    let name = if kept.tree.controller_ref().is_some() { "" } else { &key.item };
    essence(&kept.tree, fnv(fnv(0xcbf2_9ce4_8422_2325, key.collection.as_bytes()), name.as_bytes()))
}

fn essence(value: &Value, hash: u64) -> u64 {
    const PASSING: &[&str] = &["uid", "resourceVersion", "generation", "observedGeneration", "name", "generateName"];
    match value {
        Value::Object(map) => map.iter().fold(hash, |hash, (field, value)| {
            if PASSING.contains(&field.as_str())
                || field.ends_with("Time")
                || field.ends_with("Timestamp")
                || field.ends_with("At")
            {
                return hash;
            }
            essence(value, fnv(hash, field.as_bytes()))
        }),
        Value::Array(items) => items.iter().fold(fnv(hash, b"["), |hash, item| essence(item, hash)),
        Value::String(text) => fnv(hash, text.as_bytes()),
        other => fnv(hash, other.to_string().as_bytes()),
    }
}

/// An object without the record of its fields' owners, which is half of its bytes.
pub fn parse(bytes: &[u8]) -> Value {
    let mut tree: Value = serde_json::from_slice(bytes).unwrap_or_default();
    tree.remove(&["metadata", "managedFields"]);
    tree
}

fn owner_uids(tree: &Value) -> Vec<String> {
    tree.owner_references().iter().map(|owner| owner.text(&["uid"]).to_owned()).collect()
}
