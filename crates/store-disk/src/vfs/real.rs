//! The operating system's files.

use std::any::Any;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{Vfs, VfsFile};

/// Values may be secrets: only the owner may read them.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A directory on the machine.
pub struct RealVfs {
    path: PathBuf,
    dir: File,
}

impl RealVfs {
    /// Opens a directory; makes it, durably, if it is not there.
    pub fn open(path: &Path) -> io::Result<RealVfs> {
        if !path.is_dir() {
            let missing: Vec<&Path> =
                path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
            DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
            // Each new name stands in its parent.
            missing.into_iter().try_for_each(|made| File::open(parent(made))?.sync_all())?;
        }
        RealVfs::existing(path)
    }

    /// Opens a directory that must be there.
    pub fn existing(path: &Path) -> io::Result<RealVfs> {
        Ok(RealVfs { dir: File::open(path)?, path: path.to_owned() })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Vfs for RealVfs {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        Ok(Box::new(OpenOptions::new().read(true).append(true).open(self.at(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn VfsFile>> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(FILE_MODE);
        Ok(Box::new(options.open(self.at(name))?))
    }

    fn rewrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // A handle of its own: writes through one that appends go to the end wherever they are meant for.
        OpenOptions::new().write(true).open(self.at(name))?.write_all_at(bytes, offset)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.at(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(self.at("lock"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }
}

impl VfsFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self).write_all(bytes)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
