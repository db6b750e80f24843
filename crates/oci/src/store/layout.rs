//! Where things are under the store's root, and the only steps by which they change.
//!
//! ```text
//! format                      the version of this layout
//! blobs/<algorithm>/<hex>     content as downloaded, complete and verified
//! layers/<hex>/fs             a layer unpacked, by the chain of layers that it ends
//! layers/<hex>/facts.json     what is worth knowing of it
//! images/<hex>.json           an image's record, by the digest of its name
//! imports/<hex>.json          an archive that was imported, by its digest
//! partial/<hex>               a blob on its way
//! tmp/                        everything not yet or no longer visible
//! ```
//!
//! What has its name is complete: a thing is made in `tmp` or `partial`, synced, and renamed. A file is synced by
//! `fsync`, a layer by one `syncfs` (fsync of each of its files would take longer than unpacking), a name by `fsync`
//! of its directory. A crash leaves things in `tmp` and `partial`; the next start removes the first, and the next
//! pull goes on with the second.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Digest;
use crate::error::ImageError;

const FORMAT: &str = "1\n";

/// The root and its steps.
pub(crate) struct Layout {
    root: PathBuf,
    /// Names in `tmp`; unique in this process, whose number is in the name too.
    serial: AtomicU64,
    /// Tests let the process die after so many steps.
    pub(crate) steps_left: AtomicU64,
}

impl Layout {
    /// Makes or opens the directories.
    pub fn open(root: &Path) -> Result<Layout, ImageError> {
        let root = std::path::absolute(root).map_err(|e| ImageError::disk("find the image store", e))?;
        let layout = Layout { root, serial: AtomicU64::new(0), steps_left: AtomicU64::new(u64::MAX) };
        for name in ["", "blobs/sha256", "blobs/sha512", "layers", "images", "imports", "partial", "tmp"] {
            let path = layout.root.join(name);
            std::fs::create_dir_all(&path).map_err(|e| ImageError::disk(format!("make {}", path.display()), e))?;
        }
        layout.check_format()?;
        Ok(layout)
    }

    fn check_format(&self) -> Result<(), ImageError> {
        let path = self.root.join("format");
        match std::fs::read_to_string(&path) {
            Ok(text) if text == FORMAT => Ok(()),
            Ok(text) => Err(ImageError::Damaged(format!("{}: unknown version {:?}", path.display(), text.trim()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_file(&path, FORMAT.as_bytes()),
            Err(error) => Err(ImageError::disk(format!("read {}", path.display()), error)),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    pub fn layer(&self, chain: &Digest) -> PathBuf {
        self.root.join("layers").join(chain.hex())
    }

    /// The directory that overlayfs gets.
    pub fn layer_fs(&self, chain: &Digest) -> PathBuf {
        self.layer(chain).join("fs")
    }

    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    pub fn image(&self, name: &str) -> PathBuf {
        self.images().join(format!("{}.json", Digest::of(name.as_bytes()).hex()))
    }

    pub fn import(&self, archive: &Digest) -> PathBuf {
        self.root.join("imports").join(format!("{}.json", archive.hex()))
    }

    pub fn partial(&self, digest: &Digest) -> PathBuf {
        self.root.join("partial").join(digest.hex())
    }

    /// A new path in `tmp`.
    pub fn tmp(&self) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        self.root.join("tmp").join(format!("{}-{serial}", std::process::id()))
    }

    /// One step: in tests, the last one may have been taken.
    pub fn step(&self, what: &str) -> Result<(), ImageError> {
        let taken = self.steps_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| match left {
            u64::MAX => Some(u64::MAX),
            left => left.checked_sub(1),
        });
        taken.map(drop).map_err(|_| ImageError::disk(what, io::Error::other("no further step")))
    }

    /// Writes a small file whole, or not at all.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
        let tmp = self.tmp();
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&tmp)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        self.step("write")?;
        write().map_err(|e| ImageError::disk(format!("write {}", tmp.display()), e))?;
        self.publish(&tmp, path)
    }

    /// Gives a synced file or directory its name. What has the name already stays, if it is a directory.
    pub fn publish(&self, tmp: &Path, path: &Path) -> Result<(), ImageError> {
        self.step("rename")?;
        match std::fs::rename(tmp, path) {
            // Another process was faster with the same layer.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => self.discard(tmp),
            Err(error) => return Err(ImageError::disk(format!("rename to {}", path.display()), error)),
            Ok(()) => {}
        }
        self.step("sync")?;
        self.sync_parent(path)
    }

    fn sync_parent(&self, path: &Path) -> Result<(), ImageError> {
        let parent = path.parent().unwrap_or(&self.root);
        let synced = File::open(parent).and_then(|directory| directory.sync_all());
        synced.map_err(|e| ImageError::disk(format!("sync {}", parent.display()), e))
    }

    /// Writes all of the file system to the disk.
    pub fn sync_all(&self) -> Result<(), ImageError> {
        self.step("sync")?;
        let synced = File::open(&self.root).and_then(|root| Ok(rustix::fs::syncfs(&root)?));
        synced.map_err(|e| ImageError::disk(format!("sync {}", self.root.display()), e))
    }

    /// Removes a file or tree that may be visible: it loses its name first, so that it is never seen in part. The
    /// bytes it had.
    pub fn remove(&self, path: &Path) -> Result<u64, ImageError> {
        let tmp = self.tmp();
        self.step("remove")?;
        match std::fs::rename(path, &tmp) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(ImageError::disk(format!("remove {}", path.display()), error)),
            Ok(()) => {}
        }
        self.step("sync")?;
        self.sync_parent(path)?;
        let bytes = disk_bytes(&tmp);
        self.step("delete")?;
        self.discard(&tmp);
        Ok(bytes)
    }

    /// Deletes what is not visible; what cannot be deleted now is at the next start.
    pub fn discard(&self, tmp: &Path) {
        let is_tree = std::fs::symlink_metadata(tmp).is_ok_and(|found| found.is_dir());
        let gone = if is_tree { std::fs::remove_dir_all(tmp) } else { std::fs::remove_file(tmp) };
        if let Err(error) = gone
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %tmp.display(), %error, "cannot delete what is no longer used");
        }
    }

    /// Deletes what a crash left in `tmp`. Only while nobody else uses the store.
    pub fn clean_tmp(&self) {
        for path in entries(&self.root.join("tmp")) {
            self.discard(&path);
        }
    }
}

/// The paths in a directory; none if it cannot be read.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// What a file or tree takes on the disk. Without recursion: trees may be deep.
pub(crate) fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut total = 0;
    let mut pending = vec![path.to_path_buf()];
    while let Some(path) = pending.pop() {
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        // A file of several names counts once, nearly: by its share for each.
        total += found.blocks() * 512 / found.nlink().max(1).min(if found.is_dir() { 1 } else { u64::MAX });
        if found.is_dir() {
            pending.extend(entries(&path));
        }
    }
    total
}
