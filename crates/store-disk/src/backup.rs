//! Backups: the whole state in one file, taken while the store runs, restored onto a fresh machine.

use std::io;
use std::path::Path;
use std::sync::Arc;

use store::{Key, Revision, Snapshot};

use crate::checkpoint::{self, StateFault, StateFile, StateHeader, state_name};
use crate::disk::Disk;
use crate::error::BackupError;
use crate::log::Log;
use crate::options::Options;
use crate::sum::LogId;
use crate::vfs::{RealVfs, Vfs};

/// How far a restore moves the revision on: more than any store can have handed out since the backup was taken
/// (30,000 writes a second for ten hours), so that no revision is ever used for two states.
pub const RESTORE_SKIPS: u64 = 1 << 30;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// The revision of the state.
    pub revision: Revision,
    /// How many items.
    pub items: u64,
    /// Their bytes: names, values, annexes.
    pub bytes: u64,
}

fn failed(attempt: &'static str, path: &Path) -> impl Fn(io::Error) -> BackupError {
    let path = path.display().to_string();
    move |source| BackupError::Io { attempt, path: path.clone(), source }
}

fn fault(attempt: &'static str, path: &Path, fault: StateFault) -> BackupError {
    match fault {
        StateFault::Io(source) => failed(attempt, path)(source),
        StateFault::Damaged(offset, what) => BackupError::Damaged { file: path.display().to_string(), offset, what },
        StateFault::TooNew(version) => {
            let what = format!("layout version {version} is later than this program's");
            BackupError::Damaged { file: path.display().to_string(), offset: 8, what }
        }
    }
}

fn split(path: &Path) -> Result<(&Path, &str), BackupError> {
    let name = path.file_name().and_then(|name| name.to_str());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unusable = || failed("use the name", path)(io::ErrorKind::InvalidInput.into());
    Ok((directory, name.ok_or_else(unusable)?))
}

impl Disk {
    /// Writes the newest state to a file, which appears under its name only when it is whole and has been read
    /// back. Writers are not held up: the state is a snapshot.
    ///
    /// # Errors
    /// When the file cannot be written; the store is not affected.
    pub fn backup(&self, path: &Path) -> Result<BackupInfo, BackupError> {
        let (directory, name) = split(path)?;
        let vfs = RealVfs::existing(directory).map_err(failed("open", directory))?;
        let (snapshot, volatile, header) = self.newest();
        let sum = checkpoint::publish(&vfs, name, header, &volatile, &snapshot, checkpoint::FAITHFUL)
            .map_err(|found| fault("write", path, found))?;
        Ok(BackupInfo { revision: header.revision, items: sum.items, bytes: sum.bytes })
    }
}

fn load(path: &Path) -> Result<(StateFile, Snapshot), BackupError> {
    let (directory, name) = split(path)?;
    let vfs = RealVfs::existing(directory).map_err(failed("open", directory))?;
    let file = vfs.open(name).map_err(failed("open", path))?;
    let mut items: Vec<(Key, _)> = Vec::new();
    let state = checkpoint::read(&*file, &mut |key, entry| items.push((key, entry)));
    let state = state.map_err(|found| fault("read", path, found))?;
    let snapshot = Snapshot::build(state.header.revision, items);
    Ok((state, snapshot))
}

/// Reads a whole backup and checks it.
///
/// # Errors
/// When it cannot be read or is not whole.
pub fn inspect(path: &Path) -> Result<BackupInfo, BackupError> {
    let (state, _) = load(path)?;
    Ok(BackupInfo { revision: state.header.revision, items: state.sum.items, bytes: state.sum.bytes })
}

/// Makes a data directory from a backup. The revision moves on by [`RESTORE_SKIPS`] and everything before counts
/// as compacted: clients that saw a later state than the backup's must list anew, and do.
///
/// # Errors
/// When the backup is not whole, the directory is not empty, or it cannot be written. A directory that was left
/// half restored is refused by [`Disk::open`] and must be emptied before the next attempt.
pub fn restore(path: &Path, directory: &Path, options: &Options) -> Result<BackupInfo, BackupError> {
    let (state, snapshot) = load(path)?;
    let vfs = RealVfs::open(directory).map_err(failed("open", directory))?;
    let names = vfs.list().map_err(failed("list", directory))?;
    // A fresh file system has this one.
    if names.iter().any(|name| name != "lost+found") {
        return Err(BackupError::NotEmpty { directory: directory.display().to_string() });
    }
    let _lock = vfs.lock().map_err(failed("lock", directory))?;
    let vfs: Arc<dyn Vfs> = Arc::new(vfs);
    let revision = Revision(state.header.revision.0.max(state.header.reserved).saturating_add(RESTORE_SKIPS));
    let mut id = LogId::default();
    options.ids.fill(&mut id.0);
    let header = StateHeader { id, revision, reserved: revision.0, first_segment: 1, logged: revision.0 };
    // The state first: a log without it would pass for a new, empty store.
    let name = state_name(revision);
    let sum = checkpoint::publish(&*vfs, &name, header, &state.volatile, &snapshot, checkpoint::FAITHFUL)
        .map_err(|found| fault("write", directory, found))?;
    Log::begin(vfs, options.clone(), id, revision).map_err(failed("begin the log in", directory))?;
    Ok(BackupInfo { revision, items: sum.items, bytes: sum.bytes })
}
