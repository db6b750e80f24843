//! The files of one log as one text: what was put aside, then what is being written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a list is made again because files were put aside meanwhile: a log that grows that fast is read from
/// where it is.
const LISTINGS_MAX: usize = 8;

/// One file that is open. Renaming it changes nothing for who reads it.
pub(super) struct LogFile {
    file: File,
    inode: u64,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<LogFile> {
        // A container that shares the directory must not lead elsewhere by a link.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(path)?;
        let inode = file.metadata()?.ino();
        Ok(LogFile { file, inode })
    }

    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads at a place; 0 at the end.
    pub fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// All files of a log, the oldest first; none if nothing was written.
pub(super) fn open_all(path: &Path) -> io::Result<Vec<LogFile>> {
    let mut found = Vec::new();
    for _ in 0..LISTINGS_MAX {
        let names = aside(path)?;
        found.clear();
        for name in names.iter().map(PathBuf::as_path).chain([path]) {
            match LogFile::open(name) {
                Ok(file) => found.push(file),
                // Put aside or removed just now, or not yet written.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if names == aside(path)? {
            break;
        }
    }
    found.dedup_by_key(|file| file.inode);
    Ok(found)
}

fn aside(path: &Path) -> io::Result<Vec<PathBuf>> {
    match contract::rotated(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

/// The file after one that was read to its end; `None` while that is still the last. When the file is gone, so is
/// what came right after it: then the oldest that is left.
pub(super) fn after(path: &Path, last: &LogFile) -> io::Result<Option<LogFile>> {
    let mut all = open_all(path)?;
    let next = all.iter().position(|file| file.inode == last.inode).map_or(0, |at| at + 1);
    Ok((next < all.len()).then(|| all.swap_remove(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_file_is_found_whatever_happened_to_this_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        assert!(open_all(&path).expect("none").is_empty());
        let named = |stamp: &str| directory.path().join(format!("0.log.{stamp}"));
        std::fs::write(&path, "a").expect("written");
        let first = open_all(&path).expect("one").remove(0);
        assert!(after(&path, &first).expect("listed").is_none());
        for (stamp, text) in [("1", "bb"), ("2", "ccc")] {
            std::fs::rename(&path, named(stamp)).expect("put aside");
            std::fs::write(&path, text).expect("written");
        }
        let next =
            |file: &LogFile| after(&path, file).expect("listed").map(|file| (file.bytes().expect("bytes"), file));
        let (bytes, second) = next(&first).expect("another");
        assert_eq!(bytes, 2);
        std::fs::remove_file(named("1")).expect("removed");
        let (bytes, third) = next(&first).expect("the oldest that is left");
        assert_eq!(bytes, 2, "not the one that was removed");
        assert_eq!(next(&second).map(|(bytes, _)| bytes), Some(3));
        assert_eq!(next(&third).map(|(bytes, _)| bytes), Some(3));
    }
}
