//! The narrow window to the medium: one directory of flat files that are only ever appended to, cut, renamed and
//! removed. Everything the store does outside memory passes here, so it can be recorded, simulated and broken.

#[cfg(any(test, feature = "testing"))]
mod medium;
mod real;
#[cfg(any(test, feature = "testing"))]
mod record;
#[cfg(any(test, feature = "testing"))]
mod sim;

use std::any::Any;
use std::io;

#[cfg(any(test, feature = "testing"))]
pub use medium::{Call, Medium, SECTOR, Trouble};
pub use real::RealVfs;
#[cfg(any(test, feature = "testing"))]
pub use record::RecordVfs;
#[cfg(any(test, feature = "testing"))]
pub use sim::SimVfs;

/// A directory of files. Names are plain file names.
pub trait Vfs: Send + Sync {
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Box<dyn VfsFile>>;
    /// Makes a new, empty file; fails if there is one. The name is durable after [`Vfs::sync_dir`].
    fn create(&self, name: &str) -> io::Result<Box<dyn VfsFile>>;
    /// Writes once more what stands in a file at `offset`, so that the next sync covers it. Cannot make it longer.
    fn rewrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Renames a file, replacing what has the new name. Durable after [`Vfs::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after [`Vfs::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this process until the lock is dropped; `WouldBlock` if another has it.
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// How the directory is called in messages.
    fn describe(&self) -> String;
}

/// An open file.
pub trait VfsFile: Send + Sync {
    /// Writes at the end, all or with an error; after an error any part may have been written.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Reads at an offset; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Cuts the file. Durable after [`VfsFile::sync`].
    fn truncate(&self, length: u64) -> io::Result<()>;
    /// Makes the content and the length durable (`fdatasync`), not the name.
    fn sync(&self) -> io::Result<()>;
}

/// Reads a whole file into `into`, which is overwritten.
pub(crate) fn read_all(file: &dyn VfsFile, into: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(file.length()?).map_err(io::Error::other)?;
    into.resize(length, 0);
    let read = file.read_at(0, into)?;
    into.truncate(read);
    Ok(())
}
