//! The root file system: layers, the standard file systems and devices, and what of them is hidden.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountPropagationFlags, MoveMountFlags};

use super::mounts::{Leaf, clone_tree, escape, file_system, is_dir, joined_layers, place, tmpfs, walk};
use super::{Doing, Failure, Launch, Outcome};
use crate::cgroup::{DeviceRule, Hierarchies};
use crate::sys;
use contract::{ContainerSpec, Device, IpcMode};

const PLAIN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// Group `tty` in every distribution.
const TTY_GROUP: &str = "5";
/// 64 MiB, Docker's size of `/dev`.
const DEV_BYTES_MAX: u64 = 64 << 20;
/// How deep the host's `/dev` is copied for privileged containers: deeper than any device lies.
const DEV_DEPTH_MAX: u32 = 8;

/// Hidden, as Docker and containerd do.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Visible, not writable.
const READONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Mounts the sandbox's `/dev/shm` at `dir`, in a mount namespace of its own that the caller has just entered.
pub(crate) fn make_shm(dir: &Path, size_bytes: u64) -> Outcome<()> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    rustix::mount::mount_change("/", private).doing("make mounts private")?;
    let shm = tmpfs(size_bytes, 0o1777, libc::MOUNT_ATTR_NOEXEC)?;
    rustix::mount::move_mount(shm, "", CWD, dir, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing("mount /dev/shm")
}

/// A copy of the sandbox's `/dev/shm`, or of the host's.
pub(super) fn open_shm(plan: &Launch<'_>) -> Outcome<OwnedFd> {
    if plan.sandbox.spec.ipc == IpcMode::Node {
        return clone_tree(CWD, "/dev/shm").doing("open /dev/shm");
    }
    let held = plan.namespaces;
    sys::setns(held.mnt.as_fd(), libc::CLONE_NEWNS).doing("enter the sandbox's mounts")?;
    let tree = clone_tree(CWD, &held.shm.to_string_lossy()).doing("open /dev/shm");
    sys::setns(held.host_mnt.as_fd(), libc::CLONE_NEWNS).doing("return to the host's mounts")?;
    tree
}

/// Mounts the layers in the new mount namespace; the result is the root.
pub(super) fn mount_root(plan: &Launch<'_>) -> Outcome<OwnedFd> {
    // What is unmounted on the host goes here too; nothing mounted here is seen there.
    let slave = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    rustix::mount::mount_change("/", slave).doing("make mounts slaves")?;
    let layers: Vec<String> = plan.record.spec.root.lower_dirs.iter().map(|dir| dir.display().to_string()).collect();
    if layers.is_empty() {
        return Err(Failure::new("the image has no layers"));
    }
    let upper = plan.dir.join("upper").display().to_string();
    let work = plan.dir.join("work").display().to_string();
    let mut options = vec![("source", "overlay")];
    options.extend(layers.iter().map(|layer| ("lowerdir+", layer.as_str())));
    // Nothing of a container outlives a loss of power, so nothing of it needs flushing.
    options.extend([("upperdir", upper.as_str()), ("workdir", work.as_str()), ("volatile", "")]);
    let target = plan.dir.join("rootfs");
    match file_system("overlay", &options, 0) {
        Ok(root) => {
            let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(&root, "", CWD, &target, flags).doing("mount the root")?;
        }
        // Before Linux 6.5 layers cannot be given one by one.
        Err(_) => mount_joined(&layers, &upper, &work, &target)?,
    }
    rustix::fs::open(&target, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).doing("open the root")
}

fn mount_joined(layers: &[String], upper: &str, work: &str, target: &Path) -> Outcome<()> {
    let options = format!("lowerdir={},upperdir={},workdir={}", joined_layers(layers), escape(upper), escape(work));
    let options = std::ffi::CString::new(options).map_err(|_| Failure::new("a layer's path contains a NUL byte"))?;
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("overlay", target, "overlay", none, Some(options.as_c_str())).doing("mount the layers")
}

/// Opens a directory of the root for one of the standard file systems; links are refused.
fn standard(root: BorrowedFd<'_>, path: &str) -> Outcome<OwnedFd> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    walk(root, path, how, Leaf::Dir).doing(&format!("mount {path:?}"))
}

