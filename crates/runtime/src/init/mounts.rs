//! The mounts of a container. Sources are opened as detached trees while the host's mounts are in sight, targets
//! within the root by `openat2`; both are joined by descriptor, so that no path is looked at twice.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use super::{Doing, Failure, Launch, Outcome};
use crate::sys;
use contract::{ContainerSpec, Mount, MountSource, Propagation};

/// A detached tree and the mount it is for.
pub(super) struct Source {
    mount: Mount,
    tree: OwnedFd,
    is_dir: bool,
}

/// Opens all sources but images, which need a mount namespace of their own.
pub(super) fn open_sources(plan: &Launch<'_>) -> Outcome<Vec<Source>> {
    let spec = &plan.record.spec;
    let mut sources = Vec::with_capacity(spec.mounts.len() + 3);
    for (file, target) in [("hosts", "/etc/hosts"), ("hostname", "/etc/hostname"), ("resolv.conf", "/etc/resolv.conf")]
    {
        let given = spec.mounts.iter().any(|mount| mount.container_path.trim_end_matches('/') == target);
        if !given {
            sources.push(open_source(&own_file(plan.sandbox_dir, file, target, spec.security.readonly_root))?);
        }
    }
    for mount in spec.mounts.iter().filter(|mount| !matches!(mount.source, MountSource::Image { .. })) {
        sources.push(open_source(mount)?);
    }
    Ok(sources)
}

/// Opens the images that are mounted, in the container's mount namespace: a part of one can be taken only of what is
/// mounted somewhere.
pub(super) fn open_images(plan: &Launch<'_>) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    for (at, mount) in plan.record.spec.mounts.iter().enumerate() {
        let MountSource::Image { lower_dirs, sub_path, .. } = &mount.source else { continue };
        let place = plan.dir.join(format!("image-{at}"));
        let opened = image_tree(lower_dirs).and_then(|tree| part_of(tree, &place, sub_path));
        let (tree, is_dir) =
            opened.map_err(|e| Failure::new(format!("mount {:?}: {}", mount.container_path, e.message)))?;
        sources.push(Source { mount: mount.clone(), tree, is_dir });
    }
    Ok(sources)
}

/// Layers as one tree that nobody writes to and nothing is executed in.
fn image_tree(layers: &[PathBuf]) -> Outcome<OwnedFd> {
    let attributes =
        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    match layers {
        [] => Err(Failure::new("the image has no layers")),
        // An overlay of one layer needs another to write to.
        [layer] => {
            let what = format!("open {}", layer.display());
            let layer = rustix::fs::open(layer, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).doing(&what)?;
            let tree = clone_tree(layer.as_fd(), "").doing("open_tree")?;
            sys::mount_setattr(tree.as_fd(), true, attributes, 0, 0).doing("make read-only")?;
            Ok(tree)
        }
        layers => {
            let names: Vec<String> = layers.iter().map(|layer| layer.display().to_string()).collect();
            let one_by_one = names.iter().map(|name| ("lowerdir+", name.as_str()));
            let options: Vec<(&str, &str)> = [("source", "overlay")].into_iter().chain(one_by_one).collect();
            file_system("overlay", &options, attributes).or_else(|_| {
                // Before Linux 6.5 layers cannot be given one by one.
                let joined = joined_layers(&names);
                file_system("overlay", &[("source", "overlay"), ("lowerdir", &joined)], attributes)
            })
        }
    }
}

/// Layers as one option of an overlay.
pub(super) fn joined_layers(layers: &[String]) -> String {
    let escaped = layers.iter().map(|layer| escape(layer));
    escaped.collect::<Vec<_>>().join(":")
}

/// A path as an option of an overlay has it.
pub(super) fn escape(path: &str) -> String {
    path.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,")
}

