//! Passes everything on and writes it down.

use std::any::Any;
use std::io;
use std::sync::{Arc, Mutex};

use super::{Call, Vfs, VfsFile};

/// A directory whose changes are recorded, in order, as they happen.
pub struct RecordVfs {
    inner: Arc<dyn Vfs>,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Call>>>;

impl RecordVfs {
    /// Records what happens to `inner`.
    pub fn new(inner: Arc<dyn Vfs>) -> RecordVfs {
        RecordVfs { inner, calls: Calls::default() }
    }

    /// What was recorded so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// How much was recorded so far.
    pub fn len(&self) -> usize {
        self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).len()
    }

    /// Whether nothing was recorded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn file(&self, name: &str, inner: Box<dyn VfsFile>) -> Box<dyn VfsFile> {
        Box::new(RecordFile { name: name.to_owned(), inner, calls: self.calls.clone() })
    }
}

fn note(calls: &Calls, call: Call) {
    calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(call);
}

impl Vfs for RecordVfs {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        Ok(self.file(name, self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        let file = self.inner.create(name)?;
        note(&self.calls, Call::Create(name.to_owned()));
        Ok(self.file(name, file))
    }

    fn rewrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.rewrite(name, offset, bytes)?;
        note(&self.calls, Call::Rewrite(name.to_owned(), offset, bytes.to_vec()));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)?;
        note(&self.calls, Call::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)?;
        note(&self.calls, Call::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()?;
        note(&self.calls, Call::SyncDir);
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.inner.lock()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

struct RecordFile {
    name: String,
    inner: Box<dyn VfsFile>,
    calls: Calls,
}

impl VfsFile for RecordFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let before = self.inner.length()?;
        let outcome = self.inner.append(bytes);
        // A failed write may have written a part.
        let written = usize::try_from(self.inner.length()?.saturating_sub(before)).unwrap_or(usize::MAX);
        note(&self.calls, Call::Append(self.name.clone(), bytes[..written.min(bytes.len())].to_vec()));
        outcome
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, into)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.inner.truncate(length)?;
        note(&self.calls, Call::Truncate(self.name.clone(), length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let outcome = self.inner.sync();
        let name = self.name.clone();
        note(&self.calls, if outcome.is_ok() { Call::Sync(name) } else { Call::SyncFailed(name) });
        outcome
    }
}
