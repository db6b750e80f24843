//! What there is: a few numbers of the kernel.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent::pressure::{Amount, Disks, Observations, Signal};
use rustix::fs::StatVfs;

use crate::NodeConfig;

/// Directories of the file systems that are watched.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Of volumes, logs and writable layers.
    pub node: PathBuf,
    /// Of images.
    pub images: PathBuf,
}

impl Places {
    /// Those of a node.
    pub fn of(config: &NodeConfig) -> Places {
        Places { node: config.root.clone(), images: config.images_root.clone() }
    }

    /// How they lie to each other.
    pub fn disks(&self) -> Disks {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        Disks { images_apart: device(&self.node) != device(&self.images) }
    }
}

/// Looks. What cannot be read is left out.
pub(crate) fn observe(places: &Places) -> Observations {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let node = rustix::fs::statvfs(&places.node).ok();
    let images = rustix::fs::statvfs(&places.images).ok();
    let all = [
        (Signal::MemoryAvailable, memory(&read("/proc/meminfo"))),
        (Signal::NodeFsAvailable, node.as_ref().and_then(bytes)),
        (Signal::NodeFsInodesFree, node.as_ref().and_then(inodes)),
        (Signal::ImageFsAvailable, images.as_ref().and_then(bytes)),
        (Signal::ImageFsInodesFree, images.as_ref().and_then(inodes)),
        (
            Signal::PidAvailable,
            pids(&read("/proc/sys/kernel/pid_max"), &read("/proc/sys/kernel/threads-max"), &read("/proc/loadavg")),
        ),
    ];
    all.into_iter().filter_map(|(signal, amount)| Some((signal, amount?))).collect()
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub bytes: Amount,
    /// None where inodes are made as they are needed.
    pub inodes: Option<Amount>,
}

/// The file system of `path`.
pub(crate) fn file_system(path: &Path) -> Option<FileSystem> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(FileSystem { bytes: bytes(&found)?, inodes: inodes(&found) })
}

/// Bytes of the file system of `path`.
pub(super) fn disk(path: &Path) -> Option<Amount> {
    bytes(&rustix::fs::statvfs(path).ok()?)
}

fn amount(available: u64, capacity: u64) -> Option<Amount> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    (capacity > 0).then(|| Amount { available: number(available), capacity: number(capacity) })
}

fn bytes(found: &StatVfs) -> Option<Amount> {
    amount(found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize))
}

/// None on file systems that make inodes as they need them.
fn inodes(found: &StatVfs) -> Option<Amount> {
    amount(found.f_ffree, found.f_files)
}

/// Memory that nobody uses, and file cache that was not used lately: what upstream counts as available.
fn memory(meminfo: &str) -> Option<Amount> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let available = kib("MemFree")?.saturating_add(kib("Inactive(file)").unwrap_or(0));
    amount(available.saturating_mul(1024), kib("MemTotal")?.saturating_mul(1024))
}

/// Numbers of processes and threads; those taken stand in the load: `0.1 0.2 0.3 running/all last`.
fn pids(pid_max: &str, threads_max: &str, loadavg: &str) -> Option<Amount> {
    let limits = [pid_max, threads_max].map(|text| text.trim().parse::<u64>().ok());
    let most = limits.into_iter().flatten().min()?;
    let taken: u64 = loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    amount(most.saturating_sub(taken), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_read() {
        let check = |found: Option<Amount>, expected: Option<(i64, i64)>| {
            assert_eq!(found.map(|amount| (amount.available, amount.capacity)), expected);
        };
        check(memory("MemTotal: 100 kB\nMemFree: 30 kB\nInactive(file): 20 kB\n"), Some((50 << 10, 100 << 10)));
        check(memory("MemFree: 30 kB\n"), None);
        check(memory(""), None);
        check(pids("32768\n", "1000\n", "0.1 0.2 0.3 1/400 77\n"), Some((600, 1000)));
        check(pids("300", "", "0.1 0.2 0.3 1/400 77"), Some((0, 300)));
        check(pids("", "", "0.1 0.2 0.3 1/400 77"), None);
        check(pids("1", "1", "broken"), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let places = Places { node: "/proc/..".into(), images: "/absent".into() };
        let found = observe(&places);
        assert!(found[&Signal::MemoryAvailable].available > 0);
        assert!(found[&Signal::PidAvailable].available > 0);
        assert!(found[&Signal::NodeFsAvailable].capacity > 0);
        assert_eq!(found.get(&Signal::ImageFsAvailable), None);
        assert!(places.disks().images_apart);
    }
}