/// A file or directory of a tree, which is mounted at `place` for that; never anything outside it.
fn part_of(tree: OwnedFd, place: &Path, sub_path: &str) -> Outcome<(OwnedFd, bool)> {
    if sub_path.is_empty() {
        return Ok((tree, true));
    }
    std::fs::create_dir_all(place).doing(&format!("make {}", place.display()))?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&tree, "", CWD, place, flags).doing("mount the image")?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let part = rustix::fs::openat2(&tree, sub_path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)
        .doing(&format!("subPath {sub_path:?} of the image"))?;
    let is_dir = is_dir(part.as_fd())?;
    Ok((clone_tree(part.as_fd(), "").doing("open_tree")?, is_dir))
}

fn own_file(dir: &Path, file: &str, target: &str, readonly: bool) -> Mount {
    Mount {
        container_path: target.to_owned(),
        source: MountSource::Host { path: dir.join(file), sub_path: String::new() },
        readonly,
        recursive_readonly: false,
        propagation: Propagation::Private,
    }
}

fn open_source(mount: &Mount) -> Outcome<Source> {
    let fail = |e: Failure| Failure::new(format!("mount {:?}: {}", mount.container_path, e.message));
    let (tree, is_dir) = match &mount.source {
        MountSource::Host { path, sub_path } => clone_host_tree(path, sub_path).map_err(fail)?,
        MountSource::Tmpfs { size_bytes, mode } => (tmpfs(*size_bytes, *mode, 0).map_err(fail)?, true),
        MountSource::Image { .. } => return Err(fail(Failure::new("images are opened later"))),
    };
    set_attributes(mount, &tree).map_err(fail)?;
    Ok(Source { mount: mount.clone(), tree, is_dir })
}

fn clone_host_tree(path: &Path, sub_path: &str) -> Outcome<(OwnedFd, bool)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mut source = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) if sub_path.is_empty() => {
            std::fs::create_dir_all(path).doing(&format!("make {}", path.display()))?;
            rustix::fs::open(path, flags, Mode::empty())
        }
        other => other,
    }
    .doing(&format!("open {}", path.display()))?;
    if !sub_path.is_empty() {
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        source = walk(source.as_fd(), sub_path, how, Leaf::Dir).doing(&format!("subPath {sub_path:?}"))?;
    }
    let is_dir = is_dir(source.as_fd())?;
    Ok((clone_tree(source.as_fd(), "").doing("open_tree")?, is_dir))
}

pub(super) fn is_dir(fd: BorrowedFd<'_>) -> Outcome<bool> {
    let stat = rustix::fs::fstat(fd).doing("fstat")?;
    Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// A detached copy of the mounts at `path` below `dir` (at `dir` itself when empty).
pub(super) fn clone_tree(dir: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    flags |= if path.is_empty() { OpenTreeFlags::AT_EMPTY_PATH } else { OpenTreeFlags::AT_SYMLINK_NOFOLLOW };
    rustix::mount::open_tree(dir, path, flags)
}

fn set_attributes(mount: &Mount, tree: &OwnedFd) -> Outcome<()> {
    let propagation = match mount.propagation {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::HostToContainer => libc::MS_SLAVE,
        Propagation::Bidirectional => libc::MS_SHARED,
    };
    sys::mount_setattr(tree.as_fd(), true, 0, 0, propagation).doing("set the propagation")?;
    if mount.readonly {
        let recursive = mount.recursive_readonly;
        sys::mount_setattr(tree.as_fd(), recursive, libc::MOUNT_ATTR_RDONLY, 0, 0).doing("make read-only")?;
    }
    Ok(())
}

/// A new file system in memory, not yet anywhere. `attributes` are added to nosuid and nodev.
pub(super) fn tmpfs(size_bytes: u64, mode: u32, attributes: u64) -> Outcome<OwnedFd> {
    let mode = format!("{mode:o}");
    let size = size_bytes.to_string();
    let mut options = vec![("source", "tmpfs"), ("mode", mode.as_str())];
    if size_bytes > 0 {
        options.push(("size", size.as_str()));
    }
    file_system("tmpfs", &options, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | attributes)
}

/// A new instance of a file system, not yet anywhere. An option with an empty value is a flag.
pub(super) fn file_system(kind: &str, options: &[(&str, &str)], attributes: u64) -> Outcome<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
    let what = format!("mount {kind}");
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).doing(&what)?;
    for (key, value) in options {
        match *value {
            "" => rustix::mount::fsconfig_set_flag(context.as_fd(), *key),
            value => rustix::mount::fsconfig_set_string(context.as_fd(), *key, value),
        }
        .doing(&format!("{what}: option {key}"))?;
    }
    rustix::mount::fsconfig_create(context.as_fd()).doing(&what)?;
    let attributes = MountAttrFlags::from_bits_retain(u32::try_from(attributes).unwrap_or(0));
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).doing(&what)
}

