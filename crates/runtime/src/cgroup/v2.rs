//! Version 2: one tree.

use std::fs;
use std::io;
use std::path::Path;

use super::v1::limit_text;
use super::{make_dir, optional_write, processes, write};
use crate::sys;
use contract::Resources;

/// Length of a period when none is given, in microseconds: the kernel's own.
const PERIOD_US_DEFAULT: u64 = 100_000;

pub(super) fn create(root: &Path, path: &str) -> io::Result<()> {
    let mut dir = root.to_path_buf();
    for part in path.split('/') {
        for controller in ["cpu", "cpuset", "memory", "pids", "hugetlb"] {
            // One at a time and as far as the host has them: one that is missing would refuse all.
            let _ = write(&dir.join("cgroup.subtree_control"), &format!("+{controller}"));
        }
        dir.push(part);
        make_dir(&dir)?;
    }
    Ok(())
}

pub(super) fn apply(dir: &Path, resources: &Resources) -> io::Result<()> {
    let set = |file: &str, value: Option<String>| value.map_or(Ok(()), |value| write(&dir.join(file), &value));
    set("cpu.weight", resources.cpu_shares.map(|shares| weight(shares).to_string()))?;
    set(
        "cpu.max",
        resources.cpu_quota_us.map(|quota| {
            format!("{} {}", limit_text(quota, "max"), resources.cpu_period_us.unwrap_or(PERIOD_US_DEFAULT))
        }),
    )?;
    set("cpuset.cpus", resources.cpuset_cpus.clone())?;
    set("cpuset.mems", resources.cpuset_mems.clone())?;
    set("pids.max", resources.pids_limit.map(|limit| limit_text(limit, "max")))?;
    set("memory.max", resources.memory_limit_bytes.map(|limit| limit_text(limit, "max")))?;
    if resources.memory_limit_bytes.is_some() {
        optional_write(&dir.join("memory.swap.max"), "0")?;
    }
    for (size, bytes) in &resources.hugepage_limits {
        optional_write(&dir.join(format!("hugetlb.{size}.max")), &bytes.to_string())?;
    }
    Ok(())
}

/// Maps shares of 2 to 262,144 to weights of 1 to 10,000, as the kubelet does.
fn weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

/// `cgroup.kill` since Linux 5.14; before that, freeze and kill each.
pub(super) fn kill(dir: &Path) -> io::Result<()> {
    let file = dir.join("cgroup.kill");
    if fs::exists(&file)? {
        return write(&file, "1");
    }
    optional_write(&dir.join("cgroup.freeze"), "1")?;
    for pid in processes(dir)?.into_iter().filter(|pid| *pid > 0) {
        sys::kill(pid, libc::SIGKILL)?;
    }
    optional_write(&dir.join("cgroup.freeze"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        for (shares, expected) in [(0, 1), (2, 1), (1024, 39), (262_144, 10_000), (u64::MAX, 10_000)] {
            assert_eq!(weight(shares), expected, "{shares}");
        }
    }
}
