//! The files of a container's log: one that is written, and those that were put aside, named by their time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use stdx::Time;

/// The name under which a log is put aside: the file's own and the time (`0.log.20261130-022550500000`).
pub fn name_aside(path: &Path, at: Time) -> PathBuf {
    let digits: String = at.to_rfc3339_micros().chars().filter(|c| c.is_ascii_digit() || *c == 'T').collect();
    let mut name = path.to_path_buf().into_os_string();
    name.push(format!(".{}", digits.replace('T', "-")));
    name.into()
}

/// The files of a log that were put aside, the oldest first.
pub fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{}.", path.file_name().and_then(|name| name.to_str()).unwrap_or(""));
    let mut found = Vec::new();
    for entry in fs::read_dir(path.parent().unwrap_or(path))? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the oldest of the files put aside until with the one that is written there are `files_max`, at least 2.
pub fn keep_newest(path: &Path, files_max: u32) -> io::Result<()> {
    let mut old = rotated(path)?;
    let keep = usize::try_from(files_max.max(2) - 1).unwrap_or(1);
    while old.len() > keep {
        fs::remove_file(old.remove(0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        for second in [3, 1, 2] {
            fs::write(name_aside(&path, Time::from_micros(second * 1_000_000)), second.to_string()).unwrap();
        }
        keep_newest(&path, 3).unwrap();
        let left: Vec<String> = rotated(&path).unwrap().iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        assert_eq!(left, ["2", "3"]);
    }
}
