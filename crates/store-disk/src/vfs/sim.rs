//! The window to a simulated medium.

use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Medium, Trouble, Vfs, VfsFile};

/// A directory on a simulated medium.
pub struct SimVfs {
    medium: Arc<Mutex<Medium>>,
    locked: Arc<AtomicBool>,
}

impl SimVfs {
    /// A directory with what is on `medium`.
    pub fn new(medium: Medium) -> SimVfs {
        SimVfs { medium: Arc::new(Mutex::new(medium)), locked: Arc::default() }
    }

    /// A copy of the medium as it is now.
    pub fn medium(&self) -> Medium {
        guard(&self.medium).clone()
    }

    /// Sends trouble.
    pub fn trouble(&self, trouble: Trouble) {
        guard(&self.medium).send(trouble);
    }
}

fn guard(medium: &Mutex<Medium>) -> MutexGuard<'_, Medium> {
    medium.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct SimFile {
    medium: Arc<Mutex<Medium>>,
    inode: usize,
}

struct SimLock(Arc<AtomicBool>);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl SimVfs {
    fn file(&self, inode: usize) -> Box<dyn VfsFile> {
        Box::new(SimFile { medium: self.medium.clone(), inode })
    }
}

impl Vfs for SimVfs {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(guard(&self.medium).names())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        let inode = guard(&self.medium).inode(name)?;
        Ok(self.file(inode))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        let inode = guard(&self.medium).create(name)?;
        Ok(self.file(inode))
    }

    fn rewrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        guard(&self.medium).rewrite(name, usize::try_from(offset).unwrap_or(usize::MAX), bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        guard(&self.medium).rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        guard(&self.medium).remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        guard(&self.medium).sync_dir();
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        if self.locked.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock(self.locked.clone())))
    }

    fn describe(&self) -> String {
        "simulated".to_owned()
    }
}

impl VfsFile for SimFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        guard(&self.medium).append(self.inode, bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let medium = guard(&self.medium);
        let content = medium.content(self.inode);
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let read = into.len().min(content.len() - from);
        into[..read].copy_from_slice(&content[from..from + read]);
        Ok(read)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(guard(&self.medium).content(self.inode).len() as u64)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        guard(&self.medium).truncate(self.inode, length);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        guard(&self.medium).sync(self.inode)
    }
}
