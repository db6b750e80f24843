//! Content digests: `sha256:` or `sha512:` and lower-case hex.

use std::fmt;

use sha2::Digest as _;

use crate::error::ImageError;

/// The digest of some bytes. Always well formed, so that it may become a file name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

/// The algorithms that content is verified with, and their length in hex digits.
const ALGORITHMS: [(&str, usize); 2] = [("sha256", 64), ("sha512", 128)];

impl Digest {
    /// Reads `algorithm:hex`.
    pub fn parse(text: &str) -> Option<Digest> {
        let (algorithm, hex) = text.split_once(':')?;
        let (_, length) = ALGORITHMS.iter().find(|(name, _)| *name == algorithm)?;
        let plain = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (hex.len() == *length && hex.bytes().all(plain)).then(|| Digest(text.to_owned()))
    }

    /// The SHA-256 digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::sha256();
        hasher.update(bytes);
        hasher.finish()
    }

    /// `algorithm:hex`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the algorithm.
    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    /// The hex digits.
    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, hex)| hex)
    }

    /// What computes digests comparable to this one.
    pub fn hasher(&self) -> Hasher {
        match self.algorithm() {
            "sha512" => Hasher::Sha512(Box::new(sha2::Sha512::new())),
            _ => Hasher::sha256(),
        }
    }

    /// Refuses `bytes` that are not what this digest names; `what` says for people what they should have been.
    pub fn verify(&self, what: &str, bytes: &[u8]) -> Result<(), ImageError> {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        self.compare(what, &hasher.finish())
    }

    /// Refuses `found`, the digest of what was received as `what`, unless it is this one.
    pub fn compare(&self, what: &str, found: &Digest) -> Result<(), ImageError> {
        if self == found {
            return Ok(());
        }
        Err(ImageError::Damaged(format!("{what}: unexpected digest: expected {self}, found {found}")))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("invalid digest {text:?}")))
    }
}

/// Computes a digest piece by piece.
#[derive(Clone)]
pub enum Hasher {
    /// 256 bits.
    Sha256(Box<sha2::Sha256>),
    /// 512 bits.
    Sha512(Box<sha2::Sha512>),
}

impl Hasher {
    /// A new SHA-256.
    pub fn sha256() -> Hasher {
        Hasher::Sha256(Box::new(sha2::Sha256::new()))
    }

    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Hasher::Sha256(hasher) => Digest(format!("sha256:{}", hex(&hasher.finalize()))),
            Hasher::Sha512(hasher) => Digest(format!("sha512:{}", hex(&hasher.finalize()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_digests_are_read() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let check = |text: &str, expected: bool| assert_eq!(Digest::parse(text).is_some(), expected, "{text}");
        check(&format!("sha256:{hex}"), true);
        check(&format!("sha512:{hex}{hex}"), true);
        check(&format!("sha512:{hex}"), false);
        check(&format!("sha256:{}", hex.to_uppercase()), false);
        check(&format!("md5:{hex}"), false);
        check("sha256:../../../../../../../../../../../../../../../../etc/passwd/./././.", false);
        check(hex, false);
        assert_eq!(Digest::of(b"").hex(), hex);
    }

    #[test]
    fn other_bytes_are_refused() {
        let digest = Digest::of(b"a");
        assert!(digest.verify("blob", b"a").is_ok());
        assert!(matches!(digest.verify("blob", b"b"), Err(ImageError::Damaged(_))));
    }
}