/// Mounts the standard file systems below `root`.
pub(super) fn fill(plan: &Launch<'_>, root: BorrowedFd<'_>, shm: OwnedFd) -> Outcome<()> {
    let spec = &plan.record.spec;
    rustix::process::umask(Mode::empty());
    let put = |fs: OwnedFd, path: &str| place(&fs, &standard(root, path)?).doing(&format!("mount {path:?}"));
    put(file_system("proc", &[("source", "proc")], PLAIN)?, "/proc")?;
    let sys_attributes = if spec.security.privileged { PLAIN } else { PLAIN | READ_ONLY };
    put(file_system("sysfs", &[("source", "sysfs")], sys_attributes)?, "/sys")?;
    fill_cgroups(root, sys_attributes)?;
    let dev_options = [("source", "tmpfs"), ("mode", "755"), ("size", &DEV_BYTES_MAX.to_string())];
    put(file_system("tmpfs", &dev_options, libc::MOUNT_ATTR_NOSUID)?, "/dev")?;
    let pts = [("source", "devpts"), ("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", TTY_GROUP)];
    put(file_system("devpts", &pts, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC)?, "/dev/pts")?;
    put(shm, "/dev/shm")?;
    put(file_system("mqueue", &[("source", "mqueue")], PLAIN)?, "/dev/mqueue")?;
    fill_devices(spec, &standard(root, "/dev")?)
}

/// The container's own control groups, to be read by programs that size themselves.
fn fill_cgroups(root: BorrowedFd<'_>, attributes: u64) -> Outcome<()> {
    let target = "/sys/fs/cgroup";
    match Hierarchies::detect().doing("find the control groups")? {
        Hierarchies::V2(_) => {
            let group = file_system("cgroup2", &[("source", "cgroup")], attributes)?;
            place(&group, &standard(root, target)?).doing("mount the control group")
        }
        Hierarchies::V1(mounts) => {
            let cover = tmpfs(0, 0o755, libc::MOUNT_ATTR_NOEXEC)?;
            place(&cover, &standard(root, target)?).doing("mount the control groups")?;
            for (controller, point) in &mounts {
                let Some(name) = point.file_name().and_then(|name| name.to_str()) else { continue };
                let options: Vec<(&str, &str)> = name.split(',').map(|part| (part, "")).collect();
                let options =
                    if name.contains(controller.as_str()) { options } else { vec![(controller.as_str(), "")] };
                let group = file_system("cgroup", &options, attributes)?;
                let place_at = standard(root, &format!("{target}/{name}"))?;
                place(&group, &place_at).doing(&format!("mount control group {name}"))?;
            }
            sys::mount_setattr(standard(root, target)?.as_fd(), false, READ_ONLY, 0, 0)
                .doing("protect the control groups")
        }
    }
}

fn fill_devices(spec: &ContainerSpec, dev: &OwnedFd) -> Outcome<()> {
    let nodes = [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
    for (name, major, minor) in nodes {
        let number = rustix::fs::makedev(major, minor);
        make_node(dev, name, FileType::CharacterDevice, 0o666, number)?;
    }
    let links = [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ];
    for (to, name) in links {
        rustix::fs::symlinkat(to, dev, name).doing(&format!("link /dev/{name}"))?;
    }
    if spec.tty {
        walk(dev.as_fd(), "console", ResolveFlags::BENEATH, Leaf::File).doing("make /dev/console")?;
    }
    if spec.security.privileged {
        return copy_devices(Path::new("/dev"), dev, 0);
    }
    for device in &spec.devices {
        let path = device.container_path.strip_prefix("/dev/").unwrap_or(&device.container_path);
        let (kind, number, mode) = node_of(&device.host_path)
            .ok_or_else(|| Failure::new(format!("{} is not a device", device.host_path.display())))?;
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = walk(dev.as_fd(), parent, ResolveFlags::BENEATH, Leaf::Dir).doing("make a device")?;
        make_node(&dir, name, kind, mode, number)?;
    }
    Ok(())
}

fn make_node(dir: &OwnedFd, name: &str, kind: FileType, mode: u32, number: u64) -> Outcome<()> {
    match rustix::fs::mknodat(dir, name, kind, Mode::from_raw_mode(mode), number) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        other => other.doing(&format!("make device {name}")),
    }
}

/// Kind, number and mode of a device of the host.
fn node_of(path: &Path) -> Option<(FileType, u64, u32)> {
    let meta = fs::metadata(path).ok()?;
    let kind = meta.file_type();
    let kind = match (kind.is_char_device(), kind.is_block_device()) {
        (true, _) => FileType::CharacterDevice,
        (_, true) => FileType::BlockDevice,
        _ => return None,
    };
    Some((kind, meta.rdev(), meta.mode() & 0o777))
}

