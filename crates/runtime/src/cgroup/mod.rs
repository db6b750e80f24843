//! Control groups on hosts of either version, by one path relative to the hierarchies.

mod device_filter;
mod stats;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use device_filter::DeviceRule;

use contract::{Resources, Stats};

/// How often a dying cgroup is looked at again before giving up: 2 s in steps of 2 ms. The kernel tells nobody when
/// the last process of a version 1 cgroup has gone.
const REMOVE_TRIES: u32 = 1000;
const REMOVE_PAUSE_MS: u64 = 2;

/// The hierarchies of this host.
#[derive(Clone, Debug)]
pub(crate) enum Hierarchies {
    /// Controller to mount point. Controllers mounted together share one.
    V1(BTreeMap<String, PathBuf>),
    V2(PathBuf),
}

/// The controllers used, where the host has them.
const CONTROLLERS: [&str; 8] = ["cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer", "hugetlb"];

impl Hierarchies {
    /// Finds out from the mount table; version 2 when `/sys/fs/cgroup` itself is one.
    pub(crate) fn detect() -> io::Result<Hierarchies> {
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        Hierarchies::from_mountinfo(&table)
            .ok_or_else(|| io::Error::other("no control group hierarchy is mounted below /sys/fs/cgroup"))
    }

    fn from_mountinfo(table: &str) -> Option<Hierarchies> {
        let mut v1 = BTreeMap::new();
        for line in table.lines() {
            let (left, right) = line.split_once(" - ")?;
            let point = left.split(' ').nth(4)?;
            let mut right = right.split(' ');
            match (right.next()?, right.nth(1)) {
                ("cgroup2", _) if point == "/sys/fs/cgroup" => return Some(Hierarchies::V2(point.into())),
                ("cgroup", Some(options)) => {
                    for name in options.split(',').filter(|name| CONTROLLERS.contains(name)) {
                        v1.entry(name.to_owned()).or_insert_with(|| PathBuf::from(point));
                    }
                }
                _ => {}
            }
        }
        // Without these two neither limits nor removal work.
        (v1.contains_key("memory") && v1.contains_key("freezer")).then_some(Hierarchies::V1(v1))
    }

    /// The group at `path` (`setpoint/burstable/pod…`), which need not exist.
    pub(crate) fn group(&self, path: &str) -> Group {
        Group { hierarchies: self.clone(), path: path.to_owned() }
    }
}

/// One control group in all hierarchies.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    hierarchies: Hierarchies,
    path: String,
}

impl Group {
    /// The directories of the group, each once.
    fn dirs(&self) -> Vec<PathBuf> {
        match &self.hierarchies {
            Hierarchies::V2(root) => vec![root.join(&self.path)],
            Hierarchies::V1(mounts) => {
                let mut dirs: Vec<PathBuf> = mounts.values().map(|root| root.join(&self.path)).collect();
                dirs.sort();
                dirs.dedup();
                dirs
            }
        }
    }

    /// The directory through which processes are counted and killed.
    fn kill_dir(&self) -> PathBuf {
        match &self.hierarchies {
            Hierarchies::V2(root) => root.join(&self.path),
            Hierarchies::V1(mounts) => mounts.get("freezer").map(|root| root.join(&self.path)).unwrap_or_default(),
        }
    }

    /// The group below this one.
    pub(crate) fn child(&self, name: &str) -> Group {
        Group { hierarchies: self.hierarchies.clone(), path: format!("{}/{name}", self.path) }
    }

    /// Makes the group and its parents, with all controllers enabled on the way.
    pub(crate) fn create(&self) -> io::Result<()> {
        match &self.hierarchies {
            Hierarchies::V1(mounts) => v1::create(mounts, &self.path),
            Hierarchies::V2(root) => v2::create(root, &self.path),
        }
    }

    /// Whether it is there in every hierarchy.
    pub(crate) fn exists(&self) -> bool {
        self.dirs().iter().all(|dir| dir.is_dir())
    }

    /// Sets the limits that `resources` names.
    pub(crate) fn apply(&self, resources: &Resources) -> io::Result<()> {
        match &self.hierarchies {
            Hierarchies::V1(mounts) => v1::apply(mounts, &self.path, resources),
            Hierarchies::V2(root) => v2::apply(&root.join(&self.path), resources),
        }
    }

    /// A memory death takes the whole group (version 2 only).
    pub(crate) fn die_together(&self) -> io::Result<()> {
        match &self.hierarchies {
            Hierarchies::V2(root) => optional_write(&root.join(&self.path).join("memory.oom.group"), "1"),
            Hierarchies::V1(_) => Ok(()),
        }
    }

    /// Allows the devices of `rules` only.
    pub(crate) fn restrict_devices(&self, rules: &[DeviceRule]) -> io::Result<()> {
        match &self.hierarchies {
            Hierarchies::V1(mounts) => v1::restrict_devices(mounts, &self.path, rules),
            Hierarchies::V2(root) => device_filter::attach(&root.join(&self.path), rules),
        }
    }

    /// Moves a process into the group; 0 is the caller.
    pub(crate) fn join(&self, pid: i32) -> io::Result<()> {
        self.dirs().iter().try_for_each(|dir| write(&dir.join("cgroup.procs"), &pid.to_string()))
    }

