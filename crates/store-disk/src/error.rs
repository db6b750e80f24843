//! What can go wrong with a data directory, said so that somebody can act on it.

use std::io;

use thiserror::Error;

/// Where and how stored data is not what was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{file} is damaged at byte {offset}: {what}; nothing was changed. \
     To restore: keep the directory aside, then restore the newest backup into an empty one"
)]
pub struct Damage {
    /// The file's path.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// Why a store was not opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{directory} is in use by another process")]
    Locked {
        /// Which directory.
        directory: String,
    },
    /// The operating system refused.
    #[error("cannot {attempt} in {directory}")]
    Io {
        /// What was attempted.
        attempt: String,
        /// Which directory.
        directory: String,
        /// Why not.
        source: io::Error,
    },
    /// What is stored is not what was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A later version wrote this.
    #[error("{file} has layout version {version}; this program reads up to {readable}")]
    TooNew {
        /// The file's path.
        file: String,
        /// Its version.
        version: u32,
        /// The latest version this program reads.
        readable: u32,
    },
}

/// Why a backup was not made or not restored.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The operating system refused.
    #[error("cannot {attempt} {path}")]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// On which file or directory.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The file is not a whole backup.
    #[error("{file} is no whole backup: damaged at byte {offset}: {what}")]
    Damaged {
        /// The file's path.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The target has files already; a restore never overwrites anything.
    #[error("{directory} is not empty; restore into an empty or new directory")]
    NotEmpty {
        /// Which directory.
        directory: String,
    },
    /// The store has stopped.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}
