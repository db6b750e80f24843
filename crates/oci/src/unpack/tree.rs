//! The directory that a layer is unpacked into.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as sys, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::path::{DEPTH_MAX, LayerPath};
use crate::error::{Exceeded, Malformed};
use crate::tape::{Entry, Kind};

/// Whoever makes directories that no entry describes: root, and 0755.
const IMPLIED_MODE: u32 = 0o755;
const OPAQUE: &str = "trusted.overlay.opaque";
/// File data passes through this much memory.
const COPY_BYTES: usize = 128 * 1024;

/// A directory being filled. Nothing else writes to it meanwhile.
pub(super) struct Tree {
    root: OwnedFd,
    /// Where the root is, to measure depths from.
    root_path: PathBuf,
    /// The layers below, lowest first; without any there is nothing to hide.
    lower: Vec<PathBuf>,
    /// The directory last worked in: entries come in the order of a walk.
    recent: Option<(LayerPath, OwnedFd)>,
    /// Times of directories, set last since filling a directory changes them.
    times: BTreeMap<LayerPath, (i64, u32)>,
    buffer: Vec<u8>,
}

impl Tree {
    /// Works in the empty directory `target`, above `lower`.
    pub fn open(target: &Path, lower: &[PathBuf]) -> io::Result<Tree> {
        let root = File::open(target)?;
        sys::fchmod(&root, Mode::from_raw_mode(IMPLIED_MODE))?;
        let (root, lower) = (OwnedFd::from(root), lower.to_vec());
        let root_path = location(root.as_fd())?;
        let tree = Tree { root, root_path, lower, recent: None, times: BTreeMap::new(), buffer: vec![0; COPY_BYTES] };
        let own = tree.root.try_clone()?;
        tree.look_as_below(Path::new(""), own.as_fd())?;
        Ok(tree)
    }

    /// Makes or changes a directory.
    pub fn directory(&mut self, path: &LayerPath, entry: &Entry) -> io::Result<()> {
        let directory = match path.split() {
            None => self.root.try_clone()?,
            Some((parent, name)) => {
                let parent = self.enter(&parent)?;
                match self.present(parent.as_fd(), name)? {
                    Some(FileType::Directory) => {}
                    Some(_) => {
                        let hid = is_whiteout(parent.as_fd(), name)?;
                        self.remove(parent.as_fd(), name)?;
                        sys::mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
                        if hid {
                            set_opaque(open_within(parent.as_fd(), name)?.as_fd())?;
                        }
                    }
                    None => sys::mkdirat(&parent, name, Mode::from_raw_mode(0o700))?,
                }
                open_within(parent.as_fd(), name)?
            }
        };
        dress(directory.as_fd(), entry)?;
        self.times.insert(path.clone(), entry.mtime);
        Ok(())
    }

