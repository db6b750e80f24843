//! A key of one's own, and the request that somebody else's authority signs.

use rcgen::KeyPair;

use crate::error::PkiError;
use crate::leaf::{Leaf, Purpose, params};

/// A new key and its request. It has no `Debug`: the key is secret.
pub struct KeyRequest {
    key_pem: String,
    request_pem: String,
}

impl KeyRequest {
    /// Makes a key, and a request for a certificate with the names of `purpose`. What it may be used for is said by
    /// whoever hands the request in.
    pub fn new(purpose: &Purpose) -> Result<KeyRequest, PkiError> {
        let failed =
            |error: rcgen::Error| PkiError::Issue { name: purpose.common_name.clone(), reason: error.to_string() };
        let key = KeyPair::generate().map_err(failed)?;
        let mut wanted = params(purpose).map_err(failed)?;
        // These are the authority's to decide.
        (wanted.key_usages, wanted.extended_key_usages) = (Vec::new(), Vec::new());
        wanted.use_authority_key_identifier_extension = false;
        let request_pem = wanted.serialize_request(&key).and_then(|request| request.pem()).map_err(failed)?;
        Ok(KeyRequest { key_pem: key.serialize_pem(), request_pem })
    }

    /// The request, PEM.
    pub fn request_pem(&self) -> &str {
        &self.request_pem
    }

    /// The key with the certificate that came for it; an error when that is for another key.
    pub fn certified(self, certificate_pem: &str) -> Result<Leaf, PkiError> {
        let other = || PkiError::Request("the certificate that came is not for the key that was made".to_owned());
        Leaf::from_pem(&format!("{}{certificate_pem}", self.key_pem)).ok_or_else(other)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use clock::{SystemClock, SystemIds};

    use super::*;
    use crate::{CsrOrder, Pki, PkiConfig, public_key_hash, user_of};

    #[test]
    fn what_is_asked_for_is_signed_and_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = PkiConfig::new(directory.path());
        let pki = Pki::load_or_create(config, Arc::new(SystemClock::new()), Arc::new(SystemIds)).expect("keys");
        let purpose = Purpose {
            dns_names: vec!["a".to_owned()],
            addresses: vec![IpAddr::from([10, 0, 0, 2])],
            ..Purpose::client("system:node:a", Some("system:nodes"))
        };
        let request = KeyRequest::new(&purpose).expect("a request");
        let order = CsrOrder {
            request: request.request_pem().as_bytes(),
            signer: "kubernetes.io/kubelet-serving",
            usages: &["digital signature".to_owned(), "server auth".to_owned()],
            seconds: None,
        };
        let certificate = pki.sign_csr(order).expect("signed");
        let leaf = request.certified(&certificate).expect("of the same key");
        assert_eq!(user_of(leaf.der()).map(|user| user.name).as_deref(), Some("system:node:a"));

        let path = directory.path().join("node.pem");
        leaf.store(&path).expect("stored");
        let read = Leaf::load(&path).expect("read").expect("there");
        assert_eq!((read.cert_pem(), read.key_pem()), (leaf.cert_pem(), leaf.key_pem()));
        let other = KeyRequest::new(&purpose).expect("a request");
        assert!(other.certified(&certificate).is_err(), "another key");
        assert!(public_key_hash(pki.ca().pem()).is_some_and(|hash| hash.starts_with("sha256:") && hash.len() == 71));
        assert_eq!(public_key_hash("x"), None);
    }
}
