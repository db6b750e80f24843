//! Whole states in one file: checkpoints and backups.
//!
//! A header, then blocks of about a mebibyte, each with a checksum over its number and content, and a last block
//! with the sum of the state. A file under its final name is whole: it is written under another name, synced, read
//! back and compared, and only then renamed.

use std::io;
use std::sync::Arc;

use store::{Collection, Entry, Key, Revision, Snapshot};

use crate::frame::VERSION;
use crate::record::{self, Names, Records};
use crate::sum::{LogId, StateSum, crc};
use crate::vfs::{Vfs, VfsFile};

const MAGIC: &[u8; 8] = b"setpstat";
const HEADER: usize = 64;
const BLOCK_HEADER: usize = 8;

/// Large enough that the checksum's overhead vanishes, small enough to stay in the processor's cache.
const BLOCK_BYTES: usize = 1 << 20;

const ITEMS: u8 = 1;
const VOLATILE: u8 = 2;
const END: u8 = 3;

/// What a state file's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHeader {
    /// Which log it belongs to.
    pub id: LogId,
    /// The state's revision.
    pub revision: Revision,
    /// Revisions up to this may have been handed out.
    pub reserved: u64,
    /// The first segment needed to go on from here.
    pub first_segment: u64,
    /// The revision that the log had reached, durably, when the file was made.
    pub logged: u64,
}

/// What a state file says besides its items.
#[derive(Clone, Debug)]
pub struct StateFile {
    /// Its header.
    pub header: StateHeader,
    /// Collections that have had volatile items.
    pub volatile: Vec<Collection>,
    /// The sum over its items.
    pub sum: StateSum,
}

/// Why a state file cannot be read.
#[derive(Debug)]
pub enum StateFault {
    /// The operating system refused.
    Io(io::Error),
    /// At this byte it is not what was written.
    Damaged(u64, String),
    /// A later version wrote it.
    TooNew(u32),
}

impl From<io::Error> for StateFault {
    fn from(error: io::Error) -> Self {
        StateFault::Io(error)
    }
}

fn damaged<T>(at: u64, what: &str) -> Result<T, StateFault> {
    Err(StateFault::Damaged(at, what.to_owned()))
}

/// The name of the checkpoint of a revision.
pub fn state_name(revision: Revision) -> String {
    format!("state-{:016x}", revision.0)
}

/// The revision in a checkpoint's file name.
pub fn state_revision(name: &str) -> Option<Revision> {
    let digits = name.strip_prefix("state-").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(Revision)
}

/// The name under which a state file is written before it is whole.
pub fn unfinished_name(name: &str) -> String {
    format!("{name}.unfinished")
}

/// Whether a file was left behind by a crash while it was written.
pub fn is_unfinished(name: &str) -> bool {
    name.ends_with(".unfinished") && name.starts_with("state-")
}

impl StateHeader {
    fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[32..40].copy_from_slice(&self.revision.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.reserved.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.first_segment.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.logged.to_le_bytes());
        let crc = crc(self.id, &[&bytes[..12], &bytes[16..]]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<StateHeader, StateFault> {
        let number = |at: usize| -> Option<u64> { Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?)) };
        let half = |at: usize| -> Option<u32> { Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
        let read = || {
            let id = LogId(bytes.get(16..32)?.try_into().ok()?);
            let whole = bytes.get(..8)? == MAGIC && half(12)? == crc(id, &[bytes.get(..12)?, bytes.get(16..HEADER)?]);
            let header = StateHeader {
                id,
                revision: Revision(number(32)?),
                reserved: number(40)?,
                first_segment: number(48)?,
                logged: number(56)?,
            };
            whole.then_some((header, half(8)?))
        };
        match read() {
            Some((_, version)) if version > VERSION => Err(StateFault::TooNew(version)),
            Some((header, _)) => Ok(header),
            None => damaged(0, "the header is not whole"),
        }
    }
}

/// Writes blocks to a file.
struct Blocks<'f> {
    file: &'f dyn VfsFile,
    id: LogId,
    index: u64,
    buffer: Vec<u8>,
}

