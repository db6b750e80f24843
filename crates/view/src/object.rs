//! One object as a brain sees it.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;
use store::{Entry, Key, Revision};

use crate::{Facts, Meta};

/// A stored object with its decoded metadata. Cheap to clone.
#[derive(Clone)]
pub struct Object {
    /// Where it is stored.
    pub key: Key,
    entry: Arc<Entry>,
    facts: Arc<Facts>,
}

impl Object {
    /// The object that `entry` holds.
    pub fn new(key: Key, entry: Arc<Entry>) -> Object {
        let facts = entry.memo(Facts::read);
        Object { key, entry, facts }
    }

    /// Its metadata.
    pub fn meta(&self) -> &Meta {
        &self.facts.meta
    }

    /// Its bytes with their history marks and the change log beside them.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The revision that made it.
    pub fn created(&self) -> Revision {
        self.entry.created
    }

    /// The revision that last wrote it.
    pub fn revision(&self) -> Revision {
        self.entry.modified
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.entry.value
    }

    /// Its whole tree, decoded anew at every call (a tree is ten times as large as the bytes: never kept).
    pub fn tree(&self) -> Value {
        meta::stored::read(&self.entry.value).unwrap_or_default()
    }

    /// A compact projection of it, decoded once per stored revision and type. `read` must be a pure function of
    /// the bytes, the same one for the same `T`.
    pub fn project<T: Any + Send + Sync>(&self, read: impl Fn(&[u8]) -> T) -> Arc<T> {
        self.entry.memo(read)
    }
}
