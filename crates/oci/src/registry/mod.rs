//! Pulls images from registries that speak the OCI distribution specification or Docker's second protocol.

mod blob;
mod challenge;
mod connect;
mod file;
mod hosts;
mod keyring;
mod pull;
mod session;

use std::sync::Arc;

use crate::digest::Digest;

pub use file::HostsError;
pub use hosts::{Hosts, Mirror};
pub use keyring::{Keyring, Login};

/// How far one blob of a pull is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The blob.
    pub digest: &'a Digest,
    /// Bytes on the disk.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// Is told of progress, from several tasks.
pub type ProgressFn = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// The registries as this machine sees them. One for all pulls.
#[derive(Clone)]
pub struct Registries(Arc<connect::Connector>);

impl Registries {
    /// With mirrors and exceptions as given.
    pub fn new(hosts: Hosts) -> Registries {
        Registries(Arc::new(connect::Connector::new(hosts)))
    }
}

/// With whom and as whom to pull.
#[derive(Clone)]
pub struct PullOptions {
    /// The registries.
    pub registries: Registries,
    /// The credentials of the pod's secrets.
    pub keyring: Keyring,
    /// Keep the image from collection as garbage.
    pub pinned: bool,
    /// Is told of progress.
    pub progress: ProgressFn,
}

impl PullOptions {
    /// Nobody's pull, without an audience.
    pub fn new(registries: Registries) -> PullOptions {
        PullOptions { registries, keyring: Keyring::default(), pinned: false, progress: Arc::new(|_| {}) }
    }
}

#[cfg(test)]
mod tests;
