//! Private files: read whole, written atomically with mode 0600.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Largest file read: certificates and kubeconfigs of thousands of clusters stay below.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The file's text; `None` when there is no such file.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    Ok(Some(text))
}

/// Makes the directory and those above it, for the owner alone where it makes them.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces the file: whoever reads it, also after a crash, finds the old text or the new one. A symbolic link is
/// followed, so that it stays one.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = beside(&target);
    // A leftover of a crashed write is ours to remove; `create_new` then refuses whatever else stands there.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| {
        fs::rename(&beside, &target)?;
        sync_dir(&target)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    target.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

fn sync_dir(target: &Path) -> io::Result<()> {
    match target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn writes_for_the_owner_alone_and_replaces() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        write(&path, "new").expect("written");
        assert_eq!(read(&path).expect("read").as_deref(), Some("new"));
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "old").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        write(&link, "new").expect("written");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&target).expect("read"), "new");
    }

    #[test]
    fn absent_is_no_error() {
        assert_eq!(read(Path::new("/nowhere/at/all")).expect("no error"), None);
    }
}
