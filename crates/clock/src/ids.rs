//! Identities and randomness.

use std::cell::RefCell;
use std::sync::Mutex;

/// Mints identities. `fill` is the only source; the rest is derived from it.
pub trait Ids: Send + Sync {
    /// Fills `bytes` with randomness (cryptographic in the system's implementation).
    fn fill(&self, bytes: &mut [u8]);

    /// A version 4 UUID: an object's `metadata.uid`.
    fn uid(&self) -> String {
        let mut b = [0u8; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        hyphenated(&b)
    }

    /// `length` characters of Kubernetes' name alphabet, which has no vowels and no look-alikes, so that
    /// no words come up.
    fn suffix(&self, length: usize) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut out = String::with_capacity(length);
        while out.len() < length {
            let mut bytes = [0u8; 8];
            self.fill(&mut bytes);
            // Reject the tail of a byte's range: every letter stays equally likely.
            let fair =
                bytes.iter().map(|byte| usize::from(*byte)).filter(|n| *n < 256 / ALPHABET.len() * ALPHABET.len());
            out.extend(fair.map(|n| char::from(ALPHABET[n % ALPHABET.len()])).take(length - out.len()));
        }
        out
    }

    /// A uniformly random number.
    fn number(&self) -> u64 {
        let mut b = [0u8; 8];
        self.fill(&mut b);
        u64::from_le_bytes(b)
    }
}

/// Sixteen bytes as a UUID is written.
fn hyphenated(bytes: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
    out
}

/// The operating system's randomness, asked for a little ahead by each thread: a call for every uid was 4 % of a
/// create. A process that forks without a new program image must not use it in both halves.
pub struct SystemIds;

/// 512: some thirty uids a call.
const AHEAD: usize = 512;

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; AHEAD], used: AHEAD }) };
}

/// Randomness not yet handed out; what was handed out is wiped.
struct Pool {
    bytes: [u8; AHEAD],
    used: usize,
}

impl Pool {
    fn fill(&mut self, wanted: &mut [u8]) {
        if wanted.len() > AHEAD - self.used {
            ask_system(&mut self.bytes);
            self.used = 0;
        }
        let taken = &mut self.bytes[self.used..self.used + wanted.len()];
        wanted.copy_from_slice(taken);
        taken.fill(0);
        self.used += wanted.len();
    }
}

impl Ids for SystemIds {
    fn fill(&self, bytes: &mut [u8]) {
        match bytes.len() <= AHEAD {
            true => POOL.with_borrow_mut(|pool| pool.fill(bytes)),
            false => ask_system(bytes),
        }
    }
}

fn ask_system(bytes: &mut [u8]) {
    // A machine without randomness cannot make keys or uids; nothing useful could go on.
    #[allow(clippy::expect_used)]
    getrandom::fill(bytes).expect("the operating system gives randomness");
}

/// Reproducible identities from a seed (SplitMix64): for simulation, plans and tests. Not secret.
pub struct SeededIds(Mutex<u64>);

impl SeededIds {
    /// The sequence that belongs to `seed`.
    pub fn new(seed: u64) -> SeededIds {
        SeededIds(Mutex::new(seed))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Ids for SeededIds {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_sequence() {
        let (a, b) = (SeededIds::new(7), SeededIds::new(7));
        assert_eq!(a.uid(), b.uid());
        assert_ne!(a.uid(), a.uid());
    }

    #[test]
    fn uids_are_version_four() {
        let uid = SystemIds.uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert_eq!(SystemIds.suffix(5).len(), 5);
    }

    #[test]
    fn a_uuid_is_written_in_five_groups() {
        let bytes = [0, 1, 2, 3, 0x45, 5, 6, 7, 0x89, 9, 10, 11, 12, 13, 14, 0xff];
        assert_eq!(hyphenated(&bytes), "00010203-4505-0607-8909-0a0b0c0d0eff");
    }

    #[test]
    fn nothing_is_handed_out_twice() {
        let drawn: std::collections::BTreeSet<u64> = (0..1_000).map(|_| SystemIds.number()).collect();
        assert_eq!(drawn.len(), 1_000);
        let mut long = [0u8; 2 * AHEAD];
        SystemIds.fill(&mut long);
        assert_ne!(long[..AHEAD], long[AHEAD..]);
    }
}
