//! What stands in a frame's payload: records, one after the other.
//!
//! Numbers are little-endian; names have a 16-bit length, values a 32-bit one.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use store::{Collection, Entry, Key, Record, Replayed, Revision};

const TXN: u8 = 1;
const RESERVE: u8 = 2;
const VOLATILE: u8 = 3;
const STATE_SUM: u8 = 4;
const CONTINUES: u8 = 5;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const DELETE_LAST: u8 = 3;

fn put_name(into: &mut Vec<u8>, name: &str) {
    // Longer names are refused before they come here (the limits are capped when the store is opened).
    into.extend_from_slice(&u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes());
    into.extend_from_slice(name.as_bytes());
}

fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend_from_slice(bytes);
}

fn put_key(into: &mut Vec<u8>, key: &Key) {
    put_name(into, &key.collection);
    put_name(into, &key.item);
}

/// Writes a transaction's record; nothing if it has nothing to make durable. True if it wrote.
pub fn put_txn<'r>(into: &mut Vec<u8>, revision: Revision, records: impl Iterator<Item = Record<'r>>) -> bool {
    let start = into.len();
    into.push(TXN);
    into.extend_from_slice(&revision.0.to_le_bytes());
    let count_at = into.len();
    into.extend_from_slice(&[0; 4]);
    let mut count = 0u32;
    for record in records {
        put_record(into, record);
        count += 1;
    }
    if count == 0 {
        into.truncate(start);
        return false;
    }
    into[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
    true
}

fn put_record(into: &mut Vec<u8>, record: Record<'_>) {
    match record {
        Record::Put { key, entry } => {
            into.push(PUT);
            put_key(into, key);
            into.extend_from_slice(&entry.created.0.to_le_bytes());
            put_bytes(into, &entry.annex);
            put_bytes(into, &entry.value);
        }
        Record::Delete { key, last: None } => {
            into.push(DELETE);
            put_key(into, key);
        }
        Record::Delete { key, last: Some(last) } => {
            into.push(DELETE_LAST);
            put_key(into, key);
            put_bytes(into, last);
        }
    }
}

/// Writes that revisions up to `through` may have been handed out.
pub fn put_reserve(into: &mut Vec<u8>, through: u64) {
    into.push(RESERVE);
    into.extend_from_slice(&through.to_le_bytes());
}

/// Writes that a collection has had volatile items.
pub fn put_volatile(into: &mut Vec<u8>, collection: &str) {
    into.push(VOLATILE);
    put_name(into, collection);
}

/// Writes the state's hash after the transaction before.
pub fn put_state_sum(into: &mut Vec<u8>, hash: u64) {
    into.push(STATE_SUM);
    into.extend_from_slice(&hash.to_le_bytes());
}

/// Writes that the log goes on in another segment.
pub fn put_continues(into: &mut Vec<u8>, segment: u64) {
    into.push(CONTINUES);
    into.extend_from_slice(&segment.to_le_bytes());
}

/// Writes an item of a checkpoint.
pub fn put_item(into: &mut Vec<u8>, key: &Key, entry: &Entry) {
    put_key(into, key);
    into.extend_from_slice(&entry.created.0.to_le_bytes());
    into.extend_from_slice(&entry.modified.0.to_le_bytes());
    put_bytes(into, &entry.annex);
    put_bytes(into, &entry.value);
}

/// A record as read back.
#[derive(Debug)]
pub enum Logged {
    /// A committed transaction.
    Txn(Revision, Vec<Replayed>),
    /// Revisions up to this may have been handed out; replaces earlier ones.
    Reserve(u64),
    /// The collection has had volatile items.
    Volatile(Collection),
    /// The state's hash here.
    StateSum(u64),
    /// The log goes on in this segment.
    Continues(u64),
}

/// Takes records off bytes. Every method returns `None` where the bytes do not make sense.
pub struct Records<'b> {
    bytes: &'b [u8],
    names: &'b mut Names,
}

/// Collection names seen so far, so that each stands in memory once.
#[derive(Default)]
pub struct Names(BTreeSet<Collection>);

impl Names {
    fn intern(&mut self, name: &str) -> Collection {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let name: Collection = name.into();
        self.0.insert(name.clone());
        name
    }
}

impl<'b> Records<'b> {
    /// Of these bytes.
    pub fn new(bytes: &'b [u8], names: &'b mut Names) -> Records<'b> {
        Records { bytes, names }
    }

    /// Whether all was taken.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn name(&mut self) -> Option<&'b str> {
        let length = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        std::str::from_utf8(self.take(usize::from(length))?).ok()
    }

    /// A collection's name.
    pub fn collection(&mut self) -> Option<Collection> {
        let name = self.name()?;
        Some(self.names.intern(name))
    }

    /// Values are copied out, each into memory of its own: a slice of what was read would keep a whole segment
    /// (64 MB) in memory as long as one value of it lives. The copy costs about 0.1 microseconds for 2 KB.
    fn value(&mut self) -> Option<Bytes> {
        let length = usize::try_from(self.u32()?).ok()?;
        Some(Bytes::copy_from_slice(self.take(length)?))
    }

    fn key(&mut self) -> Option<Key> {
        let collection = self.collection()?;
        Some(Key { collection, item: self.name()?.into() })
    }

    /// The next record of a frame.
    pub fn logged(&mut self) -> Option<Logged> {
        match self.byte()? {
            TXN => self.txn(),
            RESERVE => self.u64().map(Logged::Reserve),
            VOLATILE => self.collection().map(Logged::Volatile),
            STATE_SUM => self.u64().map(Logged::StateSum),
            CONTINUES => self.u64().map(Logged::Continues),
            _ => None,
        }
    }

    fn txn(&mut self) -> Option<Logged> {
        let revision = Revision(self.u64()?);
        let count = self.u32()?;
        // The count is not trusted with memory: the smallest change takes five bytes.
        let mut changes = Vec::with_capacity((count as usize).min(self.bytes.len() / 5));
        for _ in 0..count {
            changes.push(self.change()?);
        }
        Some(Logged::Txn(revision, changes))
    }

    fn change(&mut self) -> Option<Replayed> {
        match self.byte()? {
            PUT => {
                let key = self.key()?;
                let created = Revision(self.u64()?);
                let annex = self.value()?;
                Some(Replayed::Put { key, value: self.value()?, annex, created })
            }
            DELETE => Some(Replayed::Delete { key: self.key()?, last: None }),
            DELETE_LAST => Some(Replayed::Delete { key: self.key()?, last: Some(self.value()?) }),
            _ => None,
        }
    }

    /// The next item of a checkpoint.
    pub fn item(&mut self) -> Option<(Key, Arc<Entry>)> {
        let key = self.key()?;
        let created = Revision(self.u64()?);
        let modified = Revision(self.u64()?);
        let annex = self.value()?;
        Some((key, Arc::new(Entry::new(self.value()?, annex, created, modified))))
    }
}
