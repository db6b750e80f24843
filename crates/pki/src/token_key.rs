//! The key of service-account tokens (ES256), and the public half as others fetch it.

use std::fmt;
use std::path::Path;

use admit::tokens::{SignatureError, SignatureVerifier, TokenSigner};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::authority;
use crate::error::PkiError;

const ALGORITHM: &str = "ES256";

/// Everything of a P-256 SubjectPublicKeyInfo before the point itself.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Length of an uncompressed P-256 point: a tag and two coordinates.
const POINT_BYTES: usize = 65;

/// A signing key.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    public: PublicKey,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.public.id).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// Reads `path`, or makes it.
    pub(crate) fn load_or_create(path: &Path) -> Result<Self, PkiError> {
        let pem = match authority::read(path)? {
            Some(pem) => pem,
            None => authority::new_key(path)?.serialize_pem(),
        };
        Self::from_pem(&pem).ok_or_else(|| authority::malformed(path, "P-256 private key"))
    }

    fn from_pem(pem: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der(), &random).ok()?;
        let public = PublicKey::new(KeyPair::from_pem(pem).ok()?.public_key_raw())?;
        Some(Self { pair, random, public })
    }

    /// The public half alone, for [`TokenKeys`].
    pub fn keys(&self) -> TokenKeys {
        TokenKeys { keys: vec![self.public.clone()] }
    }
}

impl TokenSigner for TokenKey {
    fn algorithm(&self) -> &str {
        ALGORITHM
    }

    fn key_id(&self) -> &str {
        &self.public.id
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let signed = self.pair.sign(&self.random, message);
        signed.map(|signature| signature.as_ref().to_vec()).map_err(|_| "signing failed".to_owned())
    }
}

#[derive(Clone)]
struct PublicKey {
    id: String,
    point: [u8; POINT_BYTES],
}

impl PublicKey {
    fn new(point: &[u8]) -> Option<Self> {
        let point: [u8; POINT_BYTES] = point.try_into().ok()?;
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &[&SPKI_PREFIX[..], &point].concat()));
        Some(Self { id, point })
    }

    fn made(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.point).verify(message, signature).is_ok()
    }

    fn to_jwk(&self) -> Value {
        let (x, y) = self.point[1..].split_at(32);
        json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": ALGORITHM,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

/// Public keys that tokens are checked with.
#[derive(Clone)]
pub struct TokenKeys {
    keys: Vec<PublicKey>,
}

impl TokenKeys {
    /// The document at `/openid/v1/jwks`.
    pub fn to_jwks(&self) -> Value {
        json!({"keys": self.keys.iter().map(PublicKey::to_jwk).collect::<Vec<_>>()})
    }
}

impl SignatureVerifier for TokenKeys {
    fn verify(&self, algorithm: &str, key_id: &str, message: &[u8], signature: &[u8]) -> Result<(), SignatureError> {
        let mut candidates = self.keys.iter().filter(|key| key_id.is_empty() || key.id == key_id).peekable();
        if candidates.peek().is_none() {
            return Err(SignatureError::UnknownKey);
        }
        let right = algorithm == ALGORITHM && candidates.any(|key| key.made(message, signature));
        if right { Ok(()) } else { Err(SignatureError::Wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TokenKey {
        let dir = tempfile::tempdir().expect("a directory");
        TokenKey::load_or_create(&dir.path().join("sa.key")).expect("made")
    }

    #[test]
    fn only_this_key_with_this_algorithm_counts() {
        let (key, other) = (key(), key());
        let signature = key.sign(b"message").expect("signed");
        let check = |keys: &TokenKeys, algorithm: &str, id: &str, message: &[u8], expected| {
            assert_eq!(keys.verify(algorithm, id, message, &signature), expected, "{algorithm} {id}");
        };
        let wrong = Err(SignatureError::Wrong);
        check(&key.keys(), "ES256", key.key_id(), b"message", Ok(()));
        check(&key.keys(), "ES256", "", b"message", Ok(()));
        check(&key.keys(), "none", key.key_id(), b"message", wrong);
        check(&key.keys(), "HS256", key.key_id(), b"message", wrong);
        check(&key.keys(), "RS256", key.key_id(), b"message", wrong);
        check(&key.keys(), "ES256", key.key_id(), b"other", wrong);
        check(&other.keys(), "ES256", key.key_id(), b"message", Err(SignatureError::UnknownKey));
        check(&other.keys(), "ES256", "", b"message", wrong);
        assert_eq!(key.keys().verify("ES256", key.key_id(), b"message", b""), wrong);
    }

    #[test]
    fn the_jwks_names_the_key_and_nothing_secret() {
        let key = key();
        let jwk = &key.keys().to_jwks()["keys"][0];
        assert_eq!(jwk["kid"], key.key_id());
        assert_eq!(jwk["x"].as_str().map(str::len), Some(43));
        assert!(jwk.get("d").is_none());
    }
}
