//! Keys and certificates of a cluster: its own authorities, what they sign, the key of service-account tokens, and the
//! kubeconfig that lets people in. Everything lives as files with mode 0600 under one directory; nothing secret is ever
//! shown by `Debug`.

mod authority;
mod cert;
mod csr;
mod error;
mod file;
mod identity;
mod kubeconfig;
mod leaf;
mod pki;
mod request;
mod token_key;

pub use authority::Authority;
pub use csr::CsrOrder;
pub use error::PkiError;
pub use identity::user_of;
pub use kubeconfig::{KubeconfigEntry, KubeconfigError, merge_kubeconfig, write_kubeconfig};
pub use leaf::{Leaf, Purpose};
pub use pki::{NODE_CLIENT, NODE_CLIENT_GROUP, Pki, PkiConfig};
pub use request::KeyRequest;
pub use token_key::{TokenKey, TokenKeys};

/// The pin of the first certificate in a PEM text: `sha256:` and the digest of its public key, as kubeadm has it.
pub fn public_key_hash(pem: &str) -> Option<String> {
    use rustls_pki_types::pem::PemObject;
    cert::key_hash(&rustls_pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).ok()?)
}

/// Reads a private file; `None` when there is none.
pub fn read_private(path: &std::path::Path) -> Result<Option<String>, PkiError> {
    authority::read(path)
}

/// Replaces a file that is for the owner alone; makes its directory.
pub fn write_private(path: &std::path::Path, text: &str) -> Result<(), PkiError> {
    if let Some(dir) = path.parent() {
        file::make_dir(dir).map_err(|source| PkiError::Write { path: dir.to_owned(), source })?;
    }
    authority::write(path, text)
}
