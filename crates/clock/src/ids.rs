//! Identities and randomness.

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
        let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// `length` characters of Kubernetes' name alphabet, which has no vowels and no look-alikes, so that
    /// no words come up.
    fn suffix(&self, length: usize) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut out = String::with_capacity(length);
        while out.len() < length {
            let mut byte = [0u8; 1];
            self.fill(&mut byte);
            // Reject the tail of the byte's range: every letter stays equally likely.
            if usize::from(byte[0]) < 256 / ALPHABET.len() * ALPHABET.len() {
                out.push(char::from(ALPHABET[usize::from(byte[0]) % ALPHABET.len()]));
            }
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

/// The operating system's randomness.
pub struct SystemIds;

impl Ids for SystemIds {
    fn fill(&self, bytes: &mut [u8]) {
        // A machine without randomness cannot make keys or uids; nothing useful could go on.
        #[allow(clippy::expect_used)]
        getrandom::fill(bytes).expect("the operating system gives randomness");
    }
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
}
