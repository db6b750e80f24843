//! Room that lives as long as the pod: a directory, or a file system in memory.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use meta::{ObjectExt, Quantity};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::Value;

use super::ownership;

/// Makes an emptyDir.
pub(super) fn make(path: &Path, source: &Value, group: Option<u32>) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    let is_new = !path.exists();
    fs::create_dir_all(path).map_err(failed)?;
    if source.text(&["medium"]) == "Memory" && !is_mounted(path).map_err(failed)? {
        let limit = source.get("sizeLimit").and_then(|limit| Quantity::from_value(limit).ok());
        let options = match limit.map(|limit| limit.units()).filter(|bytes| *bytes > 0) {
            Some(bytes) => format!("mode=0777,size={bytes}"),
            None => "mode=0777".to_owned(),
        };
        let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", path, "tmpfs", flags, options.as_c_str()).map_err(|errno| failed(errno.into()))?;
    }
    if is_new {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).map_err(failed)?;
        if let Some(group) = group {
            ownership::give(path, group).map_err(failed)?;
        }
    }
    Ok(())
}

/// Whether an emptyDir is as it was made: somebody may have removed or unmounted it.
pub(super) fn is_made(path: &Path, source: &Value) -> bool {
    let needs_mount = source.text(&["medium"]) == "Memory";
    path.is_dir() && (!needs_mount || is_mounted(path).unwrap_or(false))
}

/// Whether something is mounted there: the device differs from that of the directory it is in.
fn is_mounted(path: &Path) -> io::Result<bool> {
    let Some(parent) = path.parent() else { return Ok(true) };
    Ok(fs::metadata(path)?.dev() != fs::metadata(parent)?.dev())
}

/// Unmounts and removes everything of a pod. What is gone already is no error.
pub(crate) fn tear_down(pod: &Path, volumes: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", pod.display());
    let entries = match fs::read_dir(volumes) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        // Twice at most: nobody else mounts there.
        while is_mounted(&entry.path()).map_err(failed)? {
            unmount(entry.path(), UnmountFlags::DETACH).map_err(|errno| failed(errno.into()))?;
        }
    }
    match fs::remove_dir_all(pod) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn is_made_and_goes() {
        let directory = tempfile::tempdir().expect("a directory");
        let pod = directory.path().join("pod");
        let volume = pod.join("volumes/v");
        assert!(!is_made(&volume, &json!({})));
        make(&volume, &json!({}), None).expect("made");
        assert!(is_made(&volume, &json!({})) && !is_made(&volume, &json!({"medium": "Memory"})));
        fs::write(volume.join("file"), "x").expect("written");
        make(&volume, &json!({}), None).expect("made again");
        assert!(volume.join("file").exists(), "what is there stays");
        tear_down(&pod, &pod.join("volumes")).expect("removed");
        assert!(!pod.exists());
        tear_down(&pod, &pod.join("volumes")).expect("nothing to remove");
    }
}
