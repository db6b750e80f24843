//! A directory of archives for machines without a registry: each is imported once.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::import::ImportOptions;
use crate::digest::{Digest, Hasher};
use crate::error::ImageError;
use crate::store::{Image, Images, entries};

/// What the archives' names end with.
const ENDINGS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd"];

/// The note that something was imported, by the digest of its content or of what identifies it without reading it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Imported {
    /// The IDs of the images that came of it.
    pub ids: Vec<Digest>,
}

impl Imported {
    /// The note of `key`, if there is one.
    pub fn read(images: &Images, key: &Digest) -> Option<Imported> {
        serde_json::from_slice(&std::fs::read(images.inner.layout.import(key)).ok()?).ok()
    }

    pub fn write(images: &Images, key: &Digest, found: &[Image]) -> Result<(), ImageError> {
        let note = Imported { ids: found.iter().map(|image| image.id.clone()).collect() };
        let bytes = serde_json::to_vec(&note).map_err(|e| ImageError::disk("note an import", e.into()))?;
        images.inner.layout.write_file(&images.inner.layout.import(key), &bytes)
    }
}

/// The digest of what tells that a file is still the same without reading it.
pub(crate) fn stamp(what: &str, found: &Metadata) -> Digest {
    let (dev, ino, bytes) = (found.dev(), found.ino(), found.len());
    Digest::of(format!("{what} {dev} {ino} {bytes} {}.{}", found.mtime(), found.mtime_nsec()).as_bytes())
}

impl Images {
    /// Imports every archive of a directory that was not imported before, and keeps their images from collection as
    /// garbage. What became of each archive that was new, in the order of names; an absent directory is empty.
    /// Blocks.
    pub fn import_directory(&self, directory: &Path) -> Vec<(PathBuf, Result<Vec<Image>, ImageError>)> {
        let is_archive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            ENDINGS.iter().any(|ending| name.ends_with(ending))
        };
        let archives = entries(directory).into_iter().filter(is_archive);
        archives.filter_map(|path| Some((path.clone(), self.import_once(&path).transpose()?))).collect()
    }

    fn import_once(&self, path: &Path) -> Result<Option<Vec<Image>>, ImageError> {
        let failed = |error| ImageError::disk(format!("read {}", path.display()), error);
        let stamp = stamp(&path.display().to_string(), &std::fs::metadata(path).map_err(failed)?);
        if Imported::read(self, &stamp).is_some() {
            return Ok(None);
        }
        let digest = digest_file(path).map_err(failed)?;
        if Imported::read(self, &digest).is_some() {
            Imported::write(self, &stamp, &[])?;
            return Ok(None);
        }
        let found = self.import(path, &ImportOptions { pinned: true, ..ImportOptions::default() })?;
        Imported::write(self, &digest, &found)?;
        Imported::write(self, &stamp, &found)?;
        Ok(Some(found))
    }
}

fn digest_file(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::sha256();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}
