//! Imports the images of an archive or directory.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::blob_name;
use super::origin::{DOCUMENT_BYTES_MAX, Origin, unreadable};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{
    ANNOTATION_NAME, ANNOTATION_TAG, Descriptor, Document, Index, MANIFEST_BYTES_MAX, Manifest, media,
};
use crate::reference::Reference;
use crate::store::{Image, Images, Work};

/// Lists within lists; builders make one level.
const INDEX_DEPTH_MAX: usize = 4;
/// Images of one archive.
const IMAGES_MAX: usize = 1024;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The name of the image, instead of those that the archive gives; the archive must then hold one image.
    pub name: Option<Reference>,
    /// Keep the images from collection as garbage.
    pub pinned: bool,
}

/// One image of a `docker save` archive.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// A manifest found in the archive, the way that led to it, and its names.
struct Found {
    names: Vec<Reference>,
    digest: Digest,
    manifest_digest: Digest,
    manifest: Manifest,
}

impl Images {
    /// Imports the images of a `docker save` archive or an OCI layout: a directory, or a tar, plain or packed with
    /// gzip or zstd. Blocks; not for a thread of a runtime, but for
    /// `spawn_blocking`.
    pub fn import(&self, path: &Path, options: &ImportOptions) -> Result<Vec<Image>, ImageError> {
        let inner = &self.inner;
        let work = Work::begin(inner)?;
        let origin = Origin::open(path, &inner.layout, &inner.options.limits)?;
        let import = Import { images: self, origin: &origin, work: &work, options };
        let found = import.find().map_err(|error| error.about(&path.display().to_string()))?;
        let mut images = Vec::new();
        for image in found {
            images.extend(import.record(&image)?);
        }
        Ok(images)
    }
}

struct Import<'a> {
    images: &'a Images,
    origin: &'a Origin,
    work: &'a Work,
    options: &'a ImportOptions,
}

