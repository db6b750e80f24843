//! What a node has left behind: processes, mounts, control groups, interfaces, namespaces, directories.

use std::path::{Path, PathBuf};

use super::own::{Own, entries, run, signal};

/// Everything of pods that is still there.
pub fn left(own: &Own) -> Vec<String> {
    let mut left = Vec::new();
    left.extend(processes(own).into_iter().map(|(pid, what)| format!("process {pid}: {what}")));
    left.extend(mounts(own));
    left.extend(cgroups(own).into_iter().filter(|dir| is_of_pod(dir)).map(|dir| format!("cgroup {}", dir.display())));
    left.extend(interfaces().into_iter().map(|name| format!("interface {name}")));
    left.extend(own.server().into_iter().flat_map(namespaces));
    for place in ["node/pods", "runtime/sandboxes", "logs", "images/tmp", "images/partial"] {
        let found = entries(&own.directory.join(place));
        left.extend(found.into_iter().map(|path| format!("path {}", path.display())));
    }
    left
}

/// What the server itself holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub descriptors: usize,
    pub threads: usize,
    pub memory_kib: usize,
}

pub fn held(pid: u32) -> Held {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("");
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    Held {
        descriptors: entries(Path::new(&format!("/proc/{pid}/fd"))).len(),
        threads: field("Threads:"),
        memory_kib: field("RssAnon:"),
    }
}

/// What each of the server's descriptors is.
pub fn descriptors(pid: u32) -> Vec<String> {
    let all = entries(Path::new(&format!("/proc/{pid}/fd")));
    all.iter().filter_map(|path| Some(std::fs::read_link(path).ok()?.display().to_string())).collect()
}

/// Shims and whatever is in the node's control groups; and children that the server has not collected.
fn processes(own: &Own) -> Vec<(u32, String)> {
    let sandboxes = own.directory.join("runtime/sandboxes").display().to_string();
    let mut found = Vec::new();
    for path in entries(Path::new("/proc")) {
        let Some(pid) = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else { continue };
        let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap_or_default();
        let (line, group, stat) = (read("cmdline").replace('\0', " "), read("cgroup"), read("stat"));
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let is_zombie = fields.first() == Some(&"Z");
        let is_own_child =
            own.server().is_some() && fields.get(1).and_then(|parent| parent.parse().ok()) == own.server();
        if is_zombie && is_own_child {
            found.push((pid, "a zombie".to_owned()));
        } else if !is_zombie && (line.contains(&sandboxes) || group.contains(&own.cgroup_root)) {
            found.push((pid, line));
        }
    }
    found
}

fn mounts(own: &Own) -> Vec<String> {
    let directory = own.directory.display().to_string();
    let tables = ["self".to_owned()].into_iter().chain(own.server().map(|pid| pid.to_string()));
    let mut found = Vec::new();
    for table in tables {
        let text = std::fs::read_to_string(format!("/proc/{table}/mountinfo")).unwrap_or_default();
        let of_pods = |line: &&str| {
            let point = line.split(' ').nth(4).unwrap_or("");
            point.starts_with(&directory) && ["/node/", "/runtime/", "/logs"].iter().any(|part| point.contains(part))
        };
        found.extend(text.lines().filter(of_pods).map(|line| format!("mount of {table}: {line}")));
    }
    found
}

/// All directories of the node's control groups, in every hierarchy.
fn cgroups(own: &Own) -> Vec<PathBuf> {
    let top = PathBuf::from("/sys/fs/cgroup");
    let mut pending: Vec<PathBuf> = entries(&top).into_iter().chain([top]).map(|r| r.join(&own.cgroup_root)).collect();
    let mut found = Vec::new();
    while let Some(dir) = pending.pop() {
        if dir.is_dir() {
            pending.extend(entries(&dir).into_iter().filter(|path| path.is_dir()));
            found.push(dir);
        }
    }
    found
}

fn is_of_pod(dir: &Path) -> bool {
    dir.components().any(|part| part.as_os_str().to_string_lossy().starts_with("pod"))
}

/// Hosts' ends of pairs in this network.
pub fn interfaces() -> Vec<String> {
    let text = run(&["ip", "-o", "link", "show", "type", "veth"]);
    text.lines().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned())).collect()
}

/// Network namespaces that the server holds open.
fn namespaces(pid: u32) -> Vec<String> {
    descriptors(pid).into_iter().filter(|what| what.starts_with("net:[")).collect()
}

/// Kills all shims and containers, and waits for their end.
pub fn kill_processes(own: &Own) {
    loop {
        let all = processes(own);
        if all.is_empty() {
            return;
        }
        all.iter().for_each(|(pid, _)| signal(*pid, rustix::process::Signal::KILL));
        super::pause(super::LOOK_EVERY);
    }
}

/// Ends whatever is left of a node whose server has ended, for the sake of the machine.
pub fn kill_all(own: &Own) {
    kill_processes(own);
    let directory = own.directory.display().to_string();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| point.starts_with(&directory));
    for point in points.collect::<Vec<_>>().into_iter().rev() {
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
    }
    let mut groups = cgroups(own);
    groups.sort_by_key(|dir| std::cmp::Reverse(dir.components().count()));
    for _ in 0..100 {
        groups.retain(|dir| dir.exists() && std::fs::remove_dir(dir).is_err());
        if groups.is_empty() {
            return;
        }
        super::pause(super::LOOK_EVERY);
    }
}

/// The bridge of the node's pods, of which a network namespace of a test has one.
pub fn bridge() -> Option<String> {
    let text = run(&["ip", "-o", "link", "show", "type", "bridge"]);
    let mut names = text.lines().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
    names.find(|name| name.starts_with("spt-"))
}
