//! Checks a data directory without changing it.

use std::io;
use std::path::Path;

use store::Revision;

use crate::error::{Damage, OpenError};
use crate::frame::HeaderCrc;
use crate::recover::{TornTail, recover};
use crate::vfs::{RealVfs, Vfs};

/// What a check found. The directory is sound if there is no damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The revision the next start would begin after.
    pub revision: Revision,
    /// Durable items.
    pub items: u64,
    /// Their bytes: names, values, annexes.
    pub bytes: u64,
    /// The checkpoint it would start from.
    pub checkpoint: Option<String>,
    /// Segments of the log.
    pub segments: usize,
    /// Group commits in them.
    pub frames: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// What a crash left at the end and the next start drops; not an error.
    pub torn_tail: Option<TornTail>,
    /// Files that the next start removes; not an error.
    pub leftovers: Vec<String>,
    /// The first damage, if any; the next start would stop with it.
    pub damage: Option<Damage>,
}

/// Checks the data directory at `path`: every checksum, the chain, the order of revisions, the state's hash.
///
/// # Errors
/// When the directory is in use or cannot be read.
pub fn fsck(path: &Path) -> Result<Report, OpenError> {
    let vfs = RealVfs::existing(path).map_err(|source| OpenError::Io {
        attempt: "open the directory".into(),
        directory: path.display().to_string(),
        source,
    })?;
    fsck_on(&vfs)
}

/// The same for a directory of any kind.
///
/// # Errors
/// As for [`fsck`].
pub fn fsck_on(vfs: &dyn Vfs) -> Result<Report, OpenError> {
    let directory = vfs.describe();
    let _lock = vfs.lock().map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { directory },
        _ => OpenError::Io { attempt: "lock the directory".into(), directory, source },
    })?;
    match recover(vfs, store::Limits::default(), HeaderCrc::Whole) {
        Ok(found) => Ok(Report {
            revision: Revision(found.core.revision().0.max(found.reserved)),
            items: found.sum.items,
            bytes: found.sum.bytes,
            checkpoint: found.checkpoint,
            segments: found.segments.len(),
            frames: found.frames,
            transactions: found.txns,
            torn_tail: found.torn,
            leftovers: found.leftovers,
            damage: None,
        }),
        Err(OpenError::Damaged(damage)) => Ok(Report { damage: Some(damage), ..Report::default() }),
        Err(error) => Err(error),
    }
}
