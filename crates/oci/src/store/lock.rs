//! Who works on a store: any number of processes that add to it, or one that removes from it.
//!
//! A process that pulls or imports holds `use.lock` shared. Who removes takes `sweep.lock`, so that only one does,
//! and makes its hold on `use.lock` exclusive. Making it exclusive gives it up for an instant; nobody can sweep in
//! that instant, since that would need `sweep.lock`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{FlockOperation, flock};

use crate::error::ImageError;

/// The locks of one opened store.
pub(crate) struct Locks {
    uses: Mutex<Uses>,
    sweep: File,
}

struct Uses {
    file: File,
    /// Works of this process going on.
    count: u64,
}

impl Locks {
    pub fn open(root: &Path) -> Result<Locks, ImageError> {
        let open = |name: &str| {
            let file = File::options().create(true).truncate(false).write(true).read(true).open(root.join(name));
            file.map_err(|e| ImageError::disk(format!("open {name}"), e))
        };
        Ok(Locks { uses: Mutex::new(Uses { file: open("use.lock")?, count: 0 }), sweep: open("sweep.lock")? })
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Begins a work that adds. Waits while another process removes, which is short; call it where one may block.
    pub fn begin(&self) -> Result<(), ImageError> {
        let mut uses = self.uses();
        if uses.count == 0 {
            lock(&uses.file, FlockOperation::LockShared)?;
        }
        uses.count += 1;
        Ok(())
    }

    /// Ends it.
    pub fn end(&self) {
        let mut uses = self.uses();
        uses.count = uses.count.saturating_sub(1);
        if uses.count == 0 {
            release(&uses.file);
        }
    }

    /// Runs `sweep` while no other process works on the store, and none of this one begins to.
    pub fn exclusively<T>(&self, sweep: impl FnOnce() -> T) -> Result<T, ImageError> {
        let uses = self.uses();
        if !attempt(&self.sweep, FlockOperation::NonBlockingLockExclusive)? {
            return Err(ImageError::Busy("another clean-up".to_owned()));
        }
        let done = match attempt(&uses.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(true) => Ok(sweep()),
            Ok(false) => Err(ImageError::Busy("a pull or an import".to_owned())),
            Err(error) => Err(error),
        };
        let restored = if uses.count > 0 {
            lock(&uses.file, FlockOperation::LockShared)
        } else {
            release(&uses.file);
            Ok(())
        };
        release(&self.sweep);
        restored.and(done)
    }
}

fn lock(file: &File, operation: FlockOperation) -> Result<(), ImageError> {
    loop {
        match flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(|e| ImageError::disk("lock the image store", io::Error::from(e))),
        }
    }
}

fn attempt(file: &File, operation: FlockOperation) -> Result<bool, ImageError> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(ImageError::disk("lock the image store", io::Error::from(errno))),
    }
}

fn release(file: &File) {
    // Unlocking an own file cannot fail; closing it would do the same.
    let _ = flock(file, FlockOperation::Unlock);
}
