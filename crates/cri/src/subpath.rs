//! Parts of volumes for runtimes that take whole paths: a part is found below its volume without ever leaving it, and
//! bound to a place of ours, so that what a container changes in the volume afterwards leads nowhere else.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Where parts of volumes are bound, by sandbox, container and number of the mount.
pub struct SubPaths {
    root: PathBuf,
}

impl SubPaths {
    /// Below `root`.
    pub fn new(root: PathBuf) -> SubPaths {
        SubPaths { root }
    }

    /// Binds the part `sub_path` of `volume`; a directory is made when it is absent.
    pub fn bind(&self, place: &[&str], volume: &Path, sub_path: &str) -> io::Result<PathBuf> {
        let part = resolve(volume, sub_path)?;
        let target = place.iter().fold(self.root.clone(), |path, word| path.join(word));
        unbind(&target)?;
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        let stat = rustix::fs::fstat(&part)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
            fs::create_dir_all(&target)?;
        } else {
            fs::File::create(&target)?;
        }
        let source = format!("/proc/self/fd/{}", part.as_raw_fd());
        rustix::mount::mount_bind(source.as_str(), &target)?;
        Ok(target)
    }

    /// Lets go of everything of a sandbox, or of one of its containers.
    pub fn release(&self, place: &[&str]) -> io::Result<()> {
        let directory = place.iter().fold(self.root.clone(), |path, word| path.join(word));
        release(&directory)
    }
}

/// Unbinds what is below and removes the directories; never what is bound.
fn release(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        unbind(&path)?;
        match fs::symlink_metadata(&path)?.is_dir() {
            true => release(&path)?,
            false => fs::remove_file(&path)?,
        }
    }
    fs::remove_dir(directory)
}

fn unbind(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Nothing is there, or nothing is bound there.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The part, step by step; links may be followed within the volume.
fn resolve(volume: &Path, sub_path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(volume, flags, Mode::empty())?;
    let mut reached = String::new();
    let mut here = rustix::io::fcntl_dupfd_cloexec(&root, 0)?;
    for word in sub_path.split('/').filter(|word| !word.is_empty() && *word != ".") {
        let parent = here;
        if !reached.is_empty() {
            reached.push('/');
        }
        reached.push_str(word);
        here = match beneath(root.as_fd(), &reached) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&parent, word, Mode::from_raw_mode(0o750)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                beneath(root.as_fd(), &reached)?
            }
            other => other?,
        };
    }
    Ok(here)
}

fn beneath(root: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_in_their_volume() {
        let directory = tempfile::tempdir().expect("a directory");
        let volume = directory.path().join("v");
        fs::create_dir(&volume).expect("made");
        fs::write(directory.path().join("secret"), "x").expect("written");
        std::os::unix::fs::symlink("../secret", volume.join("out")).expect("linked");
        std::os::unix::fs::symlink("a", volume.join("in")).expect("linked");
        assert!(resolve(&volume, "a/b").is_ok());
        assert!(volume.join("a/b").is_dir());
        assert!(resolve(&volume, "in/b").is_ok());
        for outside in ["out", "../secret", "a/../../secret", "/etc"] {
            let found = resolve(&volume, outside);
            // An absolute path is one below the volume.
            assert_eq!(found.is_ok(), outside == "/etc", "{outside}");
        }
    }
}
