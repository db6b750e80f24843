//! The files of an archive or directory that is being imported.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::compress::Plain;
use crate::digest::{Digest, Hasher};
use crate::error::{Exceeded, ImageError, Malformed};
use crate::limits::Limits;
use crate::store::Layout;
use crate::tape::{Kind, Tape};

/// Files of one archive: several images of `LAYERS_MAX` layers, and a directory entry for each in old formats.
const FILES_MAX: usize = 16_384;
/// Links to links; old archives name a shared layer once and link to it.
const LINKS_MAX: usize = 4;
/// Manifests of archives list all of its images.
pub(super) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
const COPY_BYTES: usize = 128 * 1024;

/// Where the files are.
pub(super) enum Origin {
    /// A directory of somebody else's: its files are copied.
    Directory(PathBuf),
    /// An archive, extracted into a directory of `tmp` under plain numbers; removed with this.
    Extracted { directory: PathBuf, files: BTreeMap<String, Extracted>, links: BTreeMap<String, String> },
}

/// One extracted file.
pub(super) struct Extracted {
    path: PathBuf,
    digest: Digest,
    bytes: u64,
}

impl Origin {
    /// Opens a directory, or extracts an archive.
    pub fn open(path: &Path, layout: &Layout, limits: &Limits) -> Result<Origin, ImageError> {
        let what = path.display().to_string();
        let open = |error| ImageError::disk(format!("open {what}"), error);
        if std::fs::metadata(path).map_err(open)?.is_dir() {
            return Ok(Origin::Directory(path.to_path_buf()));
        }
        let file = File::open(path).map_err(open)?;
        let directory = layout.tmp();
        std::fs::create_dir(&directory).map_err(|e| ImageError::disk(format!("make {}", directory.display()), e))?;
        // Made first, so that it is removed whatever happens.
        let mut origin = Origin::Extracted { directory, files: BTreeMap::new(), links: BTreeMap::new() };
        origin.extract(file, limits).map_err(|error| ImageError::stream(&what, error))?;
        Ok(origin)
    }

    fn extract(&mut self, packed: impl Read, limits: &Limits) -> io::Result<()> {
        let Origin::Extracted { directory, files, links } = self else { return Ok(()) };
        let mut tape = Tape::new(Plain::new(packed, limits, limits.unpacked_bytes_max)?);
        while let Some(entry) = tape.next_entry()? {
            if files.len() + links.len() >= FILES_MAX {
                return Err(Exceeded::io(format!("more than {FILES_MAX} files")));
            }
            let Some(name) = clean(&String::from_utf8_lossy(&entry.path)) else { continue };
            let link = String::from_utf8_lossy(&entry.link).into_owned();
            match entry.kind {
                Kind::File => {
                    let path = directory.join(files.len().to_string());
                    let file = extract_file(path, &mut tape)?;
                    files.insert(name, file);
                }
                // Relative to the directory of the link, and to the root of the archive.
                Kind::Symlink => drop(clean(&format!("{}/../{link}", name)).map(|target| links.insert(name, target))),
                Kind::Hardlink => drop(clean(&link).map(|target| links.insert(name, target))),
                _ => {}
            }
        }
        tape.into_inner().finish().map(drop)
    }

