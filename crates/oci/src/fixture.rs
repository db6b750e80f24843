//! Layers, images and archives for tests.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use crate::digest::Digest;
use crate::manifest::{Descriptor, Manifest, media};

/// Builds a layer entry by entry.
pub(crate) struct Layer(tar::Builder<Vec<u8>>);

impl Layer {
    pub fn new() -> Layer {
        Layer(tar::Builder::new(Vec::new()))
    }

    fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_000_000_000);
        header
    }

    /// Writes the path as it is, which the builder's own way would refuse for hostile ones.
    fn add(mut self, mut header: tar::Header, path: &str, data: &[u8]) -> Layer {
        header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(data.len() as u64);
        header.set_cksum();
        self.0.append(&header, data).unwrap();
        self
    }

    pub fn file(self, path: &str, text: &str) -> Layer {
        self.add(Layer::header(tar::EntryType::Regular, 0o644), path, text.as_bytes())
    }

    pub fn file_as(self, path: &str, mode: u32, uid: u64, gid: u64) -> Layer {
        let mut header = Layer::header(tar::EntryType::Regular, mode);
        header.set_uid(uid);
        header.set_gid(gid);
        self.add(header, path, b"x")
    }

    pub fn dir(self, path: &str, mode: u32) -> Layer {
        self.add(Layer::header(tar::EntryType::Directory, mode), path, b"")
    }

    fn link(self, kind: tar::EntryType, path: &str, target: &str) -> Layer {
        let mut header = Layer::header(kind, 0o777);
        header.as_ustar_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
        self.add(header, path, b"")
    }

    pub fn symlink(self, path: &str, target: &str) -> Layer {
        self.link(tar::EntryType::Symlink, path, target)
    }

    pub fn hardlink(self, path: &str, target: &str) -> Layer {
        self.link(tar::EntryType::Link, path, target)
    }

    pub fn device(self, kind: tar::EntryType, path: &str, major: u32, minor: u32) -> Layer {
        let mut header = Layer::header(kind, 0o640);
        header.set_device_major(major).unwrap();
        header.set_device_minor(minor).unwrap();
        self.add(header, path, b"")
    }

    pub fn typed(self, kind: u8, path: &str) -> Layer {
        self.add(Layer::header(tar::EntryType::new(kind), 0o644), path, b"")
    }

    pub fn pax(mut self, records: &[(&str, &[u8])]) -> Layer {
        self.0.append_pax_extensions(records.iter().copied()).unwrap();
        self
    }

    pub fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// An image as content by digest.
pub(crate) struct Built {
    pub blobs: BTreeMap<Digest, Vec<u8>>,
    pub manifest: Digest,
    pub config: Digest,
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Descriptor {
    Descriptor::new(media_type, Digest::of(bytes), bytes.len() as u64)
}

/// An image of layers given plain and packed.
pub(crate) fn image(layers: &[(Vec<u8>, Vec<u8>)]) -> Built {
    let diff_ids: Vec<Digest> = layers.iter().map(|(plain, _)| Digest::of(plain)).collect();
    let config = json!({"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/run"], "Env": ["A=b"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    .to_string()
    .into_bytes();
    let layer = |(_, packed): &(Vec<u8>, Vec<u8>)| descriptor(media::OCI_LAYER, packed);
    let manifest = Manifest::new(descriptor(media::OCI_CONFIG, &config), layers.iter().map(layer).collect());
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let packed = layers.iter().map(|(_, packed)| packed.clone());
    let blobs: BTreeMap<Digest, Vec<u8>> =
        packed.chain([config.clone(), manifest.clone()]).map(|bytes| (Digest::of(&bytes), bytes)).collect();
    Built { blobs, manifest: Digest::of(&manifest), config: Digest::of(&config) }
}

/// Two small layers, the second of which changes the first.
pub(crate) fn small() -> Built {
    let base = Layer::new().dir("bin", 0o755).file("bin/run", "run").file("old", "old").dir("tmp", 0o1777).done();
    let top = Layer::new().file(".wh.old", "").file("new", "new").file("tmp/x", "x").done();
    image(&[(base.clone(), gzip(&base)), (top.clone(), zstd(&top))])
}

/// Files of an OCI layout.
pub(crate) fn layout(built: &Built, name: &str) -> Vec<(String, Vec<u8>)> {
    let size = built.blobs[&built.manifest].len();
    let index = json!({"schemaVersion": 2, "manifests": [{"mediaType": media::OCI_MANIFEST, "digest": built.manifest,
        "size": size, "annotations": {"io.containerd.image.name": name}}]});
    let blobs = built.blobs.iter().map(|(digest, bytes)| (format!("blobs/sha256/{}", digest.hex()), bytes.clone()));
    let mut files: Vec<_> = blobs.collect();
    files.push(("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    files.push(("index.json".to_owned(), index.to_string().into_bytes()));
    files
}

pub(crate) fn write_files(root: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

pub(crate) fn tar_files(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = Layer::header(tar::EntryType::Regular, 0o644);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}
