//! Images from files and into files: what `docker save` writes, and OCI layouts, packed or not.

mod directory;
mod export;
mod import;
mod origin;

use crate::digest::Digest;

pub(crate) use directory::{Imported, stamp};
pub use import::ImportOptions;

/// The name of a blob in a layout.
fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}