/// The rule that lets a container use `device`.
pub(super) fn device_rule(device: &Device) -> Option<DeviceRule> {
    let (kind, number, _) = node_of(&device.host_path)?;
    let may = |letter| device.permissions.contains(letter);
    Some(DeviceRule {
        kind: if kind == FileType::BlockDevice { 'b' } else { 'c' },
        major: Some(rustix::fs::major(number)),
        minor: Some(rustix::fs::minor(number)),
        read: may('r'),
        write: may('w'),
        mknod: may('m'),
    })
}

/// All devices of the host, for privileged containers.
fn copy_devices(from: &Path, to: &OwnedFd, depth: u32) -> Outcome<()> {
    const OWN: [&str; 5] = ["pts", "shm", "mqueue", "console", "ptmx"];
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else { continue };
        if depth == 0 && OWN.contains(&name) {
            continue;
        }
        if kind.is_dir() && depth < DEV_DEPTH_MAX {
            let dir = walk(to.as_fd(), name, ResolveFlags::BENEATH, Leaf::Dir).doing("copy devices")?;
            copy_devices(&path, &dir, depth + 1)?;
        } else if (kind.is_char_device() || kind.is_block_device())
            && let Some((kind, number, mode)) = node_of(&path)
        {
            make_node(to, name, kind, mode, number)?;
        }
    }
    Ok(())
}

/// Makes the working directory where it is missing.
pub(super) fn make_working_dir(root: BorrowedFd<'_>, dir: &str) -> Outcome<()> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    walk(root, dir, how, Leaf::Dir).map(drop).doing(&format!("mkdir {dir:?}"))
}

/// Makes `root` the root; the old one goes.
pub(super) fn enter(root: BorrowedFd<'_>) -> Outcome<()> {
    rustix::process::fchdir(root).doing("fchdir to the root")?;
    rustix::process::pivot_root(".", ".").doing("pivot_root")?;
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH).doing("leave the old root")?;
    rustix::process::chdir("/").doing("chdir to the root")
}

/// Hides and protects what the spec says, within the new root.
pub(super) fn protect(spec: &ContainerSpec) -> Outcome<()> {
    if !spec.security.privileged && !spec.security.unmasked_proc {
        READONLY.iter().try_for_each(|path| make_readonly(path))?;
        MASKED.iter().try_for_each(|path| mask(path))?;
    }
    if spec.security.readonly_root {
        let root = open_path("/").ok_or_else(|| Failure::new("open the root"))?;
        sys::mount_setattr(root.as_fd(), false, READ_ONLY, 0, 0).doing("make the root read-only")?;
    }
    Ok(())
}

fn open_path(path: &str) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// What does not exist needs no protection.
fn make_readonly(path: &str) -> Outcome<()> {
    let Some(target) = open_path(path) else { return Ok(()) };
    let tree = clone_tree(target.as_fd(), "").doing(&format!("protect {path}"))?;
    sys::mount_setattr(tree.as_fd(), true, READ_ONLY, 0, 0).doing(&format!("protect {path}"))?;
    place(&tree, &target).doing(&format!("protect {path}"))
}

fn mask(path: &str) -> Outcome<()> {
    let Some(target) = open_path(path) else { return Ok(()) };
    let cover = if is_dir(target.as_fd())? { tmpfs(0, 0o755, READ_ONLY)? } else { null_tree()? };
    place(&cover, &target).doing(&format!("mask {path}"))
}

/// The null device as a tree; checked, for the spec may have mounted something else there.
fn null_tree() -> Outcome<OwnedFd> {
    let null = open_path("/dev/null").ok_or_else(|| Failure::new("open /dev/null"))?;
    let stat = rustix::fs::fstat(&null).doing("stat /dev/null")?;
    if stat.st_rdev != rustix::fs::makedev(1, 3) {
        return Err(Failure::new("/dev/null is not the null device"));
    }
    clone_tree(null.as_fd(), "").doing("open /dev/null")
}

/// Where the sandbox's `/dev/shm` is mounted in its own mount namespace.
pub(crate) fn shm_point(sandbox: &Path) -> PathBuf {
    sandbox.join("shm")
}
