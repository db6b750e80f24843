//! One stored value.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::Revision;

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
    memo: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Entry {
    /// An entry that nobody has interpreted yet.
    pub fn new(value: Bytes, annex: Bytes, created: Revision, modified: Revision) -> Self {
        Self { value, annex, created, modified, memo: OnceLock::new() }
    }

    /// What `read` makes of the value, computed once per entry: the small typed index beside the bytes.
    /// All callers must ask for the same `T`; another type is computed anew each time.
    pub fn memo<T: Any + Send + Sync>(&self, read: impl Fn(&[u8]) -> T) -> Arc<T> {
        let slot = self.memo.get_or_init(|| Arc::new(read(&self.value)));
        match Arc::clone(slot).downcast::<T>() {
            Ok(memo) => memo,
            Err(_) => Arc::new(read(&self.value)),
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
