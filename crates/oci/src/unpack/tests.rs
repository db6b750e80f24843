//! Layers of all kinds, good and hostile. Needs root, as unpacking does.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::*;
use crate::fixture::Layer;

struct Bench {
    root: tempfile::TempDir,
    lower: Vec<PathBuf>,
}

impl Bench {
    fn new() -> Bench {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("lower")).unwrap();
        std::fs::create_dir(root.path().join("upper")).unwrap();
        std::fs::write(root.path().join("outside"), "outside").unwrap();
        let lower = vec![root.path().join("lower")];
        Bench { root, lower }
    }

    fn unpack(&self, layer: Layer) -> Result<Unpacked, ImageError> {
        let limits = Limits { entries_max: 50, ..Limits::default() };
        unpack("layer", layer.done().as_slice(), &self.at(""), &self.lower, &limits, 1 << 20)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join("upper").join(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.at(path)).ok()
    }

    fn is_untouched(&self) -> bool {
        let mut names: Vec<_> = std::fs::read_dir(self.root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        let outside = self.root.path().join("outside");
        names == ["lower", "outside", "upper"]
            && std::fs::read_to_string(&outside).unwrap() == "outside"
            && std::fs::metadata(&outside).unwrap().nlink() == 1
            && std::fs::read_dir(self.root.path().join("lower")).unwrap().next().is_none()
    }
}

fn is_whiteout(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device() && found.rdev() == 0)
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 256];
    let count = rustix::fs::lgetxattr(path, name, &mut buffer[..]).ok()?;
    buffer.truncate(count);
    Some(buffer)
}

#[test]
fn everything_that_a_file_has_is_kept() {
    let bench = Bench::new();
    let capability: &[u8] = &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let layer = Layer::new()
        .dir("./", 0o711)
        .dir("d", 0o1777)
        .file_as("d/s", 0o4755, 10, 20)
        .pax(&[("SCHILY.xattr.security.capability", capability), ("SCHILY.xattr.trusted.overlay.redirect", b"/x")])
        .file_as("d/c", 0o755, 30, 40)
        .hardlink("d/h", "/d/s")
        .symlink("d/l", "../../../outside")
        .device(tar::EntryType::Char, "null", 1, 3)
        .device(tar::EntryType::Block, "disk", 8, 0)
        .device(tar::EntryType::Fifo, "pipe", 0, 0)
        .file("a/b/f", "implied");
    bench.unpack(layer).unwrap();
    let found = |path: &str| std::fs::symlink_metadata(bench.at(path)).unwrap();
    let shape = |path: &str| (found(path).mode() & 0o7777, found(path).uid(), found(path).gid(), found(path).mtime());
    assert_eq!(shape(""), (0o711, 0, 0, 1_000_000_000));
    assert_eq!(shape("d"), (0o1777, 0, 0, 1_000_000_000));
    assert_eq!(shape("d/s"), (0o4755, 10, 20, 1_000_000_000));
    assert_eq!(shape("d/l").3, 1_000_000_000);
    assert_eq!(found("a/b").mode() & 0o7777, 0o755);
    assert_eq!((found("d/s").nlink(), found("d/s").ino()), (2, found("d/h").ino()));
    assert_eq!(attribute(&bench.at("d/c"), "security.capability").as_deref(), Some(capability));
    assert_eq!(attribute(&bench.at("d/c"), "trusted.overlay.redirect"), None);
    assert_eq!(std::fs::read_link(bench.at("d/l")).unwrap(), Path::new("../../../outside"));
    assert_eq!((found("null").rdev(), found("null").mode() & 0o7777), (rustix::fs::makedev(1, 3), 0o640));
    assert!(found("null").file_type().is_char_device() && found("disk").file_type().is_block_device());
    assert!(found("pipe").file_type().is_fifo());
}

#[test]
fn absences_take_overlayfs_form() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.lower[0].join("etc")).unwrap();
    std::os::unix::fs::chown(bench.lower[0].join("etc"), Some(7), Some(8)).unwrap();
    let layer = Layer::new()
        .file("etc/.wh.gone", "")
        .dir("opaque", 0o755)
        .file("opaque/.wh..wh..opq", "")
        .file(".wh..wh.plnk", "")
        .file("both", "both")
        .file(".wh.both", "")
        .dir("tree", 0o755)
        .file(".wh.tree", "")
        .file(".wh.late", "")
        .dir("late", 0o755)
        .file(".wh.turn", "")
        .file("turn", "turn");
    bench.unpack(layer).unwrap();
    assert!(is_whiteout(&bench.at("etc/gone")));
    // The directory had no entry: it looks as below.
    let etc = std::fs::metadata(bench.at("etc")).unwrap();
    assert_eq!((etc.uid(), etc.gid()), (7, 8));
    for opaque in ["opaque", "tree", "late"] {
        assert_eq!(attribute(&bench.at(opaque), "trusted.overlay.opaque").as_deref(), Some(&b"y"[..]), "{opaque}");
    }
    assert_eq!((bench.text("both").as_deref(), bench.text("turn").as_deref()), (Some("both"), Some("turn")));
    assert!(
        std::fs::read_dir(bench.at("")).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().contains(".wh"))
    );
}

#[test]
fn the_lowest_layer_has_nothing_to_hide() {
    let mut bench = Bench::new();
    bench.lower.clear();
    bench.unpack(Layer::new().file(".wh.a", "").file("d/.wh..wh..opq", "").file("f", "f")).unwrap();
    assert!(!is_whiteout(&bench.at("a")) && !bench.at("d").exists());
    assert_eq!(bench.text("f").as_deref(), Some("f"));
}

