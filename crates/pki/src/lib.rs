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
mod token_key;

pub use authority::Authority;
pub use csr::CsrOrder;
pub use error::PkiError;
pub use identity::user_of;
pub use kubeconfig::{KubeconfigEntry, KubeconfigError, merge_kubeconfig, write_kubeconfig};
pub use leaf::{Leaf, Purpose};
pub use pki::{Pki, PkiConfig};
pub use token_key::{TokenKey, TokenKeys};
