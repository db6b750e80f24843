//! One stored value.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{Keyspace, Revision};

/// A value with its history marks. Immutable; shared by every snapshot and event that has it.
pub struct Entry {
    /// The value, with its own revision already written into it where the writer asked for that.
    pub value: Bytes,
    /// Opaque companion of the value (the change log); stored with it, not part of it.
    pub annex: Bytes,
    /// The revision that made the item.
    pub created: Revision,
    /// The revision that last wrote it.
    pub modified: Revision,
    keyspace: Keyspace,
    memo: Memo,
}

/// One interpretation of the value and, behind it, those of other readers. Readers are few (the index, the
/// authoriser), so a list beats a map.
#[derive(Default)]
struct Memo(OnceLock<Box<(Arc<dyn Any + Send + Sync>, Memo)>>);

impl Entry {
    /// A durable entry that nobody has interpreted yet.
    pub fn new(value: Bytes, annex: Bytes, created: Revision, modified: Revision) -> Self {
        Self { value, annex, created, modified, keyspace: Keyspace::Durable, memo: Memo::default() }
    }

    /// The same, living in `keyspace`.
    pub fn within(self, keyspace: Keyspace) -> Self {
        Self { keyspace, ..self }
    }

    /// Whether it survives a restart.
    pub fn keyspace(&self) -> Keyspace {
        self.keyspace
    }

    /// Whether it survives a restart.
    pub fn is_durable(&self) -> bool {
        self.keyspace == Keyspace::Durable
    }

    /// Bytes of value and annex.
    pub fn size(&self) -> usize {
        self.value.len().saturating_add(self.annex.len())
    }

    /// What `read` makes of the value, computed once per entry and type: the small typed index beside the bytes.
    /// `read` must be a pure function of the value, the same one for the same `T`.
    pub fn memo<T: Any + Send + Sync>(&self, read: impl Fn(&[u8]) -> T) -> Arc<T> {
        let mut slot = &self.memo;
        loop {
            let (memo, next) = &**slot.0.get_or_init(|| Box::new((Arc::new(read(&self.value)), Memo::default())));
            match Arc::clone(memo).downcast::<T>() {
                Ok(memo) => return memo,
                Err(_) => slot = next,
            }
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secrets: only their size is shown.
        write!(f, "Entry({} bytes, created {}, modified {})", self.value.len(), self.created, self.modified)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (&self.value, &self.annex, self.created, self.modified)
            == (&other.value, &other.annex, other.created, other.modified)
    }
}
