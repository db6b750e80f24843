//! What can go wrong with keys and certificates.

use std::io;
use std::path::PathBuf;

/// Named by what was attempted. Messages hold paths, never contents.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds no such key or certificate.
    #[error("{path} holds no usable {what}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Key or certificate.
        what: &'static str,
    },
    /// An authority's certificate without its key: nothing can be signed, and a new authority would lock everybody out.
    #[error("{path} is missing although its certificate is there; restore it, or remove both to start anew")]
    KeyLost {
        /// The missing key.
        path: PathBuf,
    },
    /// An authority's certificate is of another key.
    #[error("{path} does not belong to the key beside it")]
    Mismatch {
        /// The certificate.
        path: PathBuf,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate for {name}: {reason}")]
    Issue {
        /// Whom it was for.
        name: String,
        /// The library's word.
        reason: String,
    },
    /// A certificate signing request that is not signed.
    #[error("{0}")]
    Request(String),
    /// A key cannot be made or used.
    #[error("cannot use the signing key: {0}")]
    Key(String),
}