    /// Moves the caller into the sub-group `name` made for killing only: limits stay those of this group.
    pub(crate) fn join_for_killing(&self, name: &str) -> io::Result<()> {
        let dir = self.kill_dir().join(name);
        make_dir(&dir)?;
        self.join(0)?;
        write(&dir.join("cgroup.procs"), "0")
    }

    /// Removes the sub-group `name` if all its processes have gone; otherwise it stays until the group goes.
    pub(crate) fn forget_sub_group(&self, name: &str) {
        let _ = fs::remove_dir(self.kill_dir().join(name));
    }

    /// Kills everything in the group and below it. Processes that are made meanwhile die as well.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let dir = self.kill_dir();
        if !dir.exists() {
            return Ok(());
        }
        match &self.hierarchies {
            Hierarchies::V1(_) => v1::kill(&dir),
            Hierarchies::V2(_) => v2::kill(&dir),
        }
    }

    /// Kills everything in the group, waits for it to go, and removes the group. A group that is gone is no error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.kill()?;
        for dir in self.dirs() {
            remove_dir_patiently(&dir)?;
        }
        Ok(())
    }

    /// Removes the group if nothing is in it any more.
    pub(crate) fn remove_if_empty(&self) {
        for dir in self.dirs() {
            // Still in use by another sandbox of the pod, or already gone: both are fine.
            let _ = fs::remove_dir(&dir);
        }
    }

    /// How many processes of the group the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        let (file, dir) = match &self.hierarchies {
            Hierarchies::V1(mounts) => ("memory.oom_control", mounts.get("memory").map(|root| root.join(&self.path))),
            Hierarchies::V2(root) => ("memory.events", Some(root.join(&self.path))),
        };
        dir.and_then(|dir| stats::field(&dir.join(file), "oom_kill")).unwrap_or(0)
    }

    /// What the group uses.
    pub(crate) fn stats(&self) -> Stats {
        match &self.hierarchies {
            Hierarchies::V1(mounts) => stats::v1(mounts, &self.path),
            Hierarchies::V2(root) => stats::v2(&root.join(&self.path)),
        }
    }
}

/// Removes a cgroup directory and those below it, waiting for killed processes to be gone.
fn remove_dir_patiently(dir: &Path) -> io::Result<()> {
    for name in fs::read_dir(dir).into_iter().flatten().flatten() {
        if name.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_dir_patiently(&name.path())?;
        }
    }
    let mut tries = 0;
    loop {
        match fs::remove_dir(dir) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && tries < REMOVE_TRIES => tries += 1,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other.map_err(named(dir)),
        }
        pause();
    }
}

/// The wait between two looks at a dying cgroup.
fn pause() {
    let pause = rustix::fs::Timespec { tv_sec: 0, tv_nsec: (REMOVE_PAUSE_MS * 1_000_000).cast_signed() };
    let _ = rustix::event::poll(&mut [], Some(&pause));
}

/// All processes in `dir` and below it.
fn processes(dir: &Path) -> io::Result<Vec<i32>> {
    let text = match fs::read_to_string(dir.join("cgroup.procs")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV) => return Ok(vec![]),
        other => other?,
    };
    let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&entry.path())?);
        }
    }
    Ok(pids)
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(named(dir)),
    }
}

/// Control files are opened for writing only: creating or cutting them is refused.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(named(path))?;
    io::Write::write_all(&mut file, text.as_bytes()).map_err(named(path))
}

/// A write to a file that not every kernel has.
fn optional_write(path: &Path, text: &str) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).open(path) {
        Ok(_) => write(path, text),
        Err(_) => Ok(()),
    }
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.display().to_string();
    move |source| io::Error::new(source.kind(), format!("{path}: {source}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        let unified = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(matches!(Hierarchies::from_mountinfo(unified), Some(Hierarchies::V2(_))));
        let hybrid = "30 1 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 1 0:26 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      33 1 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 1 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let Some(Hierarchies::V1(mounts)) = Hierarchies::from_mountinfo(hybrid) else { panic!("not version 1") };
        assert_eq!(mounts["cpuacct"], Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(Hierarchies::from_mountinfo("1 0 0:1 / /proc rw - proc proc rw\n").is_none());
    }

    /// Without controllers too, a version 2 group kills and goes.
    #[test]
    fn version_2_groups_are_killed_and_removed() {
        use std::os::unix::process::ExitStatusExt;
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let root = roots.into_iter().find(|root| root.join("cgroup.controllers").exists());
        let Some(root) = root.filter(|_| rustix::process::geteuid().is_root()) else {
            println!("skipped: needs root and a cgroup2 mount");
            return;
        };
        let name = format!("sptest-v2-{}", std::process::id());
        let group = Hierarchies::V2(root).group(&format!("{name}/pod/one"));
        group.create().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        group.join(child.id().cast_signed()).unwrap();
        assert_eq!(processes(&group.kill_dir()).unwrap(), vec![child.id().cast_signed()]);
        group.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        group.remove().unwrap();
        group.remove().unwrap();
        for path in [format!("{name}/pod"), name] {
            let above = group.hierarchies.group(&path);
            above.remove_if_empty();
            assert!(!above.kill_dir().exists());
        }
    }
}
