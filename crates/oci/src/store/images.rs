//! Images by name: what there is, what is added, what is taken away.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use clock::{Clock, SystemClock};
use stdx::Time;

use super::layout::{Layout, disk_bytes, entries};
use super::lock::Locks;
use super::record::Record;
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::limits::Limits;
use crate::platform::Platform;
use crate::reference::Reference;

/// An image that is complete on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Its whole name.
    pub name: String,
    /// The digest of its config.
    pub id: Digest,
    /// What the name resolved to: of a list of manifests, or of the manifest.
    pub digest: Digest,
    /// How to run it.
    pub config: ImageConfig,
    /// The directories of its layers, lowest first, as overlayfs takes them (but in the opposite order).
    pub layers: Vec<PathBuf>,
    /// Bytes of its layers as downloaded: what `status.images[].sizeBytes` shows.
    pub size: u64,
    /// When it was pulled or imported.
    pub pulled: Time,
    /// Whether it is kept from collection as garbage.
    pub pinned: bool,
}

impl Image {
    /// `repository@digest`: what a container's status shows as its image's ID.
    pub fn repo_digest(&self) -> String {
        match Reference::parse(&self.name) {
            Ok(reference) => format!("{}@{}", reference.name(), self.digest),
            Err(_) => self.id.to_string(),
        }
    }
}

/// What a store takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Of blobs as downloaded, whole or in part.
    pub blob_bytes: u64,
    /// Of unpacked layers.
    pub layer_bytes: u64,
    /// Of the file system that holds the store.
    pub capacity_bytes: u64,
    /// Free on it for everybody.
    pub available_bytes: u64,
}

/// How a store works.
pub struct StoreOptions {
    /// What images may be.
    pub limits: Limits,
    /// What images are for.
    pub platform: Platform,
    /// Tells when images were pulled.
    pub clock: Arc<dyn Clock>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let clock = Arc::new(SystemClock::new());
        StoreOptions { limits: Limits::default(), platform: Platform::host(), clock }
    }
}

