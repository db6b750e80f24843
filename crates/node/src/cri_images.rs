//! The images of a runtime that keeps them itself, as a node needs them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::images::{Image, Ledger};
use agent::pod::Failure;
use clock::Clock;
use cri::{CriImage, CriImages};
use oci::{Images, Login, Reference};
use serde_json::Value;

use crate::box_registry::{self, BoxRegistry};
use crate::image::{BoxedImage, Collected, ImageLimits, ImageStore, LocalImage, Needed, PULL_TIMEOUT};
use crate::oci_images::{failure, keyring, policy};

/// Images of a runtime behind CRI.
pub struct RuntimeImages {
    images: CriImages,
    /// Where the built-in image is made.
    own: Images,
    /// A directory of the disk that the runtime's images are on.
    place: PathBuf,
    clock: Arc<dyn Clock>,
    ledger: Mutex<Ledger>,
}

impl RuntimeImages {
    /// Over a runtime's images, which are on the disk of `place`; `own` has the built-in one.
    pub fn new(images: CriImages, own: Images, place: PathBuf, clock: Arc<dyn Clock>) -> RuntimeImages {
        RuntimeImages { images, own, place, clock, ledger: Mutex::default() }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Times of one image more or less: no panic leaves it half done.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes to free for these limits.
    fn excess(&self, limits: ImageLimits) -> Result<u64, Failure> {
        let found = rustix::fs::statvfs(&self.place).map_err(|error| inspect(&error))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(policy(limits).excess(bytes(found.f_blocks), bytes(found.f_bavail)))
    }

    async fn collect_garbage(&self, needed: &Needed, limits: ImageLimits) -> Result<Collected, Failure> {
        let listed = self.images.list().await.map_err(|error| inspect(&error))?;
        let in_use = self.images.in_use().await.map_err(|error| inspect(&error))?;
        let needed = everything_needed(needed, in_use);
        let images: Vec<Image> = listed.into_iter().map(|image| candidate(image, &needed)).collect();
        let removable = self.ledger().removable(&images, limits.age_min, self.clock.now());
        let excess = self.excess(limits)?;
        let mut collected = Collected::default();
        for image in removable {
            if collected.freed_bytes >= excess {
                break;
            }
            match self.images.remove(&image.id).await {
                Ok(()) => {
                    collected.freed_bytes = collected.freed_bytes.saturating_add(image.size);
                    collected.removed.push(image.name);
                }
                // The next one may go nevertheless.
                Err(error) => tracing::warn!(image = image.name, %error, "an image cannot be removed"),
            }
        }
        collected.missing_bytes = excess.saturating_sub(collected.freed_bytes);
        Ok(collected)
    }

    async fn find_own(&self) -> Result<Option<LocalImage>, Failure> {
        let own = self.own.clone();
        let read = tokio::task::spawn_blocking(move || own.get(oci::BOX_IMAGE)).await;
        let made = read.map_err(|error| inspect(&error))?.map_err(|error| failure(&error))?;
        let Some(made) = made else { return Ok(None) };
        let found = self.images.find(made.id.as_str()).await.map_err(|error| inspect(&error))?;
        Ok(found.map(local))
    }

    /// One of ours by its digest: to the runtime it came from an address of this machine.
    async fn find_given(&self, name: &str) -> Result<Option<LocalImage>, Failure> {
        let listed = self.images.list().await.map_err(|error| inspect(&error))?;
        Ok(listed.into_iter().map(local).find(|image| image.names.iter().any(|known| known == name)))
    }

    async fn pull_own(&self) -> Result<LocalImage, Failure> {
        let missing = |message: String| Failure { reason: "ErrImagePull".to_owned(), message };
        let registry = BoxRegistry::open(&self.own).await.map_err(|error| missing(error.to_string()))?;
        let pulled = self.images.pull(&registry.reference(), None, PULL_TIMEOUT).await;
        pulled.map_err(|error| missing(error.to_string()))?;
        self.find_own().await?.ok_or_else(|| missing(format!("{} was not taken", oci::BOX_IMAGE)))
    }

    async fn pull_other(&self, name: &str, secrets: &[Value]) -> Result<LocalImage, Failure> {
        let reference = Reference::parse(name).map_err(|error| failure(&error))?;
        let ring = keyring(secrets);
        let mut logins: Vec<Option<&Login>> = ring.logins(&reference).into_iter().map(Some).collect();
        if logins.is_empty() {
            logins.push(None);
        }
        let mut refused = None;
        for login in logins {
            let login = login.map(|login| (login.username.clone(), login.password.clone()));
            match self.images.pull(name, login, PULL_TIMEOUT).await {
                Ok(image) => {
                    self.ledger().note(&image, self.clock.now());
                    let found = self.images.find(&image).await.map_err(|error| inspect(&error))?;
                    let gone = || Failure { reason: "ErrImagePull".to_owned(), message: format!("{name} is gone") };
                    return found.map(|found| of(found, &reference)).ok_or_else(gone);
                }
                Err(error) => refused = Some(error),
            }
        }
        let message = refused.map_or_else(String::new, |error| error.to_string());
        Err(Failure { reason: "ErrImagePull".to_owned(), message })
    }
}

fn inspect(error: &dyn std::fmt::Display) -> Failure {
    Failure { reason: "ImageInspectError".to_owned(), message: error.to_string() }
}

impl ImageStore for RuntimeImages {
    fn find<'a>(&'a self, name: &'a str) -> BoxedImage<'a, Option<LocalImage>> {
        Box::pin(async move {
            if name == oci::BOX_IMAGE {
                return self.find_own().await;
            }
            if box_registry::is_ours(name) {
                return self.find_given(name).await;
            }
            let reference = Reference::parse(name).map_err(|error| failure(&error))?;
            let found = self.images.find(name).await.map_err(|error| inspect(&error))?;
            Ok(found.map(|found| of(found, &reference)))
        })
    }

