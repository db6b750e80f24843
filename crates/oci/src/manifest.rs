//! Manifests and lists of manifests, of OCI and of Docker's second schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::ImageError;
use crate::platform::Platform;

/// The distribution specification asks registries to take this much; nothing real comes near it.
pub const MANIFEST_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Overlayfs stacks at most 500 layers, Docker builds at most 127.
pub const LAYERS_MAX: usize = 256;
/// Of the manifests in a list: about a hundred platforms, each with an attestation, ten times over.
const OFFERS_MAX: usize = 2048;

/// Media types.
pub(crate) mod media {
    pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
    pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// What is asked for, the preferred first.
    pub const ACCEPTED: [&str; 4] = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];
}

/// The annotation by which containerd names an image in a layout.
pub(crate) const ANNOTATION_NAME: &str = "io.containerd.image.name";
/// The annotation by which OCI tags an image in a layout.
pub(crate) const ANNOTATION_TAG: &str = "org.opencontainers.image.ref.name";

/// Points to content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What the content is.
    #[serde(default)]
    pub media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// In a list: the machine it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Free notes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The manifest of one image: its config and layers, lowest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// 2.
    pub schema_version: u64,
    /// OCI's or Docker's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The image's config.
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
}

/// One manifest for each of several machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// 2.
    pub schema_version: u64,
    /// OCI's or Docker's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The manifests.
    pub manifests: Vec<Descriptor>,
}

/// What a registry may answer when asked for a manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// One image.
    Manifest(Manifest),
    /// Several, one a platform.
    Index(Index),
}

impl Descriptor {
    /// Points to content that has neither platform nor notes.
    pub(crate) fn new(media_type: &str, digest: Digest, size: u64) -> Descriptor {
        Descriptor { media_type: media_type.to_owned(), digest, size, platform: None, annotations: BTreeMap::new() }
    }
}

impl Manifest {
    /// OCI's manifest of an image.
    pub(crate) fn new(config: Descriptor, layers: Vec<Descriptor>) -> Manifest {
        Manifest { schema_version: 2, media_type: media::OCI_MANIFEST.to_owned(), config, layers }
    }
}

impl Document {
    /// Reads a manifest or list. The document itself tells which it is; `declared`, the media type that came with
    /// it, must not contradict it.
    pub fn parse(what: &str, declared: &str, bytes: &[u8]) -> Result<Document, ImageError> {
        let damaged = |reason: String| ImageError::Damaged(format!("{what}: {reason}"));
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| damaged(format!("the manifest is no JSON: {error}")))?;
        if value["schemaVersion"] == 1 {
            return Err(damaged("the manifest is of schema version 1, which is no longer in use".to_owned()));
        }
        if value["schemaVersion"] != 2 {
            return Err(damaged("the manifest has no schemaVersion".to_owned()));
        }
        let own = value["mediaType"].as_str().unwrap_or("").to_owned();
        let is_index = value.get("manifests").is_some();
        // A document that is both could be read as one thing here and as another elsewhere.
        if is_index && (value.get("layers").is_some() || value.get("config").is_some()) {
            return Err(damaged("the manifest is a list and an image at once".to_owned()));
        }
        for media_type in [own.as_str(), declared] {
            if says_otherwise(media_type, is_index) {
                return Err(damaged(format!("the manifest is not what its media type {media_type:?} says")));
            }
        }
        let read = |error: serde_json::Error| damaged(format!("the manifest cannot be read: {error}"));
        let document = match is_index {
            true => Document::Index(serde_json::from_value(value).map_err(read)?),
            false => Document::Manifest(serde_json::from_value(value).map_err(read)?),
        };
        document.bounded(what)
    }

    fn bounded(self, what: &str) -> Result<Document, ImageError> {
        let (count, count_max, noun) = match &self {
            Document::Manifest(manifest) => (manifest.layers.len(), LAYERS_MAX, "layers"),
            Document::Index(index) => (index.manifests.len(), OFFERS_MAX, "manifests"),
        };
        if count > count_max {
            return Err(ImageError::TooLarge(format!("{what}: {count} {noun}, more than {count_max}")));
        }
        Ok(self)
    }
}

fn says_otherwise(media_type: &str, is_index: bool) -> bool {
    match media_type {
        media::OCI_INDEX | media::DOCKER_LIST => !is_index,
        media::OCI_MANIFEST | media::DOCKER_MANIFEST => is_index,
        _ => false,
    }
}

impl Index {
    /// The manifest for `platform`.
    pub fn choose(&self, name: &str, platform: &Platform) -> Result<&Descriptor, ImageError> {
        let offers: Vec<Option<Platform>> = self.manifests.iter().map(|entry| entry.platform.clone()).collect();
        let chosen = platform.choose(&offers).and_then(|index| self.manifests.get(index));
        chosen.ok_or_else(|| {
            let found: Vec<String> = offers.iter().flatten().map(ToString::to_string).collect();
            ImageError::Platform { name: name.to_owned(), wanted: platform.clone(), found: found.join(", ") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(value: serde_json::Value, declared: &str) -> Result<Document, ImageError> {
        Document::parse("x", declared, value.to_string().as_bytes())
    }

    #[test]
    fn documents_are_what_they_say() {
        let digest = Digest::of(b"");
        let entry = serde_json::json!({"mediaType": media::OCI_MANIFEST, "digest": digest, "size": 3});
        let image = serde_json::json!({"schemaVersion": 2, "config": entry, "layers": [entry]});
        let list = serde_json::json!({"schemaVersion": 2, "mediaType": media::DOCKER_LIST, "manifests": [entry]});
        assert!(matches!(document(image.clone(), ""), Ok(Document::Manifest(_))));
        assert!(matches!(document(list.clone(), media::DOCKER_LIST), Ok(Document::Index(_))));
        let refuse = |value: serde_json::Value, declared: &str, reason: &str| {
            let error = document(value, declared).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        };
        refuse(image.clone(), media::OCI_INDEX, "not what its media type");
        let mut both = list.clone();
        both["layers"] = image["layers"].clone();
        refuse(both, "", "at once");
        refuse(serde_json::json!({"schemaVersion": 1}), "", "schema version 1");
        refuse(serde_json::json!({}), "", "no schemaVersion");
        refuse(serde_json::json!([]), "", "no schemaVersion");
        let mut deep = image.clone();
        deep["layers"] = serde_json::Value::Array(vec![entry.clone(); LAYERS_MAX + 1]);
        refuse(deep, "", "257 layers, more than 256");
        let mut negative = image;
        negative["config"]["size"] = serde_json::json!(-1);
        refuse(negative, "", "cannot be read");
    }

    #[test]
    fn a_machine_without_an_image_is_told_so() {
        let entry = Descriptor {
            media_type: String::new(),
            digest: Digest::of(b""),
            size: 1,
            platform: Some(Platform::new("linux", "s390x", "")),
            annotations: BTreeMap::new(),
        };
        let index = Index { schema_version: 2, media_type: String::new(), manifests: vec![entry] };
        let error = index.choose("a:b", &Platform::new("linux", "amd64", "")).unwrap_err();
        assert_eq!(error.to_string(), "a:b: no match for platform in manifest: linux/amd64 is not among [linux/s390x]");
    }
}
