//! Layers on disk: each unpacked once, for all images that share it and all below it.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use super::images::{Inner, Work};
use super::record::{LayerRecord, Record, chains};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{Descriptor, Manifest};
use crate::unpack::unpack;

impl Inner {
    /// Makes an image of blobs that are there: unpacks its layers, lowest first, and records its name. Blocks.
    pub fn assemble(
        &self,
        work: &Work,
        name: &str,
        digest: &Digest,
        manifest: (&Digest, &Manifest),
        config: ImageConfig,
        pinned: bool,
    ) -> Result<Record, ImageError> {
        let (manifest_digest, manifest) = manifest;
        let chains = layer_chains(name, manifest, &config)?;
        let mut lower: Vec<PathBuf> = Vec::new();
        let mut budget = self.options.limits.unpacked_bytes_max;
        for ((layer, chain), diff_id) in manifest.layers.iter().zip(&chains).zip(&config.diff_ids) {
            work.pin(chain);
            let bytes = self.ensure_layer(name, layer, diff_id, chain, &lower, budget)?;
            budget = budget.saturating_sub(bytes);
            lower.push(self.layout.layer_fs(chain));
        }
        let layers = manifest.layers.iter().zip(chains);
        let record = Record {
            name: name.to_owned(),
            digest: digest.clone(),
            manifest: manifest_digest.clone(),
            config_digest: manifest.config.digest.clone(),
            config,
            layers: layers
                .map(|(layer, chain)| LayerRecord { blob: layer.digest.clone(), blob_bytes: layer.size, chain })
                .collect(),
            pulled_micros: self.options.clock.now().as_micros(),
            pinned,
        };
        record.write(&self.layout)?;
        Ok(record)
    }

    /// Reads the blob of a config.
    pub fn read_config(&self, name: &str, config: &Descriptor) -> Result<Vec<u8>, ImageError> {
        let bytes_max = self.options.limits.config_bytes_max;
        let mut bytes = Vec::new();
        let file = File::open(self.layout.blob(&config.digest));
        let read = file.and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
        read.map_err(|e| ImageError::disk(format!("{name}: read the config"), e))?;
        if bytes.len() as u64 > bytes_max {
            return Err(ImageError::TooLarge(format!("{name}: the config has more than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// Unpacks a layer unless it is there. The bytes that it unpacks to.
    fn ensure_layer(
        &self,
        name: &str,
        layer: &Descriptor,
        diff_id: &Digest,
        chain: &Digest,
        lower: &[PathBuf],
        bytes_max: u64,
    ) -> Result<u64, ImageError> {
        let flight = self.flight(chain);
        let _alone = flight.blocking_lock();
        if let Some(facts) = Facts::read(&self.layout.layer(chain)) {
            return Ok(facts.plain_bytes);
        }
        // What lacks a part was not left so by this program; it would be in the way of the whole.
        self.layout.remove(&self.layout.layer(chain))?;
        let what = format!("{name}: layer {}", layer.digest);
        let tmp = self.layout.tmp();
        let made = self.unpack_layer(&what, layer, diff_id, lower, bytes_max, &tmp);
        let published = made.and_then(|bytes| {
            self.layout.sync_all()?;
            self.layout.publish(&tmp, &self.layout.layer(chain))?;
            Ok(bytes)
        });
        if published.is_err() {
            self.layout.discard(&tmp);
        }
        published
    }

    fn unpack_layer(
        &self,
        what: &str,
        layer: &Descriptor,
        diff_id: &Digest,
        lower: &[PathBuf],
        bytes_max: u64,
        tmp: &std::path::Path,
    ) -> Result<u64, ImageError> {
        self.layout.step("unpack")?;
        let fs = tmp.join("fs");
        std::fs::create_dir_all(&fs).map_err(|e| ImageError::disk(format!("make {}", fs.display()), e))?;
        let blob = File::open(self.layout.blob(&layer.digest)).map_err(|e| ImageError::disk(what, e))?;
        let unpacked = unpack(what, blob, &fs, lower, &self.options.limits, bytes_max)?;
        diff_id.compare(&format!("{what}: unpacked"), &unpacked.diff_id)?;
        let facts = Facts { plain_bytes: unpacked.plain_bytes, file_bytes: unpacked.file_bytes };
        facts.write(tmp)?;
        Ok(unpacked.plain_bytes)
    }
}

/// The chains of an image's layers, where manifest and config agree on how many there are.
fn layer_chains(name: &str, manifest: &Manifest, config: &ImageConfig) -> Result<Vec<Digest>, ImageError> {
    let (layers, diff_ids) = (manifest.layers.len(), config.diff_ids.len());
    if layers != diff_ids {
        return Err(ImageError::Damaged(format!("{name}: {layers} layers, but the config tells of {diff_ids}")));
    }
    // Names of layers are of one algorithm; the config's are by every builder's choice the same.
    if let Some(other) = config.diff_ids.iter().find(|diff_id| diff_id.algorithm() != "sha256") {
        return Err(ImageError::Damaged(format!("{name}: the config names a layer by {}", other.algorithm())));
    }
    Ok(chains(&config.diff_ids))
}

/// What is worth knowing of an unpacked layer without looking through it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Facts {
    plain_bytes: u64,
    file_bytes: u64,
}

impl Facts {
    fn read(layer: &std::path::Path) -> Option<Facts> {
        std::fs::metadata(layer.join("fs")).ok()?;
        serde_json::from_slice(&std::fs::read(layer.join("facts.json")).ok()?).ok()
    }

    fn write(&self, layer: &std::path::Path) -> Result<(), ImageError> {
        let write = || std::fs::write(layer.join("facts.json"), serde_json::to_vec(self)?);
        write().map_err(|e| ImageError::disk("describe a layer", e))
    }
}