    /// Makes a file from the entry's data.
    pub fn file(&mut self, path: &LayerPath, entry: &Entry, data: &mut impl Read) -> io::Result<()> {
        let (parent, name) = self.vacate(path)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(sys::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
        copy(data, &mut file, &mut self.buffer)?;
        dress(file.as_fd(), entry)?;
        Ok(sys::futimens(&file, &times(entry.mtime))?)
    }

    /// Makes a symbolic link; where it points to is its own affair.
    pub fn symlink(&mut self, path: &LayerPath, entry: &Entry) -> io::Result<()> {
        let (parent, name) = self.vacate(path)?;
        if entry.link.is_empty() || entry.link.contains(&0) {
            return Err(Malformed::io("a symbolic link to nothing"));
        }
        sys::symlinkat(OsStr::from_bytes(&entry.link), &parent, name)?;
        own(parent.as_fd(), name, entry)
    }

    /// Makes a further name of a file of this layer.
    pub fn hardlink(&mut self, path: &LayerPath, target: &LayerPath) -> io::Result<()> {
        if path == target {
            return Err(Malformed::io("a hard link to itself"));
        }
        let Some((directory, old_name)) = target.split() else {
            return Err(Malformed::io("a hard link to the root"));
        };
        let absent = || Malformed::io(format!("a hard link to {:?}, which the layer does not have", target.as_path()));
        let old_parent = self.resolve(&directory).map_err(|_| absent())?;
        match self.present(old_parent.as_fd(), old_name)? {
            None => return Err(absent()),
            Some(FileType::Directory) => return Err(Malformed::io("a hard link to a directory")),
            Some(_) => {}
        }
        let (parent, name) = self.vacate(path)?;
        sys::linkat(&old_parent, old_name, &parent, name, AtFlags::empty()).map_err(|errno| match errno {
            // Both paths led to the same place, which was vacated.
            Errno::NOENT => absent(),
            other => other.into(),
        })
    }

    /// Makes a device or a pipe.
    pub fn special(&mut self, path: &LayerPath, entry: &Entry) -> io::Result<()> {
        let (parent, name) = self.vacate(path)?;
        let kind = match entry.kind {
            Kind::Char => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            _ => FileType::Fifo,
        };
        let device = sys::makedev(entry.device.0, entry.device.1);
        sys::mknodat(&parent, name, kind, Mode::from_raw_mode(0o600), device)?;
        own(parent.as_fd(), name, entry)?;
        Ok(sys::chmodat(&parent, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?)
    }

    /// Hides what layers below have at `path`. What this layer has there itself is in front of that anyway.
    pub fn whiteout(&mut self, path: &LayerPath) -> io::Result<()> {
        let Some((directory, name)) = path.split() else { return Ok(()) };
        if self.lower.is_empty() {
            return Ok(());
        }
        let parent = self.enter(&directory)?;
        match self.present(parent.as_fd(), name)? {
            Some(FileType::Directory) => set_opaque(open_within(parent.as_fd(), name)?.as_fd()),
            Some(_) => Ok(()),
            None => {
                let device = sys::makedev(0, 0);
                Ok(sys::mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), device)?)
            }
        }
    }

    /// Hides all that layers below have in `directory`.
    pub fn make_opaque(&mut self, directory: &LayerPath) -> io::Result<()> {
        if self.lower.is_empty() {
            return Ok(());
        }
        set_opaque(self.enter(directory)?.as_fd())
    }

    /// Sets the times of directories.
    pub fn finish(&mut self) -> io::Result<()> {
        for (path, time) in std::mem::take(&mut self.times) {
            // What is not there any more was replaced by a later entry.
            if let Ok(directory) = self.resolve(&path) {
                sys::futimens(&directory, &times(time))?;
            }
        }
        Ok(())
    }

