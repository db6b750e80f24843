//! Names of things in the store.

use std::fmt;
use std::sync::Arc;

/// The store's clock: one more for every committed transaction, never reused, also not across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a new, empty store. Not 0, because clients read "0" as "any revision will do".
    pub const FIRST: Revision = Revision(1);

    /// The one after this.
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A named set of items that is listed and watched together, e.g. `apps/deployments`.
pub type Collection = Arc<str>;

/// Whether a collection survives a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyspace {
    /// Logged and synced before it is acknowledged.
    Durable,
    /// In memory only: never touches the medium (heartbeats, events).
    Volatile,
}

/// An item's full name. Items sort bytewise inside their collection; a namespaced item is `namespace/name`, so
/// that a namespace is the prefix `namespace/` and never a prefix of another namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The set it belongs to.
    pub collection: Collection,
    /// Its name inside the set.
    pub item: Arc<str>,
}

impl Key {
    /// From its two parts.
    pub fn new(collection: impl Into<Collection>, item: impl Into<Arc<str>>) -> Self {
        Self { collection: collection.into(), item: item.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.item)
    }
}
