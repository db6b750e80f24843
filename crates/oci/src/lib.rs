//! Images: names, registries, the store on disk, archives.
//!
//! [`Images`] is the store: `get`, `list`, `pull`, `import`, `remove`, `gc`. Nothing in it is ever visible in part, whatever
//! instant a process dies at (`store::layout` tells how), and other processes may work on it at the same time.
//! What comes from outside is not trusted: every size, count and depth has a limit ([`Limits`]), every digest is
//! checked, and no entry of a layer can reach out of the layer's directory (`unpack`).

/// Where the store is, below a node's data directory.
pub const STORE_DIRECTORY: &str = "images";

mod archive;
mod builtin;
mod compress;
mod config;
mod digest;
mod error;
#[cfg(test)]
mod fixture;
mod limits;
mod manifest;
mod platform;
mod reference;
mod registry;
mod store;
mod tape;
mod unpack;

pub use archive::ImportOptions;
pub use builtin::{BOX_IMAGE, Program};
pub use config::{Effective, ImageConfig, User, effective};
pub use digest::Digest;
pub use error::ImageError;
pub use limits::Limits;
pub use manifest::{Descriptor, Index, LAYERS_MAX, MANIFEST_BYTES_MAX, Manifest};
pub use platform::Platform;
pub use reference::{DEFAULT_REGISTRY, Reference};
pub use registry::{Hosts, HostsError, Keyring, Login, Mirror, Progress, ProgressFn, PullOptions, Registries};
pub use store::{DiskUsage, GcPolicy, GcReport, Image, Images, InUse, StoreOptions};
