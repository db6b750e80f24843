//! The image store of this machine, as a node needs it.

use std::sync::Arc;

use agent::pod::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::ObjectExt;
use oci::{GcPolicy, Image, ImageError, Images, InUse, Keyring, PullOptions, Reference, Registries};
use serde_json::Value;

use crate::image::{BoxedImage, Collected, ImageLimits, ImageStore, LocalImage, Needed};

/// What to do about a full disk.
const FREE_SPACE: &str = "free some of it, or remove images that nothing runs with `setpoint image rm`";

/// Images on disk, and the registries they come from.
pub struct OciImages {
    images: Images,
    registries: Registries,
}

impl OciImages {
    /// Over a store and registries.
    pub fn new(images: Images, registries: Registries) -> OciImages {
        OciImages { images, registries }
    }

    /// Reads the store on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Images) -> Result<T, ImageError> + Send + 'static,
    ) -> Result<T, Failure> {
        let images = self.images.clone();
        match tokio::task::spawn_blocking(move || work(&images)).await {
            Ok(done) => done.map_err(|error| failure(&error)),
            Err(error) => Err(Failure { reason: "ImageInspectError".to_owned(), message: error.to_string() }),
        }
    }
}

impl ImageStore for OciImages {
    fn find<'a>(&'a self, name: &'a str) -> BoxedImage<'a, Option<LocalImage>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.read(move |images| images.get(&name)).await?.map(local)) })
    }

    fn pull<'a>(&'a self, name: &'a str, secrets: &'a [Value]) -> BoxedImage<'a, LocalImage> {
        Box::pin(async move {
            let reference = Reference::parse(name).map_err(|error| failure(&error))?;
            // The box is made here: there is no registry to ask for it.
            if name == oci::BOX_IMAGE {
                let found = self.find(name).await?;
                return found.ok_or_else(|| failure(&ImageError::NotFound(name.to_owned())));
            }
            let mut options = PullOptions::new(self.registries.clone());
            options.keyring = keyring(secrets);
            let image = self.images.pull(&reference, &options).await.map_err(|error| failure(&error))?;
            Ok(local(image))
        })
    }

    fn list(&self) -> BoxedImage<'_, Vec<LocalImage>> {
        Box::pin(async move { Ok(self.read(Images::list).await?.into_iter().map(local).collect()) })
    }

    fn collect(&self, needed: Needed, limits: ImageLimits) -> BoxedImage<'_, Collected> {
        Box::pin(self.read(move |images| {
            let policy = policy(limits);
            // A name that stands for nothing here needs nothing.
            let named = |name: &String| images.get(name).ok().flatten().map(|image| image.id);
            let in_use = InUse { images: needed.names.iter().filter_map(named).collect(), layers: needed.layers };
            let report = images.gc(&in_use, &policy)?;
            Ok(Collected {
                removed: report.removed,
                freed_bytes: report.freed_bytes,
                missing_bytes: report.missing_bytes,
            })
        }))
    }
}

/// The store's words for when images go.
pub(crate) fn policy(limits: ImageLimits) -> GcPolicy {
    GcPolicy {
        high_percent: limits.high_percent,
        low_percent: limits.low_percent,
        age_min: limits.age_min,
        unused_max: None,
    }
}

/// The shared form of a store.
impl From<OciImages> for Arc<dyn ImageStore> {
    fn from(images: OciImages) -> Self {
        Arc::new(images)
    }
}

fn local(image: Image) -> LocalImage {
    let user = match (image.config.user.name.as_str(), image.config.user.group.as_str()) {
        (name, "") => name.to_owned(),
        (name, group) => format!("{name}:{group}"),
    };
    let variable = |line: String| match line.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (line, String::new()),
    };
    LocalImage {
        id: image.repo_digest(),
        names: vec![image.name.clone(), image.repo_digest()],
        size: image.size,
        layers: image.layers.into_iter().rev().collect(),
        entrypoint: image.config.entrypoint,
        cmd: image.config.cmd,
        env: image.config.env.into_iter().map(variable).collect(),
        user,
        working_dir: image.config.working_dir,
        stop_signal: image.config.stop_signal,
        reference: String::new(),
        is_configured_by_runtime: false,
    }
}

/// The logins of pull secrets. A secret that cannot be read logs nobody in; the registry's refusal will say so.
pub(crate) fn keyring(secrets: &[Value]) -> Keyring {
    let mut ring = Keyring::default();
    for secret in secrets {
        for key in [".dockerconfigjson", ".dockercfg"] {
            let written = STANDARD.decode(secret.text(&["data", key])).unwrap_or_default();
            match Keyring::from_docker_config(&written) {
                Ok(own) if !written.is_empty() => ring.extend(own),
                _ => {}
            }
        }
    }
    ring
}

/// With the reason that a container's status shows.
pub(crate) fn failure(error: &ImageError) -> Failure {
    let reason = match error.kind() {
        ImageError::InvalidName { .. } => "InvalidImageName",
        ImageError::Unavailable { .. } => "RegistryUnavailable",
        _ => "ErrImagePull",
    };
    let message = match error {
        ImageError::NoSpace(_) => format!("{}; {FREE_SPACE}", error.message()),
        _ => error.message(),
    };
    Failure { reason: reason.to_owned(), message }
}
