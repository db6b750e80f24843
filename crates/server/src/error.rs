//! Why a server did not start.

use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why a server did not start. Each says what to do where that is not obvious.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("cannot use the data directory {path}")]
    DataDir {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Keys or certificates cannot be read or made.
    #[error("cannot prepare keys and certificates")]
    Pki(#[from] pki::PkiError),
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] store_disk::OpenError),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The certificates do not make a TLS configuration.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig")]
    Kubeconfig(#[from] pki::KubeconfigError),
    /// The objects that a cluster starts with cannot be written.
    #[error("cannot write the first objects: {0}")]
    Bootstrap(String),
    /// The kubeconfig of a process of controllers cannot be used.
    #[error("cannot use the kubeconfig")]
    Access(#[from] client::KubeconfigError),
    /// The way to the API server cannot be set up.
    #[error("cannot reach an API server")]
    Https(#[from] client::HttpsError),
    /// A choice of controllers means nothing.
    #[error("{0}")]
    Controllers(String),
    /// This machine does not join.
    #[error(transparent)]
    Join(#[from] crate::agent::JoinError),
    /// The node of this process cannot be started.
    #[error("cannot start the node: {0}")]
    Node(String),
    /// The runtime cannot be started or signals cannot be heard.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}