    /// Whether there is a file of that name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Origin::Directory(root) => clean(name).is_some_and(|name| root.join(name).is_file()),
            Origin::Extracted { .. } => self.extracted(name).is_some(),
        }
    }

    fn extracted(&self, name: &str) -> Option<&Extracted> {
        let Origin::Extracted { files, links, .. } = self else { return None };
        let mut name = clean(name)?;
        for _ in 0..=LINKS_MAX {
            if let Some(file) = files.get(&name) {
                return Some(file);
            }
            name = links.get(&name)?.clone();
        }
        None
    }

    fn path(&self, name: &str) -> Result<PathBuf, ImageError> {
        let missing = || ImageError::Damaged(format!("the archive has no {name:?}"));
        match self {
            Origin::Directory(root) => Ok(root.join(clean(name).ok_or_else(missing)?)),
            Origin::Extracted { .. } => Ok(self.extracted(name).ok_or_else(missing)?.path.clone()),
        }
    }

    /// Reads a small file whole.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, ImageError> {
        let failed = |error| ImageError::disk(format!("read {name:?} of the archive"), error);
        let file = File::open(self.path(name)?).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > bytes_max {
            return Err(ImageError::TooLarge(format!("{name:?} of the archive has more than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// The digest and length of a file.
    pub fn digest(&self, name: &str) -> Result<(Digest, u64), ImageError> {
        if let Some(file) = self.extracted(name) {
            return Ok((file.digest.clone(), file.bytes));
        }
        let path = self.path(name)?;
        let hashed = File::open(&path).and_then(|mut file| hash_into(&mut file, &mut io::sink(), Hasher::sha256()));
        hashed.map_err(|e| ImageError::disk(format!("read {}", path.display()), e))
    }

    /// Makes the file the blob `digest` of the store, if that is what it is. Its length.
    pub fn adopt(&self, name: &str, digest: &Digest, layout: &Layout) -> Result<u64, ImageError> {
        let blob = layout.blob(digest);
        if let Ok(found) = std::fs::metadata(&blob) {
            return Ok(found.len());
        }
        let path = self.path(name)?;
        let tmp = layout.tmp();
        layout.step("copy")?;
        let copied = copy_blob(&path, &tmp, digest).map_err(|e| ImageError::disk(format!("copy {name:?}"), e));
        let published = copied.and_then(|(found, bytes)| {
            digest.compare(&format!("{name:?} of the archive"), &found)?;
            layout.publish(&tmp, &blob)?;
            Ok(bytes)
        });
        if published.is_err() {
            layout.discard(&tmp);
        }
        published
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Origin::Extracted { directory, .. } = self
            && let Err(error) = std::fs::remove_dir_all(&*directory)
        {
            tracing::warn!(path = %directory.display(), %error, "cannot delete an extracted archive");
        }
    }
}

fn extract_file(path: PathBuf, data: &mut impl Read) -> io::Result<Extracted> {
    let mut file = File::create_new(&path)?;
    let (digest, bytes) = hash_into(data, &mut file, Hasher::sha256())?;
    Ok(Extracted { path, digest, bytes })
}

/// Copies into a synced file, which shares its bytes with the first where the file system can.
fn copy_blob(path: &Path, tmp: &Path, digest: &Digest) -> io::Result<(Digest, u64)> {
    let mut copy = File::create_new(tmp)?;
    let hashed = hash_into(&mut File::open(path)?, &mut copy, digest.hasher())?;
    copy.sync_all()?;
    Ok(hashed)
}

fn hash_into(from: &mut impl Read, to: &mut impl io::Write, mut hasher: Hasher) -> io::Result<(Digest, u64)> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut bytes = 0;
    loop {
        let count = from.read(&mut buffer)?;
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.is_empty() {
            return Ok((hasher.finish(), bytes));
        }
        hasher.update(piece);
        to.write_all(piece)?;
        bytes += count as u64;
    }
}

/// A path below the archive's root without `.` and `..`; none for the root and for what leads out of it.
fn clean(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// A document that could not be read.
pub(super) fn unreadable(name: &str, error: &serde_json::Error) -> ImageError {
    ImageError::stream(&format!("{name:?} of the archive"), Malformed::io(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_within_the_archive() {
        let check = |path: &str, expected: Option<&str>| assert_eq!(clean(path).as_deref(), expected, "{path}");
        check("a/./b", Some("a/b"));
        check("a/layer.tar/../../b/layer.tar", Some("b/layer.tar"));
        check("../etc/passwd", None);
        check("a/../../x", None);
        check("/index.json", Some("index.json"));
        check("./", None);
    }
}
