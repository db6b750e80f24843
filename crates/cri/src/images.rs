//! The ImageService.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contract::{Error, Result};

use crate::answer;
use crate::channel::{CallError, Channel};
use crate::wire;

const SERVICE: &str = "/runtime.v1.ImageService";
/// An answer that needs no waiting on anybody else; a machine under load may take a while.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Removing large images takes its time.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(120);

/// An image that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriImage {
    /// The runtime's own name for it: the digest of its configuration.
    pub id: String,
    /// Names with tags.
    pub tags: Vec<String>,
    /// Names with digests.
    pub digests: Vec<String>,
    /// Bytes.
    pub size: u64,
    /// Who its program runs as, by number, by name, or not said.
    pub user: String,
    /// Whether the runtime asks to keep it: what sandboxes wait in, mostly.
    pub is_pinned: bool,
}

impl From<wire::Image> for CriImage {
    fn from(image: wire::Image) -> CriImage {
        CriImage {
            id: image.id,
            tags: image.repo_tags,
            digests: image.repo_digests,
            size: image.size,
            user: image.uid.map_or(image.username, |uid| uid.value.to_string()),
            is_pinned: image.pinned,
        }
    }
}

/// The images of a runtime.
#[derive(Clone)]
pub struct CriImages {
    channel: Arc<Channel>,
}

fn named(image: &str) -> Option<wire::ImageSpec> {
    Some(wire::ImageSpec { image: image.to_owned(), ..wire::ImageSpec::default() })
}

impl CriImages {
    pub(crate) fn new(channel: Arc<Channel>) -> CriImages {
        CriImages { channel }
    }

    async fn ask<A: prost::Message + Default>(
        &self,
        method: &str,
        image: &str,
        question: &impl prost::Message,
        limit: Duration,
    ) -> Result<A> {
        let done = self.channel.call(&format!("{SERVICE}/{method}"), question, limit).await;
        done.map_err(|error| match error {
            // Words for people come from the registry, whatever the code.
            CallError::Refused { message, .. } => Error::WrongState(message),
            other => answer::error("image", image, method, other),
        })
    }

    /// The image of a name, digest or identity, if it is there.
    pub async fn find(&self, image: &str) -> Result<Option<CriImage>> {
        let ask = wire::ImageRequest { image: named(image) };
        let found: wire::ImageStatusResponse = self.ask("ImageStatus", image, &ask, ANSWER_TIMEOUT).await?;
        Ok(found.image.map(CriImage::from))
    }

    /// All images.
    pub async fn list(&self) -> Result<Vec<CriImage>> {
        let ask = wire::ImageRequest { image: None };
        let listed: wire::ListImagesResponse = self.ask("ListImages", "", &ask, ANSWER_TIMEOUT).await?;
        Ok(listed.images.into_iter().map(CriImage::from).collect())
    }

    /// Fetches an image, within `limit`; the answer is what the runtime knows it by.
    pub async fn pull(&self, image: &str, login: Option<(String, String)>, limit: Duration) -> Result<String> {
        let auth = login.map(|(username, password)| wire::AuthConfig { username, password });
        let ask = wire::PullImageRequest { image: named(image), auth };
        let pulled: wire::PullImageResponse = self.ask("PullImage", image, &ask, limit).await?;
        Ok(pulled.image_ref)
    }

    /// Removes an image; one that is not there is no error.
    pub async fn remove(&self, image: &str) -> Result<()> {
        let ask = wire::ImageRequest { image: named(image) };
        self.ask::<wire::Empty>("RemoveImage", image, &ask, REMOVE_TIMEOUT).await.map(|_| ())
    }

    /// What containers were made of, whoever made them, by whatever they call it; also those that have ended.
    pub async fn in_use(&self) -> Result<BTreeSet<String>> {
        let ask = wire::ListContainersRequest::default();
        let listed =
            self.channel.call(&format!("{}/ListContainers", crate::runtime::SERVICE), &ask, ANSWER_TIMEOUT).await;
        let listed: wire::ListContainersResponse =
            listed.map_err(|error| answer::error("image", "", "find out what is in use", error))?;
        let names = |one: wire::Container| [one.image.unwrap_or_default().image, one.image_ref, one.image_id];
        Ok(listed.containers.into_iter().flat_map(names).filter(|name| !name.is_empty()).collect())
    }

    /// A directory of the file system that images are on, as far as the runtime says.
    pub async fn place(&self) -> Result<Option<PathBuf>> {
        let told: wire::ImageFsInfoResponse = self.ask("ImageFsInfo", "", &wire::Empty {}, ANSWER_TIMEOUT).await?;
        let places = told.image_filesystems.into_iter().filter_map(|one| one.fs_id);
        Ok(places.map(|place| PathBuf::from(place.mountpoint)).find(|path| path.is_dir()))
    }
}
