//! Images from files and into files: what `docker save` writes, and OCI layouts, packed or not.

mod import;
mod origin;

pub use import::ImportOptions;