    fn pull<'a>(&'a self, name: &'a str, secrets: &'a [Value]) -> BoxedImage<'a, LocalImage> {
        Box::pin(async move {
            match name == oci::BOX_IMAGE {
                true => self.pull_own().await,
                false => self.pull_other(name, secrets).await,
            }
        })
    }

    fn list(&self) -> BoxedImage<'_, Vec<LocalImage>> {
        Box::pin(async move {
            let listed = self.images.list().await.map_err(|error| inspect(&error))?;
            Ok(listed.into_iter().map(local).collect())
        })
    }

    fn collect(&self, needed: Needed, limits: ImageLimits) -> BoxedImage<'_, Collected> {
        Box::pin(async move { self.collect_garbage(&needed, limits).await })
    }
}

/// The shared form of a store.
impl From<RuntimeImages> for Arc<dyn ImageStore> {
    fn from(images: RuntimeImages) -> Self {
        Arc::new(images)
    }
}

/// An image that was asked for by this name: of several digests, the one of its repository.
fn of(image: CriImage, reference: &Reference) -> LocalImage {
    let repository = format!("{}@", reference.name());
    let own = image.digests.iter().find(|digest| digest.starts_with(&repository)).cloned();
    let image = local(image);
    LocalImage { id: own.unwrap_or_else(|| image.id.clone()), ..image }
}

fn local(image: CriImage) -> LocalImage {
    let plain = |names: &[String]| names.iter().map(|name| box_registry::plain(name).to_owned()).collect::<Vec<_>>();
    let (mut names, digests) = (plain(&image.tags), plain(&image.digests));
    let id = digests.first().unwrap_or(&image.id).clone();
    names.extend(digests);
    LocalImage {
        id,
        names,
        size: image.size,
        user: image.user,
        reference: image.id,
        is_configured_by_runtime: true,
        ..LocalImage::default()
    }
}

/// Whole names and digests of what is needed.
fn everything_needed(needed: &Needed, in_use: BTreeSet<String>) -> BTreeSet<String> {
    let named = needed.names.iter().filter_map(|name| Reference::parse(name).ok());
    named.map(|reference| reference.to_string()).chain(in_use).collect()
}

/// An image, and whether it may go.
fn candidate(image: CriImage, needed: &BTreeSet<String>) -> Image {
    let (id, is_pinned) = (image.id.clone(), image.is_pinned);
    let shown = local(image);
    let is_ours = shown.names.iter().any(|name| box_registry::is_ours(name));
    let is_needed = needed.contains(&id) || shown.names.iter().any(|name| needed.contains(name));
    // Ours comes from no registry: a pod that may not fetch it would not get it again.
    let name = shown.names.first().unwrap_or(&id).clone();
    Image { id, name, size: shown.size, is_needed, is_pinned: is_pinned || is_ours }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_shown_by_their_own_names() {
        let image = CriImage {
            id: "sha256:c".into(),
            tags: vec!["127.0.0.1:4711/setpoint.local/box:v1".into()],
            digests: vec!["127.0.0.1:4711/setpoint.local/box@sha256:m".into()],
            user: "7".into(),
            ..CriImage::default()
        };
        let shown = local(image);
        assert_eq!(shown.id, "setpoint.local/box@sha256:m");
        assert_eq!(shown.names, ["setpoint.local/box:v1", "setpoint.local/box@sha256:m"]);
        assert_eq!((shown.reference.as_str(), shown.user.as_str()), ("sha256:c", "7"));
        assert_eq!(local(CriImage { id: "sha256:c".into(), ..CriImage::default() }).id, "sha256:c");
    }

    #[test]
    fn what_a_pod_names_or_a_container_was_made_of_is_needed() {
        let image = CriImage {
            id: "sha256:c".into(),
            tags: vec!["docker.io/library/app:v1".into()],
            digests: vec!["docker.io/library/app@sha256:m".into()],
            ..CriImage::default()
        };
        let check = |names: &[&str], images: &[&str], expected: bool| {
            let set = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            let named = Needed { names: set(names), ..Needed::default() };
            let needed = everything_needed(&named, set(images));
            assert_eq!(candidate(image.clone(), &needed).is_needed, expected, "{needed:?}");
        };
        check(&["app:v1"], &[], true);
        check(&["app:v2"], &["sha256:d"], false);
        check(&[], &["sha256:c"], true);
        check(&[], &["docker.io/library/app@sha256:m"], true);
        let pinned = CriImage { is_pinned: true, ..image.clone() };
        assert!(candidate(pinned, &BTreeSet::new()).is_pinned);
        let ours = CriImage { tags: vec!["127.0.0.1:9/setpoint.local/box:v1".into()], ..image.clone() };
        assert!(candidate(ours, &BTreeSet::new()).is_pinned);
    }

    #[test]
    fn of_several_digests_the_repositorys_own() {
        let image = CriImage {
            digests: vec!["a.example/x@sha256:1".into(), "b.example/x@sha256:1".into()],
            ..CriImage::default()
        };
        let reference = Reference::parse("b.example/x:v1").expect("a name");
        assert_eq!(of(image, &reference).id, "b.example/x@sha256:1");
    }
}