impl Import<'_> {
    /// All images, their blobs adopted.
    fn find(&self) -> Result<Vec<Found>, ImageError> {
        let has_saved = self.origin.has("manifest.json");
        if self.origin.has("index.json") {
            let index = self.index()?;
            let is_named =
                self.options.name.is_some() || index.manifests.iter().any(|entry| !names_of(entry).is_empty());
            if is_named || !has_saved {
                return self.find_in_layout(&index);
            }
        }
        if has_saved {
            return self.find_saved();
        }
        Err(ImageError::Damaged(
            "neither an OCI layout nor an archive of images: no index.json, no manifest.json".into(),
        ))
    }

    fn index(&self) -> Result<Index, ImageError> {
        let bytes = self.origin.read("index.json", DOCUMENT_BYTES_MAX)?;
        match Document::parse("index.json", "", &bytes)? {
            Document::Index(index) => Ok(index),
            Document::Manifest(_) => Err(ImageError::Damaged("index.json is no index".to_owned())),
        }
    }

    fn find_in_layout(&self, index: &Index) -> Result<Vec<Found>, ImageError> {
        let mut groups: BTreeMap<Vec<Reference>, Vec<Descriptor>> = BTreeMap::new();
        for entry in &index.manifests {
            let names = match &self.options.name {
                Some(name) => vec![name.clone()],
                None => names_of(entry),
            };
            groups.entry(names).or_default().push(entry.clone());
        }
        if groups.is_empty() {
            return Err(ImageError::Damaged("index.json lists no image".to_owned()));
        }
        groups.into_iter().map(|(names, entries)| self.resolve(names, entries)).collect()
    }

    /// The image for this machine among entries of one name.
    fn resolve(&self, names: Vec<Reference>, entries: Vec<Descriptor>) -> Result<Found, ImageError> {
        let shown = names.first().map_or_else(|| "an image without a name".to_owned(), ToString::to_string);
        let platform = &self.images.inner.options.platform;
        let mut index = Index { schema_version: 2, media_type: String::new(), manifests: entries };
        let mut top: Option<Digest> = None;
        for _ in 0..INDEX_DEPTH_MAX {
            let entry = index.choose(&shown, platform)?.clone();
            let bytes = self.adopt_document(&entry)?;
            let digest = top.get_or_insert_with(|| entry.digest.clone()).clone();
            match Document::parse(&shown, &entry.media_type, &bytes)? {
                Document::Index(inner) => index = inner,
                Document::Manifest(manifest) => {
                    let found = Found { names, digest, manifest_digest: entry.digest, manifest };
                    self.adopt_content(&found.manifest)?;
                    return Ok(found);
                }
            }
        }
        Err(ImageError::TooLarge(format!("{shown}: lists more than {INDEX_DEPTH_MAX} deep")))
    }

    fn adopt_document(&self, entry: &Descriptor) -> Result<Vec<u8>, ImageError> {
        let name = blob_name(&entry.digest);
        let bytes = self.origin.read(&name, MANIFEST_BYTES_MAX)?;
        entry.digest.verify(&name, &bytes)?;
        self.adopt(&name, &entry.digest)?;
        Ok(bytes)
    }

    fn adopt_content(&self, manifest: &Manifest) -> Result<(), ImageError> {
        for entry in manifest.layers.iter().chain([&manifest.config]) {
            let name = blob_name(&entry.digest);
            let bytes = self.adopt(&name, &entry.digest)?;
            if bytes != entry.size {
                return Err(ImageError::Damaged(format!("{name}: {bytes} bytes instead of {}", entry.size)));
            }
        }
        Ok(())
    }

    fn adopt(&self, name: &str, digest: &Digest) -> Result<u64, ImageError> {
        self.work.pin(digest);
        self.origin.adopt(name, digest, &self.images.inner.layout)
    }

    fn find_saved(&self) -> Result<Vec<Found>, ImageError> {
        let bytes = self.origin.read("manifest.json", DOCUMENT_BYTES_MAX)?;
        let saved: Vec<Saved> = serde_json::from_slice(&bytes).map_err(|error| unreadable("manifest.json", &error))?;
        saved.iter().map(|image| self.saved_image(image)).collect()
    }

    /// A saved image has no manifest; it gets one that says the same.
    fn saved_image(&self, saved: &Saved) -> Result<Found, ImageError> {
        let names = match (&self.options.name, &saved.repo_tags) {
            (Some(name), _) => vec![name.clone()],
            (None, tags) => tags.iter().flatten().map(|tag| Reference::parse(tag)).collect::<Result<_, _>>()?,
        };
        let config = self.describe(&saved.config, media::OCI_CONFIG)?;
        let layers: Result<Vec<Descriptor>, ImageError> =
            saved.layers.iter().map(|layer| self.describe(layer, media::OCI_LAYER)).collect();
        let manifest = Manifest::new(config, layers?);
        let bytes = serde_json::to_vec(&manifest).map_err(|error| unreadable("manifest.json", &error))?;
        let digest = self.work.keep(&bytes)?;
        Ok(Found { names, manifest_digest: digest.clone(), digest, manifest })
    }

    fn describe(&self, name: &str, media_type: &str) -> Result<Descriptor, ImageError> {
        let (digest, size) = self.origin.digest(name)?;
        self.adopt(name, &digest)?;
        Ok(Descriptor::new(media_type, digest, size))
    }

    /// Unpacks an image and records its names.
    fn record(&self, found: &Found) -> Result<Vec<Image>, ImageError> {
        let inner = &self.images.inner;
        if found.names.is_empty() {
            let text = format!("the archive gives no name to the image {}", found.digest);
            return Err(ImageError::InvalidName { name: String::new(), reason: text });
        }
        if found.names.len() > IMAGES_MAX {
            return Err(ImageError::TooLarge(format!("{}: more than {IMAGES_MAX} names", found.digest)));
        }
        let mut images = Vec::new();
        for name in &found.names {
            let name = name.to_string();
            let bytes = inner.read_config(&name, &found.manifest.config)?;
            let config = ImageConfig::parse(&name, &bytes)?;
            let manifest = (&found.manifest_digest, &found.manifest);
            let record = inner.assemble(self.work, &name, &found.digest, manifest, config, self.options.pinned)?;
            images.push(inner.image(record));
        }
        Ok(images)
    }
}

/// The names that a layout's entry carries. A bare tag, as OCI has it, says nothing without the name of a repository.
fn names_of(entry: &Descriptor) -> Vec<Reference> {
    let whole = entry.annotations.get(ANNOTATION_NAME);
    let tag = entry.annotations.get(ANNOTATION_TAG).filter(|tag| tag.contains(['/', ':', '@']));
    whole.or(tag).and_then(|name| Reference::parse(name).ok()).into_iter().collect()
}
