//! Paths of the machine, and what they must be.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

/// Checks that `path` is what `wanted` says, or makes it so.
pub(super) fn check(path: &Path, wanted: &str) -> Result<(), String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let found = fs::metadata(path).ok();
    let must = |is: fn(&fs::FileType) -> bool, what: &str| match found.as_ref().map(fs::Metadata::file_type) {
        Some(kind) if is(&kind) => Ok(()),
        _ => Err(format!("hostPath type check failed: {shown} is not a {what}")),
    };
    match wanted {
        "" => Ok(()),
        "DirectoryOrCreate" if found.is_none() => {
            fs::create_dir_all(path).map_err(failed)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)
        }
        "FileOrCreate" if found.is_none() => {
            fs::File::create(path).map_err(failed)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(failed)
        }
        "DirectoryOrCreate" | "Directory" => must(fs::FileType::is_dir, "directory"),
        "FileOrCreate" | "File" => must(fs::FileType::is_file, "file"),
        "Socket" => must(FileTypeExt::is_socket, "socket file"),
        "CharDevice" => must(FileTypeExt::is_char_device, "character device"),
        "BlockDevice" => must(FileTypeExt::is_block_device, "block device"),
        other => Err(format!("{other} is an invalid volume type")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        let check = |name: &str, wanted: &str, expected: bool| {
            assert_eq!(check(&directory.path().join(name), wanted).is_ok(), expected, "{name} {wanted}");
        };
        check("file", "File", false);
        check("file", "FileOrCreate", true);
        check("file", "File", true);
        check("file", "Directory", false);
        check("new/deep", "DirectoryOrCreate", true);
        check("new", "Directory", true);
        check("absent", "", true);
        check("absent", "Socket", false);
        assert!(file.exists());
    }
}