    /// The directory of `path` and its name there, where nothing is any more.
    fn vacate<'p>(&mut self, path: &'p LayerPath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let Some((directory, name)) = path.split() else {
            return Err(Malformed::io("the root is no directory"));
        };
        let parent = self.enter(&directory)?;
        if self.present(parent.as_fd(), name)?.is_some() {
            self.remove(parent.as_fd(), name)?;
        }
        Ok((parent, name))
    }

    fn present(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileType>> {
        match sys::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn remove(&mut self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        // The directory last worked in may lie within, or the way to it lead through.
        self.recent = None;
        match sys::unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => std::fs::remove_dir_all(location(parent)?.join(name)),
            other => Ok(other?),
        }
    }

    /// Opens the directory at `path`, made with all above it where missing.
    fn enter(&mut self, path: &LayerPath) -> io::Result<OwnedFd> {
        if let Some((recent, directory)) = &self.recent
            && recent == path
        {
            return directory.try_clone();
        }
        let directory = match self.resolve(path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => self.make_implied(path)?,
            Err(errno) => return Err(unusable(errno)),
        };
        let location = location(directory.as_fd())?;
        let depth =
            location.strip_prefix(&self.root_path).map_err(|_| Malformed::io("its path leads out of the layer"))?;
        if depth.components().count() > DEPTH_MAX {
            return Err(Exceeded::io(format!("directories more than {DEPTH_MAX} deep")));
        }
        self.recent = Some((path.clone(), directory.try_clone()?));
        Ok(directory)
    }

    /// Opens the directory at `path`, by way of symbolic links too, but never out of the root.
    fn resolve(&self, path: &LayerPath) -> Result<OwnedFd, Errno> {
        if path.as_path().as_os_str().is_empty() {
            return sys::openat(&self.root, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        sys::openat2(&self.root, path.as_path(), flags, Mode::empty(), resolve)
    }

    /// Makes the directories on the way to `path` that no entry made before.
    fn make_implied(&mut self, path: &LayerPath) -> io::Result<OwnedFd> {
        let mut directory = self.root.try_clone()?;
        for prefix in path.prefixes() {
            directory = match self.resolve(&prefix) {
                Ok(found) => found,
                Err(Errno::NOENT) => self.make_one_implied(directory, &prefix)?,
                Err(errno) => return Err(unusable(errno)),
            };
        }
        Ok(directory)
    }

    fn make_one_implied(&mut self, parent: OwnedFd, path: &LayerPath) -> io::Result<OwnedFd> {
        let Some((_, name)) = path.split() else { return Ok(parent) };
        match sys::mkdirat(&parent, name, Mode::from_raw_mode(IMPLIED_MODE)) {
            Err(Errno::EXIST) => Err(Malformed::io("the way to it is a symbolic link to nothing")),
            Err(errno) => Err(errno.into()),
            Ok(()) => {
                let made = open_within(parent.as_fd(), name)?;
                sys::fchmod(&made, Mode::from_raw_mode(IMPLIED_MODE))?;
                self.look_as_below(path.as_path(), made.as_fd())?;
                Ok(made)
            }
        }
    }

    /// Gives a directory without an entry the owner and mode that the topmost layer below has for it: else it would
    /// change them for all that look through this layer.
    fn look_as_below(&self, path: &Path, directory: BorrowedFd<'_>) -> io::Result<()> {
        for root in self.lower.iter().rev() {
            let root = File::open(root)?;
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            if let Ok(below) = sys::openat2(&root, path, flags, Mode::empty(), resolve) {
                let found = File::from(below).metadata()?;
                sys::fchown(directory, Some(Uid::from_raw(found.uid())), Some(Gid::from_raw(found.gid())))?;
                return Ok(sys::fchmod(directory, Mode::from_raw_mode(found.mode() & 0o7777))?);
            }
        }
        Ok(())
    }
}

fn unusable(errno: Errno) -> io::Error {
    match errno {
        Errno::NOTDIR => Malformed::io("the way to it leads through what is no directory"),
        Errno::LOOP => Malformed::io("the way to it is a circle of symbolic links"),
        Errno::NAMETOOLONG | Errno::XDEV => Malformed::io("the way to it cannot be followed"),
        other => other.into(),
    }
}

fn open_within(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(sys::openat(parent, name, flags, Mode::empty())?)
}

/// Where an open directory is now.
fn location(directory: BorrowedFd<'_>) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

fn is_whiteout(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    let stat = sys::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == sys::makedev(0, 0))
}

fn set_opaque(directory: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sys::fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())?)
}

/// Owner, then mode, then attributes: a change of owner takes set-user-id and capabilities away.
fn dress(file: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
    sys::fchown(file, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))?;
    sys::fchmod(file, Mode::from_raw_mode(entry.mode))?;
    for (name, value) in entry.xattrs.iter().filter(|(name, _)| may_set(name)) {
        match sys::fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty()) {
            // The file system has no attributes of this kind; containers run without them.
            Err(Errno::OPNOTSUPP) => {}
            Err(Errno::INVAL | Errno::RANGE | Errno::TOOBIG) => {
                return Err(Malformed::io(format!("its attribute {:?} is invalid", String::from_utf8_lossy(name))));
            }
            other => other?,
        }
    }
    Ok(())
}

/// Attributes that belong to the file. Not overlayfs's own, by which a layer could reach into others, and not labels
/// of the machine that built the image.
fn may_set(name: &[u8]) -> bool {
    let allowed = [&b"user."[..], b"security.capability", b"system.posix_acl_"];
    allowed.iter().any(|prefix| name.starts_with(prefix)) && !name.starts_with(b"user.overlay.")
}

/// Owner and time of what cannot be opened.
fn own(parent: BorrowedFd<'_>, name: &OsStr, entry: &Entry) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    sys::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(sys::utimensat(parent, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)?)
}

fn times((seconds, nanos): (i64, u32)) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) };
    Timestamps { last_access: time, last_modification: time }
}

fn copy(data: &mut impl Read, file: &mut File, buffer: &mut [u8]) -> io::Result<()> {
    use std::io::Write as _;
    loop {
        match data.read(buffer)? {
            0 => return Ok(()),
            count => file.write_all(buffer.get(..count).unwrap_or_default())?,
        }
    }
}