/// Puts every source at its target below `root`, those with the shortest targets first, making targets that are missing.
pub(super) fn attach(spec: &ContainerSpec, root: BorrowedFd<'_>, mut sources: Vec<Source>) -> Outcome<()> {
    debug_assert!(sources.len() >= spec.mounts.len());
    sources.sort_by_key(|source| components(&source.mount.container_path).count());
    for source in sources {
        let path = &source.mount.container_path;
        let leaf = if source.is_dir { Leaf::Dir } else { Leaf::File };
        let what = format!("mount {path:?}");
        let target = walk(root, path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS, leaf).doing(&what)?;
        place(&source.tree, &target).doing(&what)?;
    }
    Ok(())
}

/// Puts a detached tree onto what `target` is.
pub(super) fn place(tree: &OwnedFd, target: &OwnedFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", target, "", flags)
}

/// What to make of the last part of a path when it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Dir,
    File,
}

/// The parts of a path that mean something.
fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// Opens `path` below `root`, making what is missing; never leaves `root`, whatever links lie on the way and
/// whoever changes them meanwhile.
pub(super) fn walk(root: BorrowedFd<'_>, path: &str, how: ResolveFlags, leaf: Leaf) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open =
        |path: &str| rustix::fs::openat2(root, if path.is_empty() { "." } else { path }, flags, Mode::empty(), how);
    let parts: Vec<&str> = components(path).collect();
    if parts.contains(&"..") {
        return Err(Errno::INVAL);
    }
    let whole = parts.join("/");
    match open(&whole) {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    let mut parent = open("")?;
    for (at, part) in parts.iter().enumerate() {
        let here = parts[..=at].join("/");
        parent = match open(&here) {
            Err(Errno::NOENT) => {
                let last = at + 1 == parts.len();
                make(&parent, part, if last { leaf } else { Leaf::Dir })?;
                open(&here)?
            }
            other => other?,
        };
    }
    Ok(parent)
}

fn make(parent: &OwnedFd, name: &str, leaf: Leaf) -> rustix::io::Result<()> {
    let made = match leaf {
        Leaf::Dir => rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)),
        Leaf::File => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
            rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)).map(drop)
        }
    };
    match made {
        // Somebody else was faster, which is as good; a dangling link fails when it is opened.
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn walking_never_leaves_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        std::fs::create_dir_all(root.join("real")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink(&outside, root.join("absolute")).unwrap();
        symlink("../outside", root.join("up")).unwrap();
        let fd = rustix::fs::open(&root, OFlags::PATH, Mode::empty()).unwrap();
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let as_root = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        for (path, how, expected) in [
            ("a/b/c", within, Ok(())),
            ("link/x", within, Ok(())),
            ("absolute/x", within, Err(Errno::XDEV)),
            ("up/x", within, Err(Errno::XDEV)),
            ("../outside", within, Err(Errno::INVAL)),
            ("/up/y", as_root, Err(Errno::NOENT)),
        ] {
            assert_eq!(walk(fd.as_fd(), path, how, Leaf::Dir).map(drop), expected, "{path}");
        }
        assert!(root.join("a/b/c").is_dir() && root.join("real/x").is_dir());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
