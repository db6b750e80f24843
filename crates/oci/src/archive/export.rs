//! Writes an image as an archive that `docker load`, containerd and others read: an OCI layout with the list of
//! `docker save` beside it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};

use serde_json::json;

use super::blob_name;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{ANNOTATION_NAME, ANNOTATION_TAG, media};
use crate::reference::Reference;
use crate::store::{Images, Record, Work};

impl Images {
    /// Writes the image of a name or ID as a tar. The same image gives the same bytes. Blocks.
    pub fn export(&self, name: &str, out: &mut dyn Write) -> Result<(), ImageError> {
        let _work = Work::begin(&self.inner)?;
        let record = self.inner.find(name)?.ok_or_else(|| ImageError::NotFound(name.to_owned()))?;
        let mut archive = tar::Builder::new(out);
        self.write(&record, &mut archive).map_err(|e| ImageError::disk(format!("export {}", record.name), e))
    }

    fn write(&self, record: &Record, archive: &mut tar::Builder<&mut dyn Write>) -> io::Result<()> {
        append(archive, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let layers = record.layers.iter().map(|layer| &layer.blob);
        let blobs: BTreeSet<&Digest> = layers.chain([&record.manifest, &record.config_digest]).collect();
        for digest in blobs {
            let blob = File::open(self.inner.layout.blob(digest))?;
            let mut header = header(blob.metadata()?.len());
            archive.append_data(&mut header, blob_name(digest), blob)?;
        }
        let manifest_bytes = std::fs::metadata(self.inner.layout.blob(&record.manifest))?.len();
        append(archive, "index.json", index(record, manifest_bytes).to_string().as_bytes())?;
        append(archive, "manifest.json", saved(record).to_string().as_bytes())?;
        archive.finish()
    }
}

fn index(record: &Record, manifest_bytes: u64) -> serde_json::Value {
    let reference = Reference::parse(&record.name).ok();
    let tag = reference.as_ref().and_then(Reference::tag).unwrap_or_default();
    json!({"schemaVersion": 2, "mediaType": media::OCI_INDEX, "manifests": [{
        "mediaType": media::OCI_MANIFEST, "digest": record.manifest, "size": manifest_bytes,
        "annotations": {ANNOTATION_NAME: record.name, ANNOTATION_TAG: tag}}]})
}

fn saved(record: &Record) -> serde_json::Value {
    let layers: Vec<String> = record.layers.iter().map(|layer| blob_name(&layer.blob)).collect();
    json!([{"Config": blob_name(&record.config_digest), "RepoTags": [record.name], "Layers": layers}])
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes);
    header.set_mode(0o644);
    header
}

fn append(archive: &mut tar::Builder<&mut dyn Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(bytes.len() as u64), name, bytes)
}
