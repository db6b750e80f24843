//! Logs grow: CRI leaves it to the node to put them aside.

use std::io;
use std::path::Path;

use contract::LogLimits;
use stdx::Time;

/// Puts a log aside if it is too long; true when the runtime has to be told to open it again.
pub fn put_aside(path: &Path, limits: &LogLimits, now: Time) -> io::Result<bool> {
    let length = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if length < limits.file_bytes_max {
        return Ok(false);
    }
    std::fs::rename(path, contract::name_aside(path, now))?;
    contract::keep_newest(path, limits.files_max)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("0.log");
        let limits = LogLimits { file_bytes_max: 4, files_max: 2 };
        let put = |at: i64| put_aside(&path, &limits, Time::from_micros(at)).expect("looked at");
        assert!(!put(1));
        std::fs::write(&path, "abc").expect("written");
        assert!(!put(2));
        for at in [3, 4] {
            std::fs::write(&path, "abcd").expect("written");
            assert!(put(at) && !path.exists());
        }
        assert_eq!(contract::rotated(&path).expect("listed").len(), 1);
    }
}
