//! The group that a pod's volumes belong to.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use meta::ObjectExt;
use serde_json::Value;

/// `spec.securityContext.fsGroup`.
pub(super) fn group(pod: &Value) -> Option<u32> {
    pod.int(&["spec", "securityContext", "fsGroup"]).and_then(|group| u32::try_from(group).ok())
}

/// Gives a directory and all below it to a group, which may do what the owner may.
pub(super) fn give(path: &Path, group: u32) -> io::Result<()> {
    lchown(path, None, Some(group))?;
    let meta = fs::symlink_metadata(path)?;
    if meta.file_type().is_symlink() {
        return Ok(());
    }
    let mode = meta.permissions().mode() & 0o7777;
    let wider = if meta.is_dir() { mode | 0o2770 } else { mode | 0o660 };
    // What nobody may write stays so for the group.
    let wider = if mode & 0o200 == 0 { wider & !0o220 } else { wider };
    fs::set_permissions(path, fs::Permissions::from_mode(wider))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), group)?;
        }
    }
    Ok(())
}
