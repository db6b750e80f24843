//! From a name to an image in the store.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::blob::{blocking, download};
use super::hosts::Endpoint;
use super::keyring::Login;
use super::session::Session;
use super::{ProgressFn, PullOptions};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{Descriptor, Document, MANIFEST_BYTES_MAX, Manifest, media};
use crate::reference::Reference;
use crate::store::{Image, Images, Inner, Work};

/// Lists within lists; builders make one level.
const INDEX_DEPTH_MAX: usize = 4;

/// What a name leads to.
struct Resolved {
    /// Of the list or manifest that the name means.
    digest: Digest,
    manifest_digest: Digest,
    manifest: Manifest,
}

impl Images {
    /// Pulls an image, whether the store has it or not: a tag may mean another image today. Blobs and layers that are
    /// there are not fetched again. Mirrors are asked first, every endpoint with each login that fits.
    ///
    /// May be dropped at any time; the next pull goes on from what was downloaded.
    pub async fn pull(&self, reference: &Reference, options: &PullOptions) -> Result<Image, ImageError> {
        let inner = Arc::clone(&self.inner);
        let work = Arc::new(blocking(move || Work::begin(&inner)).await?);
        let mut failures = Vec::new();
        for endpoint in options.registries.0.hosts().endpoints(reference.registry())? {
            let mut failure: Option<ImageError> = None;
            for login in logins(&endpoint, reference, options) {
                match self.pull_from(&endpoint, login, reference, options, &work).await {
                    Ok(image) => return Ok(image),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => failure = Some(worse(failure, error)),
                }
            }
            failures.extend(failure.map(|failure| (endpoint.base.to_string(), failure)));
        }
        Err(ImageError::of_endpoints(&reference.to_string(), failures))
    }

    async fn pull_from(
        &self,
        endpoint: &Endpoint,
        login: Option<Login>,
        reference: &Reference,
        options: &PullOptions,
        work: &Arc<Work>,
    ) -> Result<Image, ImageError> {
        let (connector, limits) = (Arc::clone(&options.registries.0), &self.inner.options.limits);
        let session = Arc::new(Session::new(connector, endpoint.clone(), reference, login, limits));
        let resolved = resolve(&session, &self.inner, reference, work).await?;
        fetch_blobs(&session, &self.inner, &resolved.manifest, work, &options.progress).await?;
        let (inner, work, name, pinned) =
            (Arc::clone(&self.inner), Arc::clone(work), reference.to_string(), options.pinned);
        blocking(move || {
            let bytes = inner.read_config(&name, &resolved.manifest.config)?;
            let config = ImageConfig::parse(&name, &bytes)?;
            let manifest = (&resolved.manifest_digest, &resolved.manifest);
            let record = inner.assemble(&work, &name, &resolved.digest, manifest, config, pinned)?;
            Ok(inner.image(record))
        })
        .await
    }
}

/// Whom to be: everybody that the pod's keyring and then the machine's know for the place, or else nobody.
fn logins(endpoint: &Endpoint, reference: &Reference, options: &PullOptions) -> Vec<Option<Login>> {
    let rings = [&options.keyring, &options.registries.0.hosts().logins];
    let found = rings.iter().flat_map(|ring| ring.matching(&endpoint.credentials, reference.repository()));
    let found: Vec<&Login> = found.collect();
    if found.is_empty() { vec![None] } else { found.into_iter().cloned().map(Some).collect() }
}

/// Errors that no other registry or login can help.
fn is_final(error: &ImageError) -> bool {
    use ImageError::{Busy, Disk, InvalidName, NoSpace, Platform, TooLarge};
    matches!(error, NoSpace(_) | Disk { .. } | InvalidName { .. } | Platform { .. } | TooLarge(_) | Busy(_))
}

/// Of two failures the one to tell: the later, unless it only says that nothing was found by somebody who was let
/// in less far.
fn worse(earlier: Option<ImageError>, later: ImageError) -> ImageError {
    match (earlier, &later) {
        (Some(earlier @ ImageError::Damaged(_)), ImageError::NotFound(_) | ImageError::Unauthorized(_)) => earlier,
        _ => later,
    }
}

/// Follows the name to the manifest for this machine, whose documents become blobs of the store.
async fn resolve(
    session: &Session,
    inner: &Arc<Inner>,
    reference: &Reference,
    work: &Arc<Work>,
) -> Result<Resolved, ImageError> {
    let name = reference.to_string();
    let mut wanted = reference.digest().cloned();
    let mut selector = reference.selector().to_owned();
    let mut top: Option<Digest> = None;
    for _ in 0..INDEX_DEPTH_MAX {
        let (digest, document) = fetch_document(session, inner, work, &selector, wanted.as_ref()).await?;
        let top = top.get_or_insert_with(|| digest.clone()).clone();
        match document {
            Document::Manifest(manifest) => return Ok(Resolved { digest: top, manifest_digest: digest, manifest }),
            Document::Index(index) => {
                let entry = index.choose(&name, &inner.options.platform)?;
                selector = entry.digest.to_string();
                wanted = Some(entry.digest.clone());
            }
        }
    }
    Err(ImageError::TooLarge(format!("{name}: lists more than {INDEX_DEPTH_MAX} deep")))
}

async fn fetch_document(
    session: &Session,
    inner: &Arc<Inner>,
    work: &Arc<Work>,
    selector: &str,
    wanted: Option<&Digest>,
) -> Result<(Digest, Document), ImageError> {
    let what = format!("{}: manifest {selector}", session.shown());
    let answer = session.manifest(selector, &media::ACCEPTED).await?;
    let declared = answer.header(http::header::CONTENT_TYPE).unwrap_or_default();
    let declared = declared.split(';').next().unwrap_or_default().trim().to_owned();
    let bytes = answer.bytes(&what, MANIFEST_BYTES_MAX).await?;
    let digest = wanted.cloned().unwrap_or_else(|| Digest::of(&bytes));
    digest.verify(&what, &bytes)?;
    let document = Document::parse(&what, &declared, &bytes)?;
    work.pin(&digest);
    let (inner, blob) = (Arc::clone(inner), digest.clone());
    blocking(move || inner.layout.write_file(&inner.layout.blob(&blob), &bytes)).await?;
    Ok((digest, document))
}

/// Downloads the config and the layers, some at a time.
async fn fetch_blobs(
    session: &Arc<Session>,
    inner: &Arc<Inner>,
    manifest: &Manifest,
    work: &Arc<Work>,
    progress: &ProgressFn,
) -> Result<(), ImageError> {
    let limits = &inner.options.limits;
    let places = Arc::new(Semaphore::new(limits.parallel_downloads_max.max(1)));
    let mut tasks = JoinSet::new();
    let config = (&manifest.config, limits.config_bytes_max);
    let layers = manifest.layers.iter().map(|layer| (layer, limits.blob_bytes_max));
    for (blob, bytes_max) in [config].into_iter().chain(layers) {
        work.pin(&blob.digest);
        let task = (Arc::clone(session), Arc::clone(inner), Arc::clone(&places), Arc::clone(progress), blob.clone());
        tasks.spawn(async move {
            let (session, inner, places, progress, blob): (_, _, _, _, Descriptor) = task;
            let _place = places.acquire().await;
            download(&session, &inner, &blob, bytes_max, &progress).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        // The first failure drops the set, and with it all other downloads.
        done.map_err(|error| ImageError::unavailable("a download ended", error))??;
    }
    Ok(())
}
