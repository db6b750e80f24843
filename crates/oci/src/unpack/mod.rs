//! Unpacks one layer into a directory of its own, in the form that overlayfs takes as a lower layer.
//!
//! Whiteouts become character devices 0/0, opaque directories get the attribute `trusted.overlay.opaque`; both need
//! root. Nothing is ever made outside the directory: every path is opened below it by the kernel (`openat2` with
//! `RESOLVE_IN_ROOT`), whatever symbolic links the layer brought.

mod path;
mod tree;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::compress::Plain;
use crate::digest::Digest;
use crate::error::{Exceeded, ImageError};
use crate::limits::Limits;
use crate::tape::{Entry, Kind, Tape};
use path::{LayerPath, Whiteout};
use tree::Tree;

/// What came of a layer.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// The digest of the plain tar stream.
    pub diff_id: Digest,
    /// Of all files.
    pub file_bytes: u64,
    /// Of the plain tar stream.
    pub plain_bytes: u64,
}

/// Unpacks `packed` into the empty directory `target`. `lower` are the directories of the layers below, lowest
/// first: a directory that this layer has no entry for looks as it does there. `what` names the layer in errors.
pub(crate) fn unpack(
    what: &str,
    packed: impl Read,
    target: &Path,
    lower: &[PathBuf],
    limits: &Limits,
    plain_bytes_max: u64,
) -> Result<Unpacked, ImageError> {
    let stream = |error| ImageError::stream(what, error);
    let plain = Plain::new(packed, limits, plain_bytes_max).map_err(stream)?;
    let mut tape = Tape::new(plain);
    let mut tree = Tree::open(target, lower).map_err(stream)?;
    let mut file_bytes = 0u64;
    let mut entries = 0u64;
    while let Some(entry) = tape.next_entry().map_err(stream)? {
        entries += 1;
        if entries > limits.entries_max {
            return Err(stream(Exceeded::io(format!("more than {} entries", limits.entries_max))));
        }
        file_bytes = file_bytes.saturating_add(entry.size);
        let named = || format!("{what}: entry {:?}", String::from_utf8_lossy(&entry.path));
        apply(&mut tree, &entry, &mut tape).map_err(|error| ImageError::stream(&named(), error))?;
    }
    tree.finish().map_err(stream)?;
    let (diff_id, plain_bytes) = tape.into_inner().finish().map_err(stream)?;
    Ok(Unpacked { diff_id, file_bytes, plain_bytes })
}

fn apply(tree: &mut Tree, entry: &Entry, data: &mut impl Read) -> std::io::Result<()> {
    let path = LayerPath::parse(&entry.path)?;
    match path.whiteout()? {
        Whiteout::None => {}
        Whiteout::Ignored => return Ok(()),
        Whiteout::Opaque(directory) => return tree.make_opaque(&directory),
        Whiteout::Hides(hidden) => return tree.whiteout(&hidden),
    }
    match entry.kind {
        Kind::Directory => tree.directory(&path, entry),
        Kind::File => tree.file(&path, entry, data),
        Kind::Symlink => tree.symlink(&path, entry),
        Kind::Hardlink => tree.hardlink(&path, &LayerPath::parse(&entry.link)?),
        Kind::Char | Kind::Block | Kind::Fifo => tree.special(&path, entry),
    }
}

#[cfg(test)]
mod tests;
