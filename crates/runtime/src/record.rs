//! Small JSON files that are either wholly there or not at all, and where they lie.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stdx::Time;

use contract::QosClass;
use contract::stamp;
use contract::{ContainerSpec, SandboxSpec};

/// Bytes read of a record: specs are bounded by the API's own limit of 3 MiB an object.
const RECORD_BYTES_MAX: u64 = 8 << 20;

/// The sandbox record, `sandbox.json`. Its directory appears together with it, and an address is taken exactly as
/// long as a record of a sandbox that was not stopped names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) id: String,
    pub(crate) spec: SandboxSpec,
    #[serde(with = "stamp")]
    pub(crate) created_at: Time,
    pub(crate) cgroup_root: String,
    pub(crate) logs: PathBuf,
    pub(crate) net: Option<NetRecord>,
}

/// How the sandbox is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NetRecord {
    pub(crate) bridge: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix: u8,
    pub(crate) gateway: Ipv4Addr,
    pub(crate) mtu: u32,
}

impl SandboxRecord {
    /// The pod's cgroup, relative to the hierarchy.
    pub(crate) fn pod_cgroup(&self) -> String {
        let class = match self.spec.qos {
            QosClass::Guaranteed => "",
            QosClass::Burstable => "burstable/",
            QosClass::BestEffort => "besteffort/",
        };
        format!("{}/{class}pod{}", self.cgroup_root, self.spec.meta.uid)
    }

    /// The host's end of the pair; interface names hold 15 bytes.
    pub(crate) fn host_interface(&self) -> String {
        contract::host_interface(&self.id)
    }

    /// The directory of a container's logs.
    pub(crate) fn log_path(&self, spec: &ContainerSpec) -> PathBuf {
        let meta = &self.spec.meta;
        let pod = format!("{}_{}_{}", meta.namespace, meta.name, meta.uid);
        self.logs.join(pod).join(&spec.name).join(format!("{}.log", spec.attempt))
    }
}

/// The container record, `container.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) id: String,
    pub(crate) spec: ContainerSpec,
    #[serde(with = "stamp")]
    pub(crate) created_at: Time,
}

/// `started.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    pub(crate) pid: i32,
    #[serde(with = "stamp")]
    pub(crate) at: Time,
}

pub(crate) const SANDBOX: &str = "sandbox.json";
pub(crate) const CONTAINER: &str = "container.json";
pub(crate) const STARTED: &str = "started.json";
pub(crate) const EXIT: &str = "exit.json";
pub(crate) const STOPPED: &str = "stopped";
pub(crate) const LOCK: &str = "lock";
pub(crate) const SOCKET: &str = "shim.sock";
pub(crate) const SHIM_PID: &str = "shim.pid";

/// The directory of a container.
pub(crate) fn container_dir(sandbox: &Path, container: &str) -> PathBuf {
    sandbox.join("containers").join(container)
}

/// Reads a record.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let file = File::open(path)?;
    Ok(serde_json::from_reader(io::BufReader::new(io::Read::take(file, RECORD_BYTES_MAX)))?)
}

/// Room set aside for a record: what it takes unless its message is long.
const RESERVED_BYTES: u64 = 4 << 10;

/// Sets room aside for a record that has to be written even if the disk is full by then.
pub(crate) fn reserve(path: &Path) -> io::Result<()> {
    let file = File::create(path.with_extension("tmp"))?;
    // A file system that cannot do this writes the record like any other.
    let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVED_BYTES);
    Ok(())
}

/// Writes a record so that it appears whole; `durable` also survives a loss of power.
pub(crate) fn write(path: &Path, record: &impl Serialize, durable: bool) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let bytes = serde_json::to_vec(record)?;
    // Not cut before it is written: the room may have been set aside.
    let mut file = File::options().create(true).truncate(false).write(true).open(&temporary)?;
    file.write_all(&bytes)?;
    file.set_len(bytes.len() as u64)?;
    if durable {
        file.sync_data()?;
    }
    fs::rename(&temporary, path)?;
    if durable && let Some(parent) = path.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Removes a tree that may already be gone.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_replaces_what_was_longer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("exit.json");
        reserve(&path).unwrap();
        for text in ["a long record", "short", ""] {
            write(&path, &text, true).unwrap();
            assert_eq!(read::<String>(&path).unwrap(), text);
            assert!(!path.with_extension("tmp").exists());
        }
    }

    /// On a disk of its own.
    #[test]
    fn what_has_room_set_aside_is_written_on_a_full_disk() {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        if !rustix::process::geteuid().is_root()
            || mount("tmpfs", root, "tmpfs", MountFlags::empty(), c"size=256k").is_err()
        {
            println!("skipped: needs root");
            return;
        }
        let (reserved, other) = (root.join("reserved.json"), root.join("other.json"));
        let kept = reserve(&reserved);
        let mut fill = File::create(root.join("fill")).unwrap();
        while fill.write_all(&[1; 4096]).is_ok() {}
        let written = write(&reserved, &"137", true);
        let refused = write(&other, &"137", true);
        let found = read::<String>(&reserved);
        drop(fill);
        unmount(root, UnmountFlags::DETACH).unwrap();
        kept.unwrap();
        written.unwrap();
        assert_eq!((found.unwrap(), refused.is_err()), ("137".to_owned(), true));
    }
}
