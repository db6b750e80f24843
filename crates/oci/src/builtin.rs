//! The image that needs no registry: this very program in a root file system of its own.
//!
//! The program is linked against the C library, so what it needs is brought along: the shared objects mapped into the
//! running process, which are by definition those that it works with. They are laid where every C library looks: in
//! `/lib`, in the directory of the interpreter that the program names, and where they are on this machine. Nothing is
//! run or guessed to find them out, and a program linked statically simply has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use serde_json::json;

use crate::archive::{Imported, stamp};
use crate::config::ImageConfig;
use crate::digest::{Digest, Hasher};
use crate::error::{ImageError, Malformed};
use crate::manifest::{Descriptor, Manifest, media};
use crate::platform::Platform;
use crate::store::{Image, Images, Work};

/// The name of the image. No such host exists: the name cannot be meant for a registry.
pub const BOX_IMAGE: &str = "setpoint.local/box:v1";
/// Under which names the program is in it: the second runs its small tools (`cli`).
const NAMES: [&str; 2] = ["bin/setpoint", "bin/box"];
/// Shared objects of one program; this one has four.
const OBJECTS_MAX: usize = 64;
/// Of one file that is read to find out its names.
const OBJECT_BYTES_MAX: u64 = 1 << 30;

/// A program and the shared objects that it runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The shared objects, the interpreter among them.
    pub objects: Vec<PathBuf>,
}

/// The names that an ELF file tells.
#[derive(Debug, Default, PartialEq)]
struct Names {
    /// The program that loads it.
    interpreter: Option<PathBuf>,
    /// What others call it.
    soname: Option<String>,
}

impl Program {
    /// The program that runs this code.
    pub fn running() -> Result<Program, ImageError> {
        let failed = |error| ImageError::disk("find out what this program is made of", error);
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(failed)?;
        let path = std::fs::read_link("/proc/self/exe").map_err(failed)?;
        let mapped: BTreeSet<&str> = maps.lines().filter_map(mapped_file).collect();
        let objects = mapped.into_iter().map(PathBuf::from).filter(|object| *object != path && is_object(object));
        // By way of the process: the file's name may be another program's by now.
        Ok(Program { objects: objects.take(OBJECTS_MAX).collect(), path: PathBuf::from("/proc/self/exe") })
    }
}

/// The file of a line of `/proc/self/maps`.
fn mapped_file(line: &str) -> Option<&str> {
    let path = line.get(line.find('/')?..)?;
    (!path.ends_with(" (deleted)")).then_some(path)
}

fn is_object(path: &Path) -> bool {
    let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    is_library && path.is_file()
}

impl Images {
    /// Makes the image of [`BOX_IMAGE`] from `program`, unless it is there and of the same program.
    /// Blocks; not for a thread of a runtime, but for `spawn_blocking`.
    pub fn ensure_box(&self, program: &Program) -> Result<Image, ImageError> {
        let failed = |error| ImageError::disk(format!("make {BOX_IMAGE}"), error);
        let key = stamp(BOX_IMAGE, &std::fs::metadata(&program.path).map_err(failed)?);
        let known = Imported::read(self, &key);
        if let (Some(known), Some(image)) = (known, self.get(BOX_IMAGE)?)
            && known.ids.contains(&image.id)
        {
            return Ok(image);
        }
        let image = self.make_box(program)?;
        Imported::write(self, &key, std::slice::from_ref(&image))?;
        Ok(image)
    }

    fn make_box(&self, program: &Program) -> Result<Image, ImageError> {
        let inner = &self.inner;
        let work = Work::begin(inner)?;
        let tmp = inner.layout.tmp();
        let written = write_layer(program, &tmp).map_err(|error| ImageError::stream(BOX_IMAGE, error));
        let kept = written.and_then(|(digest, bytes)| {
            work.pin(&digest);
            inner.layout.publish(&tmp, &inner.layout.blob(&digest))?;
            Ok(Descriptor::new(media::OCI_LAYER, digest, bytes))
        });
        if kept.is_err() {
            inner.layout.discard(&tmp);
        }
        let layer = kept?;
        let config = config(&inner.options.platform, &layer.digest).to_string().into_bytes();
        let facts = ImageConfig::parse(BOX_IMAGE, &config)?;
        let config = Descriptor::new(media::OCI_CONFIG, work.keep(&config)?, config.len() as u64);
        let manifest = Manifest::new(config, vec![layer]);
        let bytes = serde_json::to_vec(&manifest).map_err(|e| ImageError::disk(BOX_IMAGE, e.into()))?;
        let digest = work.keep(&bytes)?;
        let record = inner.assemble(&work, BOX_IMAGE, &digest, (&digest, &manifest), facts, true)?;
        Ok(inner.image(record))
    }
}

fn config(platform: &Platform, diff_id: &Digest) -> serde_json::Value {
    json!({"os": platform.os, "architecture": platform.architecture, "variant": platform.variant,
        "config": {"Entrypoint": ["/bin/box"], "Cmd": ["serve"], "Env": ["PATH=/bin"], "WorkingDir": "/",
            "ExposedPorts": {"8080/tcp": {}}, "Labels": {"org.opencontainers.image.title": "box"}},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]}})
}