impl<'f> Blocks<'f> {
    fn new(file: &'f dyn VfsFile, id: LogId) -> Blocks<'f> {
        Blocks { file, id, index: 0, buffer: vec![0; BLOCK_HEADER] }
    }

    /// The current block, begun as `kind` if it is new.
    fn block(&mut self, kind: u8) -> &mut Vec<u8> {
        if self.buffer.len() == BLOCK_HEADER {
            self.buffer.push(kind);
        }
        &mut self.buffer
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.buffer.len() == BLOCK_HEADER {
            return Ok(());
        }
        let (head, content) = self.buffer.split_at_mut(BLOCK_HEADER);
        let length = u32::try_from(content.len()).map_err(io::Error::other)?.to_le_bytes();
        head[..4].copy_from_slice(&length);
        head[4..].copy_from_slice(&crc(self.id, &[&self.index.to_le_bytes(), &length, content]).to_le_bytes());
        self.file.append(&self.buffer)?;
        self.index += 1;
        self.buffer.truncate(BLOCK_HEADER);
        Ok(())
    }
}

/// Writes the durable items of a state; returns their sum. Does not sync.
fn write(
    file: &dyn VfsFile,
    header: StateHeader,
    volatile: &[Collection],
    snapshot: &Snapshot,
) -> io::Result<StateSum> {
    file.append(&header.encode())?;
    let mut blocks = Blocks::new(file, header.id);
    for collection in volatile {
        record::put_volatile(blocks.block(VOLATILE), collection);
    }
    blocks.finish()?;
    let mut sum = StateSum::default();
    for collection in snapshot.collections() {
        for (item, entry) in snapshot.items(collection).filter(|(_, entry)| entry.is_durable()) {
            let key = Key { collection: collection.clone(), item: item.clone() };
            sum.add(&key, entry);
            record::put_item(blocks.block(ITEMS), &key, entry);
            if blocks.buffer.len() >= BLOCK_BYTES {
                blocks.finish()?;
            }
        }
    }
    blocks.finish()?;
    let end = blocks.block(END);
    [sum.hash, sum.items, sum.bytes].iter().for_each(|number| end.extend_from_slice(&number.to_le_bytes()));
    blocks.finish()?;
    Ok(sum)
}

/// Reads a state file, handing on every item in order.
///
/// # Errors
/// When it is not whole.
pub fn read(file: &dyn VfsFile, each: &mut dyn FnMut(Key, Arc<Entry>)) -> Result<StateFile, StateFault> {
    let mut bytes = vec![0; HEADER];
    file.read_at(0, &mut bytes)?;
    let header = StateHeader::decode(&bytes)?;
    let length = file.length()?;
    let mut reading = Reading { at: HEADER as u64, index: 0, names: Names::default(), sum: StateSum::default() };
    let mut volatile = Vec::new();
    loop {
        let start = reading.at;
        let content = reading.block(file, length, header.id, &mut bytes)?;
        let Some((kind, content)) = content.split_first() else { return damaged(start, "an empty block") };
        let mut records = Records::new(content, &mut reading.names);
        match *kind {
            VOLATILE => {
                while !records.is_done() {
                    let Some(record::Logged::Volatile(name)) = records.logged() else {
                        return damaged(start, "a block of names makes no sense");
                    };
                    volatile.push(name);
                }
            }
            ITEMS => {
                while !records.is_done() {
                    let Some((key, entry)) = records.item() else {
                        return damaged(start, "a block of items makes no sense");
                    };
                    reading.sum.add(&key, &entry);
                    each(key, entry);
                }
            }
            END => {
                let end = [records.u64(), records.u64(), records.u64()];
                let sum = reading.sum;
                if end != [Some(sum.hash), Some(sum.items), Some(sum.bytes)] || !records.is_done() {
                    return damaged(start, "the sum of the items is not the one that was written");
                }
                if reading.at != length {
                    return damaged(reading.at, "something follows the end");
                }
                return Ok(StateFile { header, volatile, sum });
            }
            _ => return damaged(start, "a block of unknown kind"),
        }
    }
}

struct Reading {
    at: u64,
    index: u64,
    names: Names,
    sum: StateSum,
}

impl Reading {
    fn block<'b>(
        &mut self,
        file: &dyn VfsFile,
        file_length: u64,
        id: LogId,
        into: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], StateFault> {
        let mut head = [0; BLOCK_HEADER];
        if file.read_at(self.at, &mut head)? < BLOCK_HEADER {
            return damaged(self.at, "the file ends before its end");
        }
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]);
        let from = self.at + BLOCK_HEADER as u64;
        let end = from + u64::from(length);
        if end > file_length {
            return damaged(self.at, "a block is longer than the file");
        }
        into.resize(length as usize, 0);
        let read = file.read_at(from, into)?;
        let expected = u32::from_le_bytes([e, f, g, h]);
        let found = crc(id, &[&self.index.to_le_bytes(), &length.to_le_bytes(), into]);
        if read < into.len() || found != expected {
            return damaged(self.at, "the checksum of a block is wrong");
        }
        self.at = end;
        self.index += 1;
        Ok(into)
    }
}

/// What of a state file is made durable; all of it, outside tests.
#[derive(Clone, Copy, Debug)]
pub struct Sync {
    /// What is in it, before it gets its name.
    pub content: bool,
    /// Its name.
    pub name: bool,
}

/// Everything.
pub const FAITHFUL: Sync = Sync { content: true, name: true };

/// Writes a state file beside, reads it back, compares, and only then gives it its name.
///
/// # Errors
/// When a step fails; then there is no file of that name, or the one that was there before.
pub fn publish(
    vfs: &dyn Vfs,
    name: &str,
    header: StateHeader,
    volatile: &[Collection],
    snapshot: &Snapshot,
    sync: Sync,
) -> Result<StateSum, StateFault> {
    let beside = unfinished_name(name);
    if vfs.list()?.contains(&beside) {
        vfs.remove(&beside)?;
    }
    let file = vfs.create(&beside)?;
    let sum = write(&*file, header, volatile, snapshot)?;
    if sync.content {
        file.sync()?;
    }
    let found = read(&*file, &mut |_, _| ())?;
    if (found.header, found.sum) != (header, sum) {
        return damaged(0, "what was read back is not what was written");
    }
    drop(file);
    vfs.rename(&beside, name)?;
    if sync.name {
        vfs.sync_dir()?;
    }
    Ok(sum)
}