/// The images of a machine. Cheap to clone; every clone is the same store. Other processes may use the same
/// directory at the same time.
#[derive(Clone)]
pub struct Images {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub layout: Layout,
    pub options: StoreOptions,
    pub locks: Locks,
    /// What works going on here need though no record says so, and how many need it.
    pub(super) pins: Mutex<BTreeMap<Digest, usize>>,
    /// When an image was last seen in use, by ID. Forgotten at the end of the process, as kubelet does.
    pub(super) used: Mutex<BTreeMap<Digest, Time>>,
    flights: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

/// A thread that panicked with a lock held left a map that is whole.
pub(super) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Images {
    /// Opens the store under `root`, made where missing, with what an earlier crash left removed.
    pub fn open(root: &Path, options: StoreOptions) -> Result<Images, ImageError> {
        let layout = Layout::open(root)?;
        let locks = Locks::open(layout.root())?;
        match locks.exclusively(|| layout.clean_tmp()) {
            Ok(()) | Err(ImageError::Busy(_)) => {}
            Err(error) => return Err(error),
        }
        let (pins, used, flights) = Default::default();
        Ok(Images { inner: Arc::new(Inner { layout, options, locks, pins, used, flights }) })
    }

    /// The image of a name as people write it, of `repository@digest`, or of an ID (`sha256:...`).
    pub fn get(&self, name: &str) -> Result<Option<Image>, ImageError> {
        Ok(self.inner.find(name)?.map(|record| self.inner.image(record)))
    }

    /// Opens a blob as it was downloaded or made; `None` if it is not there.
    pub fn open_blob(&self, digest: &Digest) -> std::io::Result<Option<std::fs::File>> {
        match std::fs::File::open(self.inner.layout.blob(digest)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// All images, by name.
    pub fn list(&self) -> Result<Vec<Image>, ImageError> {
        let records = Record::all(&self.inner.layout)?;
        Ok(records.into_iter().filter(|record| self.inner.is_whole(record)).map(|r| self.inner.image(r)).collect())
    }

    /// Forgets a name, or all names of an ID; false if there is none. What no other name needs is deleted by the next
    /// `gc`, or at once by [`Images::sweep`].
    pub fn remove(&self, name: &str) -> Result<bool, ImageError> {
        let layout = &self.inner.layout;
        let names: Vec<String> = match Digest::parse(name) {
            Some(id) => Record::all(layout)?.into_iter().filter(|r| r.config_digest == id).map(|r| r.name).collect(),
            None => self.inner.find(name)?.into_iter().map(|record| record.name).collect(),
        };
        for name in &names {
            layout.remove(&layout.image(name))?;
        }
        Ok(!names.is_empty())
    }

    /// Gives an image one more name.
    pub fn tag(&self, name: &str, new: &Reference) -> Result<(), ImageError> {
        let _work = Work::begin(&self.inner)?;
        let record = self.inner.find(name)?.ok_or_else(|| ImageError::NotFound(name.to_owned()))?;
        Record { name: new.to_string(), ..record }.write(&self.inner.layout)
    }

    /// What the store takes, and how full its file system is. Walks through all of it.
    pub fn disk_usage(&self) -> Result<DiskUsage, ImageError> {
        let of = |name: &str| disk_bytes(&self.inner.layout.root().join(name));
        let blob_bytes = of("blobs").saturating_add(of("partial"));
        Ok(DiskUsage { blob_bytes, layer_bytes: of("layers"), ..self.file_system()? })
    }

    /// How full the file system of the store is.
    pub(super) fn file_system(&self) -> Result<DiskUsage, ImageError> {
        let root = self.inner.layout.root();
        let found = rustix::fs::statvfs(root)
            .map_err(|errno| ImageError::disk(format!("ask for the space of {}", root.display()), errno.into()))?;
        Ok(DiskUsage {
            capacity_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            available_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            ..DiskUsage::default()
        })
    }
}

impl Inner {
    /// The record of a name or ID, if all of the image is there.
    pub fn find(&self, name: &str) -> Result<Option<Record>, ImageError> {
        let whole = |record: &Record| self.is_whole(record);
        if let Some(id) = Digest::parse(name) {
            return Ok(Record::all(&self.layout)?.into_iter().find(|r| r.config_digest == id && whole(r)));
        }
        let reference = Reference::parse(name)?;
        if let Some(record) = Record::read(&self.layout.image(&reference.to_string()))? {
            return Ok(Some(record).filter(whole));
        }
        let Some(digest) = reference.digest() else { return Ok(None) };
        // Pulled by tag, asked for by digest: the same content.
        let same = |record: &Record| {
            let repository = Reference::parse(&record.name).map(|other| other.name());
            repository.is_ok_and(|other| other == reference.name())
                && [&record.digest, &record.manifest].contains(&digest)
        };
        Ok(Record::all(&self.layout)?.into_iter().find(|record| same(record) && whole(record)))
    }

    /// Whether the layers of an image are there: somebody may have deleted directories by hand.
    pub fn is_whole(&self, record: &Record) -> bool {
        record.layers.iter().all(|layer| self.layout.layer_fs(&layer.chain).is_dir())
    }

    pub fn image(&self, record: Record) -> Image {
        Image {
            size: record.size(),
            layers: record.layers.iter().map(|layer| self.layout.layer_fs(&layer.chain)).collect(),
            name: record.name,
            id: record.config_digest,
            digest: record.digest,
            config: record.config,
            pulled: Time::from_micros(record.pulled_micros),
            pinned: record.pinned,
        }
    }

    /// The lock under which one task at a time makes the content of `digest`; others find it made.
    pub fn flight(&self, digest: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut flights = guard(&self.flights);
        flights.retain(|_, flight| flight.strong_count() > 0);
        if let Some(flight) = flights.get(digest).and_then(Weak::upgrade) {
            return flight;
        }
        let flight = Arc::new(tokio::sync::Mutex::new(()));
        flights.insert(digest.clone(), Arc::downgrade(&flight));
        flight
    }
}

/// A work that adds to the store. While it lasts, nothing that it pinned is collected.
pub(crate) struct Work {
    inner: Arc<Inner>,
    pinned: Mutex<Vec<Digest>>,
}

impl Work {
    /// Begins. May wait for another process that removes; call it where one may block.
    pub fn begin(inner: &Arc<Inner>) -> Result<Work, ImageError> {
        inner.locks.begin()?;
        Ok(Work { inner: Arc::clone(inner), pinned: Mutex::new(Vec::new()) })
    }

    /// Keeps the blob or layer of `digest`, whether it is there already or not yet.
    pub fn pin(&self, digest: &Digest) {
        *guard(&self.inner.pins).entry(digest.clone()).or_default() += 1;
        guard(&self.pinned).push(digest.clone());
    }

    /// Makes a small document a blob.
    pub fn keep(&self, bytes: &[u8]) -> Result<Digest, ImageError> {
        let digest = Digest::of(bytes);
        self.pin(&digest);
        let layout = &self.inner.layout;
        layout.write_file(&layout.blob(&digest), bytes)?;
        Ok(digest)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut pins = guard(&self.inner.pins);
        for digest in guard(&self.pinned).drain(..) {
            match pins.get_mut(&digest) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(pins.remove(&digest)),
            }
        }
        drop(pins);
        self.inner.locks.end();
    }
}

/// The digests that the names in a directory stand for.
pub(super) fn named(directory: &Path, algorithm: &str) -> Vec<(Digest, PathBuf)> {
    let digest = |path: &PathBuf| Digest::parse(&format!("{algorithm}:{}", path.file_name()?.to_str()?));
    entries(directory).into_iter().filter_map(|path| Some((digest(&path)?, path))).collect()
}
