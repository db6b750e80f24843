//! Checksums: of bytes (CRC-32C), of the order of frames (a chain) and of a state (a sum).
//!
//! They are there to notice accidents (torn, flipped, misplaced, mixed up), not to stop somebody who can write to
//! the medium: such a one can change the data and every checksum with it.

use store::{Change, Entry, Event, Key};

/// Which log this is: drawn when a data directory is made, and mixed into every checksum, so that neither a frame
/// of another log nor one that a client wrote into a value passes for ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogId(pub [u8; 16]);

/// The checksum of several pieces, keyed by the log.
pub fn crc(id: LogId, pieces: &[&[u8]]) -> u32 {
    pieces.iter().fold(crc32c::crc32c(&id.0), |sum, piece| crc32c::crc32c_append(sum, piece))
}

/// Mixes two numbers into one that depends on every bit of both (SplitMix64's finish).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ b;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sum over the durable items: each item's hash added, so it follows the state in any order and in O(1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateSum {
    /// The sum of the items' hashes.
    pub hash: u64,
    /// How many items.
    pub items: u64,
    /// Their bytes: names, values, annexes.
    pub bytes: u64,
}

fn item_hash(key: &Key, entry: &Entry) -> u64 {
    let names = u64::from(crc32c::crc32c_append(crc32c::crc32c(key.collection.as_bytes()), key.item.as_bytes()));
    let lengths = mix(key.item.len() as u64, mix(entry.value.len() as u64, entry.annex.len() as u64));
    let content = u64::from(crc32c::crc32c(&entry.value)) << 32 | u64::from(crc32c::crc32c(&entry.annex));
    mix(mix(names, content), mix(lengths, mix(entry.created.0, entry.modified.0)))
}

fn item_bytes(key: &Key, entry: &Entry) -> u64 {
    (key.collection.len() + key.item.len() + entry.size()) as u64
}

impl StateSum {
    /// Adds an item.
    pub fn add(&mut self, key: &Key, entry: &Entry) {
        self.hash = self.hash.wrapping_add(item_hash(key, entry));
        self.items = self.items.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(item_bytes(key, entry));
    }

    /// Takes an item away.
    pub fn take(&mut self, key: &Key, entry: &Entry) {
        self.hash = self.hash.wrapping_sub(item_hash(key, entry));
        self.items = self.items.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(item_bytes(key, entry));
    }

    /// Follows an event, as far as it concerns durable items.
    pub fn follow(&mut self, event: &Event) {
        if let Some(previous) = event.previous.as_ref().filter(|entry| entry.is_durable()) {
            self.take(&event.key, previous);
        }
        if event.change != Change::Deleted && event.entry.is_durable() {
            self.add(&event.key, &event.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Revision;

    use super::*;

    #[test]
    fn the_sum_depends_on_everything_and_not_on_the_order() {
        let entry = |value: &'static str, annex: &'static str, created, modified| {
            Entry::new(value.into(), annex.into(), Revision(created), Revision(modified))
        };
        let of = |items: &[(&str, Entry)]| {
            let mut sum = StateSum::default();
            items.iter().for_each(|(item, entry)| sum.add(&Key::new("c", *item), entry));
            sum.hash
        };
        let base = of(&[("a", entry("v", "x", 1, 2)), ("b", entry("w", "", 1, 1))]);
        assert_eq!(base, of(&[("b", entry("w", "", 1, 1)), ("a", entry("v", "x", 1, 2))]));
        for other in [
            of(&[("a", entry("v", "x", 1, 2))]),
            of(&[("a", entry("V", "x", 1, 2)), ("b", entry("w", "", 1, 1))]),
            of(&[("a", entry("v", "y", 1, 2)), ("b", entry("w", "", 1, 1))]),
            of(&[("a", entry("v", "x", 2, 1)), ("b", entry("w", "", 1, 1))]),
            of(&[("a", entry("w", "", 1, 1)), ("b", entry("v", "x", 1, 2))]),
        ] {
            assert_ne!(base, other);
        }
    }
}