#[test]
fn later_entries_replace_earlier_ones() {
    let bench = Bench::new();
    let layer = Layer::new()
        .file("f", "1")
        .file("f", "2")
        .file("d/x", "x")
        .file("d", "now a file")
        .file("e", "file")
        .dir("e", 0o700)
        .file("e/y", "y")
        .dir("e", 0o750)
        .symlink("s", "f")
        .file("s", "no link")
        .symlink("way", "f")
        .dir("way", 0o755);
    bench.unpack(layer).unwrap();
    let check = |path: &str, expected: &str| assert_eq!(bench.text(path).as_deref(), Some(expected), "{path}");
    check("f", "2");
    check("d", "now a file");
    check("e/y", "y");
    check("s", "no link");
    assert_eq!(std::fs::metadata(bench.at("e")).unwrap().mode() & 0o777, 0o750);
    assert!(std::fs::symlink_metadata(bench.at("way")).unwrap().is_dir());
}

#[test]
fn no_entry_gets_out() {
    let kept_in = |layer: Layer| {
        let bench = Bench::new();
        let _ = bench.unpack(layer);
        assert!(bench.is_untouched());
    };
    let refused = |layer: Layer, reason: &str| {
        let bench = Bench::new();
        let error = bench.unpack(layer).unwrap_err();
        assert!(matches!(error, ImageError::Damaged(_)) && error.to_string().contains(reason), "{error}");
        assert!(bench.is_untouched());
    };
    refused(Layer::new().file("../outside", "!"), "entry \"../outside\": its path leads out");
    refused(Layer::new().file("a/../../outside", "!"), "leads out");
    refused(Layer::new().hardlink("h", "../outside"), "leads out");
    refused(Layer::new().hardlink("h", "h"), "to itself");
    refused(Layer::new().hardlink("h", "nothing"), "which the layer does not have");
    refused(Layer::new().hardlink("h", "/"), "a hard link to the root");
    refused(Layer::new().dir("d", 0o755).hardlink("h", "d"), "a hard link to a directory");
    refused(Layer::new().file("d/f", "").hardlink("d", "d/f"), "which the layer does not have");
    refused(Layer::new().file(".", "!"), "the root is no directory");
    refused(Layer::new().symlink(".", "x"), "the root is no directory");
    refused(Layer::new().file(".wh..", ""), "hides nothing or too much");
    refused(Layer::new().file(".wh.", ""), "hides nothing or too much");
    refused(Layer::new().symlink("l", "gone").file("l/x", "!"), "a symbolic link to nothing");
    refused(Layer::new().symlink("l", "l").file("l/x", "!"), "a circle");
    refused(Layer::new().file("f", "f").file("f/x", "!"), "through what is no directory");
    refused(Layer::new().symlink("l", ""), "a symbolic link to nothing");
    refused(Layer::new().typed(b'S', "s"), "sparse entries are not supported");
    refused(Layer::new().typed(b'V', "v"), "unhandled tar header type 'V'");
    // Followed, but from the layer's own root.
    for target in ["/", "..", "../..", "/proc/self/root", "/proc/self/cwd"] {
        kept_in(Layer::new().symlink("l", target).file("l/outside", "!"));
        kept_in(Layer::new().symlink("l", target).hardlink("h", "l/outside"));
        kept_in(Layer::new().symlink("l", target).file("l/.wh.outside", ""));
        kept_in(Layer::new().symlink("l", target).file("l/.wh..wh..opq", ""));
        kept_in(Layer::new().dir("d", 0o755).file("d/f", "").symlink("d", target).file("d/outside", "!"));
        kept_in(Layer::new().symlink("l", target).dir("l/lower/x", 0o777).symlink("l/lower/y", "z"));
        kept_in(Layer::new().symlink("l", &format!("{target}/outside")).file("l", "!"));
        kept_in(Layer::new().symlink("l", &format!("{target}/outside")).hardlink("k", "l").file("k", "!"));
    }
}

#[test]
fn limits_hold() {
    let bench = Bench::new();
    let mut many = Layer::new();
    for n in 0..51 {
        many = many.file(&format!("f{n}"), "");
    }
    let too_large = |layer: Layer, reason: &str| {
        let error = bench.unpack(layer).unwrap_err();
        assert!(matches!(error, ImageError::TooLarge(_)) && error.to_string().contains(reason), "{error}");
    };
    too_large(many, "more than 50 entries");
    too_large(Layer::new().file("big", &"b".repeat(2 << 20)), "more than 1048576 bytes");
    too_large(Layer::new().pax(&[("path", "d/".repeat(201).as_bytes())]).file("x", ""), "more than 200 parts");
    // Deeper and deeper by way of links.
    let deep = "d/".repeat(150);
    let layer = Layer::new().pax(&[("path", deep.as_bytes())]).dir("x", 0o755).pax(&[("linkpath", deep.as_bytes())]);
    too_large(layer.symlink("l", "x").pax(&[("path", format!("l/{deep}/f").as_bytes())]).file("x", ""), "200 deep");
    too_large(Layer::new().pax(&[("path", "n".repeat(256).as_bytes())]).file("x", ""), "a name of more than");
    let cut =
        unpack("layer", &Layer::new().file("f", "abc").done()[..600], &bench.at(""), &[], &Limits::default(), 1 << 20);
    assert!(cut.unwrap_err().to_string().contains("cut off"));
}
