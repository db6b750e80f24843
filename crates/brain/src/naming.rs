//! Names of created children.

/// Letters of generated names: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Letters of a generated suffix, as upstream has.
const SUFFIX_LENGTH: usize = 5;
/// A generated name's base is cut so that base and suffix fit a DNS label.
const BASE_MAX: usize = 63 - SUFFIX_LENGTH;

/// The name of a child: `base` and five letters that follow from `identity`.
///
/// `identity` says exactly which child is meant, e.g. the owner's uid and revision, the uids of the children it
/// sees and a counter. The same decision made twice (a stale view, a lost answer, a restart) gives the same
/// name, so that the second create collides instead of doubling; a new decision gives a new name.
pub fn child_name<'a>(base: &str, identity: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = mixed(identity);
    let mut name = child_base(base).to_owned();
    for _ in 0..SUFFIX_LENGTH {
        name.push(char::from(ALPHABET[(hash % 27) as usize]));
        hash /= 27;
    }
    name
}

/// What the names of all children with this base begin with.
pub fn child_base(base: &str) -> &str {
    let mut cut = BASE_MAX.min(base.len());
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    &base[..cut]
}

/// A set of children, told apart from any other whatever the order. One that is made is added before the next is named,
/// so that a successor who sees the first gives the second the same name.
#[derive(Clone, Copy, Default)]
pub struct Siblings(u64);

impl Siblings {
    /// The children of these names.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Siblings {
        let mut siblings = Siblings::default();
        names.into_iter().for_each(|name| siblings.add(name));
        siblings
    }

    /// One more.
    pub fn add(&mut self, name: &str) {
        self.0 = self.0.wrapping_add(mixed([name]));
    }

    /// A part of an identity.
    pub fn fingerprint(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// A short stand-in for many parts of an identity, so that naming many children at once hashes them only once.
pub fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    format!("{:016x}", mixed(parts))
}

fn mixed<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // The separator keeps ("ab","c") and ("a","bc") apart.
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    // FNV's high bits are weak on short input: mix before letters are cut from it.
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_decision_has_the_same_name() {
        assert_eq!(child_name("web-", ["uid", "7", "0"]), child_name("web-", ["uid", "7", "0"]));
        assert_ne!(child_name("web-", ["uid", "7", "0"]), child_name("web-", ["uid", "7", "1"]));
        assert_ne!(child_name("web-", ["ab", "c"]), child_name("web-", ["a", "bc"]));
    }

    #[test]
    fn fits_a_label() {
        assert_eq!(child_name(&"x".repeat(100), ["a"]).len(), 63);
    }
}