/// Writes the layer, synced. Its digest and length.
fn write_layer(program: &Program, tmp: &Path) -> io::Result<(Digest, u64)> {
    let file = Hashing { file: File::create_new(tmp)?, hasher: Hasher::sha256(), bytes: 0 };
    let mut archive = tar::Builder::new(file);
    let [name, other] = NAMES;
    append_file(&mut archive, Path::new(name), &program.path)?;
    append_link(&mut archive, Path::new(other), Path::new(name))?;
    let interpreter = names(&program.path)?.interpreter;
    for (object, places) in places(&program.objects, interpreter.as_deref())? {
        let mut places = places.into_iter();
        let Some(first) = places.next() else { continue };
        append_file(&mut archive, &first, &object)?;
        places.try_for_each(|place| append_link(&mut archive, &place, &first))?;
    }
    append(&mut archive, "etc/passwd", b"root:x:0:0:root:/:/bin/box\nnobody:x:65534:65534:nobody:/:/bin/box\n")?;
    append(&mut archive, "etc/group", b"root:x:0:\nnobody:x:65534:\n")?;
    let mut header = header(tar::EntryType::Directory, 0, 0o1777);
    archive.append_data(&mut header, "tmp", io::empty())?;
    let file = archive.into_inner()?;
    file.file.sync_all()?;
    Ok((file.hasher.finish(), file.bytes))
}

/// Where each object goes, by its own name and by what others call it.
fn places(objects: &[PathBuf], interpreter: Option<&Path>) -> io::Result<BTreeMap<PathBuf, BTreeSet<PathBuf>>> {
    let beside = interpreter.and_then(Path::parent).map(Path::to_path_buf);
    let mut all = BTreeMap::new();
    for object in objects {
        let file_name = object.file_name().map(PathBuf::from);
        let called: BTreeSet<PathBuf> = names(object)?.soname.map(PathBuf::from).into_iter().chain(file_name).collect();
        let directories = [Some(PathBuf::from("/lib")), beside.clone(), object.parent().map(Path::to_path_buf)];
        let places = directories.iter().flatten().flat_map(|dir| called.iter().map(move |name| dir.join(name)));
        let relative = places.filter_map(|place| place.strip_prefix("/").ok().map(Path::to_path_buf));
        all.insert(object.clone(), relative.collect());
    }
    Ok(all)
}

/// Reads what an ELF file says of itself.
fn names(path: &Path) -> io::Result<Names> {
    use io::Read as _;
    let mut bytes = Vec::new();
    File::open(path)?.take(OBJECT_BYTES_MAX).read_to_end(&mut bytes)?;
    read_names(&bytes).map_err(|error| Malformed::io(format!("{}: {error}", path.display())))
}

fn read_names(bytes: &[u8]) -> object::read::Result<Names> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Names::default();
    for segment in header.program_headers(endian, bytes)? {
        if let Some(path) = segment.interpreter(endian, bytes)? {
            names.interpreter = Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        }
    }
    let table = header.sections(endian, bytes)?.dynamic_table(endian, bytes)?;
    for entry in table.iter() {
        if entry.tag == elf::DT_SONAME {
            names.soname = Some(String::from_utf8_lossy(table.string(entry)?).into_owned());
        }
    }
    Ok(names)
}

/// A file that is hashed while it is written.
struct Hashing {
    file: File,
    hasher: Hasher,
    bytes: u64,
}

impl Write for Hashing {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.file.write(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn header(kind: tar::EntryType, bytes: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes);
    header.set_mode(mode);
    header.set_mtime(0);
    header
}

fn append(archive: &mut tar::Builder<Hashing>, name: &str, bytes: &[u8]) -> io::Result<()> {
    archive.append_data(&mut header(tar::EntryType::Regular, bytes.len() as u64, 0o644), name, bytes)
}

fn append_file(archive: &mut tar::Builder<Hashing>, name: &Path, path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let mut header = header(tar::EntryType::Regular, file.metadata()?.len(), 0o755);
    archive.append_data(&mut header, name, file)
}

fn append_link(archive: &mut tar::Builder<Hashing>, name: &Path, target: &Path) -> io::Result<()> {
    archive.append_link(&mut header(tar::EntryType::Link, 0, 0o755), name, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;

    #[test]
    fn the_running_program_runs_in_its_image() {
        let root = tempfile::tempdir().unwrap();
        let images = Images::open(root.path(), StoreOptions::default()).unwrap();
        let program = Program::running().unwrap();
        let image = images.ensure_box(&program).unwrap();
        assert_eq!(images.get(BOX_IMAGE).unwrap().as_ref(), Some(&image));
        assert!(image.pinned);
        // Nothing is made twice.
        assert_eq!(images.ensure_box(&program).unwrap(), image);
        // The test program itself, in nothing but the image.
        let fs = image.layers.last().unwrap();
        let output = std::process::Command::new("chroot").arg(fs).args(["/bin/box", "--list"]).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("the_running_program_runs_in_its_image"), "{output:?}");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(read_names(b"").is_err());
        assert!(read_names(&[0x7f; 200]).is_err());
        let own = std::fs::read("/proc/self/exe").unwrap();
        let names = read_names(&own).unwrap();
        assert!(names.soname.is_none());
        for cut in [16, 64, 100, own.len() / 2] {
            let _ = read_names(&own[..cut]);
        }
    }

    #[test]
    fn lines_of_maps_are_read() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(mapped_file(line), expected);
        check("7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/libc.so.6", Some("/usr/lib/libc.so.6"));
        check("7f00-7f01 r-xp 00000000 fe:00 12 /a b.so", Some("/a b.so"));
        check("7f00-7f01 rw-p 00000000 00:00 0 [heap]", None);
        check("7f00-7f01 r-xp 00000000 fe:00 12 /x.so (deleted)", None);
    }
}
