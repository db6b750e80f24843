//! Files that all change at once: a directory with the files, a link `..data` to it that is replaced by renaming, and
//! links to the files through that.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agent::payload::{File, Payload};

use super::ownership;

const DATA: &str = "..data";
const DATA_NEXT: &str = "..data_tmp";
/// Versions tried before giving up: more than there ever are at a time.
const VERSIONS_MAX: u32 = 1_000;

/// Writes `files` into the volume at `path`; nothing changes when they are there already.
pub(super) fn write(path: &Path, files: &Payload, group: Option<u32>) -> Result<(), String> {
    check(files)?;
    attempt(path, files, group).map_err(|error| format!("{}: {error}", path.display()))
}

/// No path may lead out of the volume, or into what this file keeps for itself.
fn check(files: &Payload) -> Result<(), String> {
    for path in files.keys() {
        let is_bad = path.is_empty() || path.starts_with('/') || path.starts_with("..");
        if is_bad || path.split('/').any(|part| part == ".." || part.is_empty()) {
            return Err(format!("invalid path: {path}"));
        }
    }
    Ok(())
}

fn attempt(path: &Path, files: &Payload, group: Option<u32>) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    let current = fs::read_link(path.join(DATA)).ok();
    if current.as_ref().is_some_and(|version| is_same(&path.join(version), files)) {
        return Ok(());
    }
    let version = fresh(path)?;
    let directory = path.join(&version);
    if let Err(error) = fill(&directory, files, group) {
        // The disk may be full: what was begun must not take more of it with every try.
        let _ = fs::remove_dir_all(&directory);
        return Err(error);
    }
    let next = path.join(DATA_NEXT);
    remove_if_there(&next)?;
    symlink(&version, &next)?;
    fs::rename(&next, path.join(DATA))?;
    link_names(path, files)?;
    sweep(path, &version)
}

fn fill(directory: &Path, files: &Payload, group: Option<u32>) -> io::Result<()> {
    for (name, file) in files {
        write_file(&directory.join(name), file)?;
    }
    group.map_or(Ok(()), |group| ownership::give(directory, group))
}

/// Whether the volume at `path` has been written.
pub(super) fn is_written(path: &Path) -> bool {
    fs::metadata(path.join(DATA)).is_ok_and(|found| found.is_dir())
}

/// A new directory for a version.
fn fresh(path: &Path) -> io::Result<String> {
    for number in 0..VERSIONS_MAX {
        let name = format!("..version_{number}");
        match fs::create_dir(path.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => {
                fs::set_permissions(path.join(&name), fs::Permissions::from_mode(0o755))?;
                return Ok(name);
            }
        }
    }
    Err(io::Error::other("too many versions"))
}

fn write_file(path: &Path, file: &File) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(file.mode & 0o777))
}

fn is_same(directory: &Path, files: &Payload) -> bool {
    let has = |(name, file): (&String, &File)| {
        let path = directory.join(name);
        let mode = fs::metadata(&path).map(|meta| meta.permissions().mode() & 0o777);
        // Group permissions are widened where the pod has a group for its volumes.
        mode.is_ok_and(|mode| mode & 0o707 == file.mode & 0o707)
            && fs::read(&path).is_ok_and(|bytes| bytes == file.bytes)
    };
    count(directory) == files.len() && files.iter().all(has)
}

fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

/// The first parts of the files' paths, each a link through `..data`.
fn link_names(path: &Path, files: &Payload) -> io::Result<()> {
    let names: BTreeSet<&str> = files.keys().filter_map(|name| name.split('/').next()).collect();
    for name in &names {
        let target = PathBuf::from(DATA).join(name);
        let link = path.join(name);
        if fs::read_link(&link).ok().as_ref() != Some(&target) {
            remove_if_there(&link)?;
            symlink(&target, &link)?;
        }
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !names.contains(&*name) {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

fn sweep(path: &Path, version: &str) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("..version_") && name != version {
            fs::remove_dir_all(path.join(&*name))?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |text: &str| File { bytes: text.as_bytes().to_vec(), mode: 0o640 };
        files.iter().map(|(name, text)| ((*name).to_owned(), file(text))).collect()
    }

    #[test]
    fn all_files_change_at_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("volume");
        let read = |name: &str| fs::read_to_string(path.join(name)).ok();
        write(&path, &payload(&[("a", "1"), ("x/b", "2")]), None).expect("written");
        assert_eq!((read("a"), read("x/b")), (Some("1".into()), Some("2".into())));
        let version = fs::read_link(path.join(DATA)).expect("a link");
        write(&path, &payload(&[("a", "1"), ("x/b", "2")]), None).expect("written");
        assert_eq!(fs::read_link(path.join(DATA)).expect("a link"), version, "nothing has changed");
        write(&path, &payload(&[("a", "3")]), None).expect("written");
        assert_eq!((read("a"), read("x/b")), (Some("3".into()), None));
        assert!(!path.join(version).exists() && fs::symlink_metadata(path.join("x")).is_err());
        assert_eq!(fs::metadata(path.join("a")).expect("a file").permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn no_path_leads_out() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["../x", "/x", "a/../x", "", "..data", "a//b"] {
            assert!(write(directory.path(), &payload(&[(name, "1")]), None).is_err(), "{name}");
        }
    }
}
