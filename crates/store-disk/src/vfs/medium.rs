//! A simulated medium: what was written, what of it is durable, and every state a power loss may leave.
//!
//! The model, deliberately worse than any file system we know: until a file is synced each 512-byte piece of each
//! unsynced write is on the medium or not, independently; the length may be that of what is there, or the full
//! length with zeros for what is not; each unsynced creation, rename and removal has happened or not,
//! independently. A sync that failed has dropped what it should have written, and the next one succeeds.

use std::collections::BTreeMap;
use std::io;

/// What a medium writes wholly or not at all.
pub const SECTOR: usize = 512;

/// One change of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A file was made.
    Create(String),
    /// Bytes were appended to a file.
    Append(String, Vec<u8>),
    /// Bytes of a file were written once more.
    Rewrite(String, u64, Vec<u8>),
    /// A file was cut.
    Truncate(String, u64),
    /// A file was synced.
    Sync(String),
    /// A sync failed, and dropped what it should have written.
    SyncFailed(String),
    /// A file was renamed.
    Rename(String, String),
    /// A file was removed.
    Remove(String),
    /// The directory was synced.
    SyncDir,
}

/// Trouble to come, counted from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The how manieth file sync fails (1 is the next).
    pub sync_fails_in: Option<u64>,
    /// The how manieth append fails, after writing half of it.
    pub append_fails_in: Option<u64>,
    /// How many more bytes there is room for.
    pub room_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
enum Write {
    Data { at: usize, bytes: Vec<u8> },
    Cut { length: usize },
}

#[derive(Clone, Debug, Default)]
struct Inode {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Write>,
}

#[derive(Clone, Debug)]
enum DirWrite {
    Link { name: String, inode: usize },
    Move { from: String, to: String, inode: usize },
    Unlink { name: String },
}

/// One directory's content, current and durable.
#[derive(Clone, Debug, Default)]
pub struct Medium {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending_names: Vec<DirWrite>,
    trouble: Trouble,
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, name.to_owned())
}

