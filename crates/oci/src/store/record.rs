//! What the store remembers of an image.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::layout::{Layout, entries};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;

/// One layer of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// The blob as downloaded.
    pub blob: Digest,
    /// Its length.
    pub blob_bytes: u64,
    /// The chain of layers that this one ends: the name of its directory.
    pub chain: Digest,
}

/// One name and what it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub name: String,
    /// What the name resolved to: a list or a manifest.
    pub digest: Digest,
    /// The manifest for this machine.
    pub manifest: Digest,
    /// The config: the image's ID.
    pub config_digest: Digest,
    pub config: ImageConfig,
    pub layers: Vec<LayerRecord>,
    pub pulled_micros: i64,
    /// Never collected as garbage.
    #[serde(default)]
    pub pinned: bool,
}

impl Record {
    /// The bytes of its blobs.
    pub fn size(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.blob_bytes))
    }

    /// The blobs that it needs.
    pub fn blobs(&self) -> impl Iterator<Item = &Digest> {
        [&self.digest, &self.manifest, &self.config_digest].into_iter().chain(self.layers.iter().map(|l| &l.blob))
    }

    /// Writes the record; from then on the image exists.
    pub fn write(&self, layout: &Layout) -> Result<(), ImageError> {
        let bytes = serde_json::to_vec(self)
            .map_err(|error| ImageError::Damaged(format!("{}: cannot be recorded: {error}", self.name)))?;
        layout.write_file(&layout.image(&self.name), &bytes)
    }

    /// Reads a record; none if there is none. One that cannot be read counts as none: the image can be pulled again.
    pub fn read(path: &Path) -> Result<Option<Record>, ImageError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ImageError::disk(format!("read {}", path.display()), error)),
        };
        match serde_json::from_slice(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a record of an image cannot be read");
                Ok(None)
            }
        }
    }

    /// All records, by name.
    pub fn all(layout: &Layout) -> Result<Vec<Record>, ImageError> {
        let mut records = Vec::new();
        for path in entries(&layout.images()) {
            records.extend(Record::read(&path)?);
        }
        records.sort_by(|a: &Record, b: &Record| a.name.cmp(&b.name));
        Ok(records)
    }
}

/// The names of the chains that end with each layer: of the lowest its own diff ID, of others the digest of the chain
/// below and the own one.
pub(crate) fn chains(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chains: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff_id in diff_ids {
        let chain = match chains.last() {
            None => diff_id.clone(),
            Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
        };
        chains.push(chain);
    }
    chains
}
