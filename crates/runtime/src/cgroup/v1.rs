//! Version 1: one tree for each controller.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{DeviceRule, make_dir, named, optional_write, processes, write};
use crate::sys;
use contract::Resources;

type Mounts = BTreeMap<String, PathBuf>;

/// Times a group is frozen, killed and looked at again: every pass ends all processes seen frozen, so a second is
/// needed only when freezing did not finish.
const KILL_PASSES: u32 = 50;

pub(super) fn create(mounts: &Mounts, path: &str) -> io::Result<()> {
    for (controller, root) in mounts {
        let mut dir = root.clone();
        for part in path.split('/') {
            dir.push(part);
            make_dir(&dir)?;
            if controller == "cpuset" {
                inherit_cpuset(&dir)?;
            }
        }
    }
    Ok(())
}

/// A new cpuset is empty and takes no process until it has both lists.
fn inherit_cpuset(dir: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let own = fs::read_to_string(dir.join(file)).map_err(named(dir))?;
        if own.trim().is_empty()
            && let Some(parent) = dir.parent()
        {
            let inherited = fs::read_to_string(parent.join(file)).map_err(named(parent))?;
            write(&dir.join(file), inherited.trim())?;
        }
    }
    Ok(())
}

pub(super) fn apply(mounts: &Mounts, path: &str, resources: &Resources) -> io::Result<()> {
    let dir = |controller: &str| mounts.get(controller).map(|root| root.join(path));
    let set = |controller: &str, file: &str, value: Option<String>| match (dir(controller), value) {
        (Some(dir), Some(value)) => write(&dir.join(file), &value),
        _ => Ok(()),
    };
    set("cpu", "cpu.shares", resources.cpu_shares.map(|shares| shares.clamp(2, 262_144).to_string()))?;
    set("cpu", "cpu.cfs_period_us", resources.cpu_period_us.map(|period| period.to_string()))?;
    set("cpu", "cpu.cfs_quota_us", resources.cpu_quota_us.map(|quota| quota.to_string()))?;
    set("cpuset", "cpuset.cpus", resources.cpuset_cpus.clone())?;
    set("cpuset", "cpuset.mems", resources.cpuset_mems.clone())?;
    set("pids", "pids.max", resources.pids_limit.map(|limit| limit_text(limit, "max")))?;
    if let (Some(dir), Some(limit)) = (dir("memory"), resources.memory_limit_bytes) {
        apply_memory(&dir, limit)?;
    }
    if let Some(dir) = dir("hugetlb") {
        for (size, bytes) in &resources.hugepage_limits {
            optional_write(&dir.join(format!("hugetlb.{size}.limit_in_bytes")), &bytes.to_string())?;
        }
    }
    Ok(())
}

/// Memory with swap may never be below memory: the order depends on the direction.
fn apply_memory(dir: &Path, limit: i64) -> io::Result<()> {
    let text = limit_text(limit, "-1");
    let (memory, both) = (dir.join("memory.limit_in_bytes"), dir.join("memory.memsw.limit_in_bytes"));
    let current: u64 = fs::read_to_string(&memory).map_err(named(&memory))?.trim().parse().unwrap_or(u64::MAX);
    if limit < 0 || u64::try_from(limit).is_ok_and(|limit| limit > current) {
        optional_write(&both, &text)?;
        return write(&memory, &text);
    }
    write(&memory, &text)?;
    optional_write(&both, &text)
}

pub(super) fn limit_text(limit: i64, unlimited: &str) -> String {
    if limit < 0 { unlimited.to_owned() } else { limit.to_string() }
}

pub(super) fn restrict_devices(mounts: &Mounts, path: &str, rules: &[DeviceRule]) -> io::Result<()> {
    let Some(dir) = mounts.get("devices").map(|root| root.join(path)) else { return Ok(()) };
    write(&dir.join("devices.deny"), "a")?;
    rules.iter().try_for_each(|rule| write(&dir.join("devices.allow"), &rule.to_string()))
}

/// Freeze, kill, thaw: nothing can fork away in between.
pub(super) fn kill(dir: &Path) -> io::Result<()> {
    let state = dir.join("freezer.state");
    for _ in 0..KILL_PASSES {
        let pids = processes(dir)?;
        if pids.is_empty() {
            break;
        }
        write(&state, "FROZEN")?;
        let frozen = processes(dir)?;
        for pid in frozen {
            // 0 is a process of a namespace that cannot be seen from here.
            if pid > 0 {
                sys::kill(pid, libc::SIGKILL)?;
            }
        }
        write(&state, "THAWED")?;
        super::pause();
    }
    Ok(())
}