/// Counts down; true when it reaches zero, once.
fn strikes(counter: &mut Option<u64>) -> bool {
    match counter {
        Some(1) => {
            *counter = None;
            true
        }
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// The pieces of a write that are written wholly or not at all.
fn pieces(at: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let head = (SECTOR - at % SECTOR).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    let rest = rest.chunks(SECTOR).enumerate().map(move |(index, chunk)| (at + head + index * SECTOR, chunk));
    std::iter::once((at, first)).chain(rest).filter(|(_, piece)| !piece.is_empty())
}

fn overwrite(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[at..end].copy_from_slice(bytes);
}

impl Inode {
    fn write(&mut self, bytes: &[u8]) {
        self.pending.push(Write::Data { at: self.current.len(), bytes: bytes.to_vec() });
        self.current.extend_from_slice(bytes);
    }

    fn cut(&mut self, length: usize) {
        self.current.resize(length, 0);
        self.pending.push(Write::Cut { length });
    }

    /// Writes what is pending. What a failed sync dropped stays missing, whatever readers see.
    pub(super) fn sync(&mut self) {
        for write in self.pending.drain(..) {
            match write {
                Write::Cut { length } => self.durable.resize(length, 0),
                Write::Data { at, bytes } => overwrite(&mut self.durable, at, &bytes),
            }
        }
    }

    fn units(&self) -> usize {
        let units = |write: &Write| match write {
            Write::Data { at, bytes } => pieces(*at, bytes).count(),
            Write::Cut { .. } => 1,
        };
        self.pending.iter().map(units).sum()
    }

    fn crashed(&self, pick: &mut dyn FnMut() -> bool, full_length: bool) -> Vec<u8> {
        let mut content = self.durable.clone();
        for write in &self.pending {
            match write {
                Write::Cut { length } => {
                    if pick() {
                        content.resize(*length, 0);
                    }
                }
                Write::Data { at, bytes } => {
                    let written = pieces(*at, bytes).filter(|_| pick());
                    written.for_each(|(at, piece)| overwrite(&mut content, at, piece));
                    if full_length {
                        content.resize(content.len().max(at + bytes.len()), 0);
                    }
                }
            }
        }
        content
    }
}

impl Medium {
    /// Does one recorded call.
    pub fn apply(&mut self, call: &Call) -> io::Result<()> {
        match call {
            Call::Create(name) => self.create(name).map(drop),
            Call::Append(name, bytes) => {
                let inode = self.inode(name)?;
                self.append(inode, bytes)
            }
            Call::Rewrite(name, offset, bytes) => {
                self.rewrite(name, usize::try_from(*offset).unwrap_or(usize::MAX), bytes)
            }
            Call::Truncate(name, length) => {
                let inode = self.inode(name)?;
                self.truncate(inode, *length);
                Ok(())
            }
            Call::Sync(name) => {
                let inode = self.inode(name)?;
                self.inodes[inode].sync();
                Ok(())
            }
            Call::SyncFailed(name) => {
                let inode = self.inode(name)?;
                self.inodes[inode].pending.clear();
                Ok(())
            }
            Call::Rename(from, to) => self.rename(from, to),
            Call::Remove(name) => self.remove(name),
            Call::SyncDir => {
                self.sync_dir();
                Ok(())
            }
        }
    }

    pub(super) fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| missing(name))
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<usize> {
        if self.names.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, name.to_owned()));
        }
        let inode = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(name.to_owned(), inode);
        self.pending_names.push(DirWrite::Link { name: name.to_owned(), inode });
        Ok(inode)
    }

    pub(super) fn append(&mut self, inode: usize, bytes: &[u8]) -> io::Result<()> {
        let full = self.trouble.room_bytes.is_some_and(|room| room < bytes.len() as u64);
        if strikes(&mut self.trouble.append_fails_in) || full {
            self.inodes[inode].write(&bytes[..bytes.len() / 2]);
            return Err(io::Error::other("simulated: the write failed"));
        }
        if let Some(room) = &mut self.trouble.room_bytes {
            *room -= bytes.len() as u64;
        }
        self.inodes[inode].write(bytes);
        Ok(())
    }

    pub(super) fn rewrite(&mut self, name: &str, at: usize, bytes: &[u8]) -> io::Result<()> {
        let inode = self.inode(name)?;
        let content = &mut self.inodes[inode];
        if at.checked_add(bytes.len()).is_none_or(|end| end > content.current.len()) {
            return Err(io::Error::other("simulated: there is nothing to be written once more"));
        }
        overwrite(&mut content.current, at, bytes);
        content.pending.push(Write::Data { at, bytes: bytes.to_vec() });
        Ok(())
    }

    pub(super) fn truncate(&mut self, inode: usize, length: u64) {
        self.inodes[inode].cut(usize::try_from(length).unwrap_or(usize::MAX));
    }

    pub(super) fn sync(&mut self, inode: usize) -> io::Result<()> {
        if strikes(&mut self.trouble.sync_fails_in) {
            // As on Linux: the pages are marked clean although they were never written.
            self.inodes[inode].pending.clear();
            return Err(io::Error::other("simulated: the sync failed"));
        }
        self.inodes[inode].sync();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.names.remove(from).ok_or_else(|| missing(from))?;
        self.names.insert(to.to_owned(), inode);
        self.pending_names.push(DirWrite::Move { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.names.remove(name).ok_or_else(|| missing(name))?;
        self.pending_names.push(DirWrite::Unlink { name: name.to_owned() });
        Ok(())
    }

    pub(super) fn sync_dir(&mut self) {
        self.durable_names.clone_from(&self.names);
        self.pending_names.clear();
    }

    /// How many things a crash now may or may not have left undone.
    pub fn units(&self) -> usize {
        self.inodes.iter().map(Inode::units).sum::<usize>() + self.pending_names.len()
    }

    /// What a power loss leaves; `pick` decides for each unit whether it was done, `full_length` whether files
    /// have the length they would have had.
    pub fn crashed(&self, pick: &mut dyn FnMut() -> bool, full_length: bool) -> Medium {
        let contents = self.inodes.iter().map(|inode| inode.crashed(pick, full_length)).collect::<Vec<_>>();
        let mut names = self.durable_names.clone();
        for write in self.pending_names.iter().filter(|_| pick()) {
            match write {
                DirWrite::Link { name, inode } => drop(names.insert(name.clone(), *inode)),
                DirWrite::Move { from, to, inode } => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
                DirWrite::Unlink { name } => drop(names.remove(name)),
            }
        }
        Medium::from_files(names.into_iter().map(|(name, inode)| (name, contents[inode].clone())))
    }

    /// What a killed process leaves: everything it wrote, in the order it wrote it, synced or not.
    pub fn killed(&self) -> Medium {
        Medium { trouble: Trouble::default(), ..self.clone() }
    }

    /// A medium with these files, all durable.
    pub fn from_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Medium {
        let mut medium = Medium::default();
        for (name, content) in files {
            let inode = Inode { durable: content.clone(), current: content, pending: Vec::new() };
            medium.names.insert(name, medium.inodes.len());
            medium.inodes.push(inode);
        }
        medium.durable_names.clone_from(&medium.names);
        medium
    }

    /// Sends trouble.
    pub(super) fn send(&mut self, trouble: Trouble) {
        self.trouble = trouble;
    }

    /// All names.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// A file's content as a reader sees it.
    pub(super) fn content(&self, inode: usize) -> &[u8] {
        &self.inodes[inode].current
    }

    /// The files as a reader sees them.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.names.iter().map(|(name, inode)| (name.as_str(), self.inodes[*inode].current.as_slice()))
    }
}
