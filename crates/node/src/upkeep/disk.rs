//! What a directory takes on its disk. Containers write to what is measured here: no link is followed, no other file
//! system entered, and no depth or width can make it go wrong.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use agent::pressure::Used;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};

/// Longest path that is walked from one directory; then the walk goes on from where it is. The kernel takes 4,096.
const PATH_BYTES_MAX: usize = 2_048;
/// Files counted; whoever has more has been counted enough, and the walk must end.
const FILES_MAX: u64 = 50_000_000;
/// Blocks as the kernel counts them.
const BLOCK_BYTES: i64 = 512;

/// What is in the directory `path`, itself included. What cannot be read is not there.
pub(super) fn used(path: &Path) -> Used {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else { return Used::default() };
    let Ok(found) = rustix::fs::fstat(&root) else { return Used::default() };
    let mut walk = Walk { device: found.st_dev, total: share(&found), left: FILES_MAX, pending: Vec::new() };
    walk.pending.push((Rc::new(root), PathBuf::new()));
    while let Some((base, below)) = walk.pending.pop() {
        // It may have gone since it was seen.
        let _ = walk.enter(&base, &below);
    }
    walk.total
}

struct Walk {
    device: u64,
    total: Used,
    left: u64,
    /// Directories to enter: below which, and where.
    pending: Vec<(Rc<OwnedFd>, PathBuf)>,
}

impl Walk {
    fn enter(&mut self, base: &Rc<OwnedFd>, below: &Path) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let place = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let directory = Rc::new(rustix::fs::openat2(&**base, place, flags, Mode::empty(), resolve)?);
        let is_long = below.as_os_str().len() > PATH_BYTES_MAX;
        let (base, below) = if is_long { (&directory, Path::new("")) } else { (base, below) };
        for entry in Dir::read_from(&*directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(found) = rustix::fs::statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if found.st_dev != self.device || self.left == 0 {
                continue;
            }
            self.left -= 1;
            self.total = self.total.plus(share(&found));
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes());
                self.pending.push((Rc::clone(base), below.join(name)));
            }
        }
        Ok(())
    }
}

/// A file of several names counts for each by its share.
fn share(found: &Stat) -> Used {
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let names = if is_directory { 1 } else { i64::try_from(found.st_nlink).unwrap_or(i64::MAX).max(1) };
    Used { bytes: found.st_blocks.saturating_mul(BLOCK_BYTES) / names, inodes: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_counted_and_links_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).expect("made");
        let before = used(&root);
        assert_eq!(before.inodes, 3);
        std::fs::write(root.join("a/b/file"), vec![1; 1 << 20]).expect("written");
        std::fs::write(directory.path().join("outside"), vec![1; 1 << 20]).expect("written");
        std::os::unix::fs::symlink("..", root.join("up")).expect("linked");
        std::fs::hard_link(root.join("a/b/file"), root.join("again")).expect("linked");
        let after = used(&root);
        assert_eq!(after.inodes, 6);
        let grown = after.bytes - before.bytes;
        assert!((1 << 20..(1 << 20) + 65_536).contains(&grown), "{grown}");
        assert_eq!(used(&root.join("up")), Used::default());
        assert_eq!(used(&root.join("absent")), Used::default());
    }

    #[test]
    fn no_depth_is_too_deep() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = "d".repeat(200);
        let mut base = Rc::new(rustix::fs::open(directory.path(), OFlags::PATH, Mode::empty()).expect("opened"));
        for _ in 0..50 {
            rustix::fs::mkdirat(&*base, name.as_str(), Mode::from_raw_mode(0o755)).expect("made");
            base = Rc::new(rustix::fs::openat(&*base, name.as_str(), OFlags::PATH, Mode::empty()).expect("opened"));
        }
        assert_eq!(used(directory.path()).inodes, 51);
    }
}
