//! What can go wrong with an image, by what can be done about it.

use std::io;

use crate::platform::Platform;

/// Why an image cannot be had. The kind decides the reason that a pod's status shows; the text is its message.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not the name of an image; trying again is pointless (`InvalidImageName`).
    #[error("couldn't parse image name {name:?}: {reason}")]
    InvalidName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The registry or the store does not know it.
    #[error("{0}: not found")]
    NotFound(String),
    /// Nobody, or somebody unknown, asked.
    #[error("{0}")]
    Unauthorized(String),
    /// Whoever asked may not have it.
    #[error("{0}")]
    Denied(String),
    /// The registry does not answer, or answers that it cannot now (`RegistryUnavailable`).
    #[error("{what}")]
    Unavailable {
        /// What was tried.
        what: String,
        /// What stopped it.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The image exists, but not for this machine.
    #[error("{name}: no match for platform in manifest: {wanted} is not among [{found}]")]
    Platform {
        /// The image.
        name: String,
        /// This machine.
        wanted: Platform,
        /// What there is.
        found: String,
    },
    /// Bytes that are not what their digest, size or format promise.
    #[error("{0}")]
    Damaged(String),
    /// More than a limit allows.
    #[error("{0}")]
    TooLarge(String),
    /// The disk is full.
    #[error("{0}: no space left on device")]
    NoSpace(String),
    /// The disk failed in another way.
    #[error("{what}")]
    Disk {
        /// What was tried.
        what: String,
        /// What stopped it.
        #[source]
        source: io::Error,
    },
    /// Several places were asked, and none had it to give.
    #[error("{name}: {}", said.iter().map(|(place, what)| format!("{place} said: {what}")).collect::<Vec<_>>().join("; "))]
    Endpoints {
        /// The image.
        name: String,
        /// Who said what.
        said: Vec<(String, String)>,
        /// What the registry itself said: of this kind the failure is.
        last: Box<ImageError>,
    },
    /// Another process is working on the store.
    #[error("the image store is in use by another process: {0}")]
    Busy(String),
}

/// A limit reached in the middle of a stream, carried through `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Exceeded(pub String);

/// Malformed bytes met in the middle of a stream, carried through `io::Error`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub String);

impl Exceeded {
    /// As the error of a reader.
    pub fn io(text: String) -> io::Error {
        io::Error::other(Exceeded(text))
    }
}

impl Malformed {
    /// As the error of a reader.
    pub fn io(text: impl Into<String>) -> io::Error {
        io::Error::other(Malformed(text.into()))
    }
}

/// Errors that the system gives for odd names and trees, not for odd disks.
fn is_of_names(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let odd = [Errno::NAMETOOLONG, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::EXIST, Errno::INVAL, Errno::MLINK];
    Errno::from_io_error(error).is_some_and(|errno| odd.contains(&errno))
}

impl ImageError {
    /// An error of the disk while doing `what`.
    pub(crate) fn disk(what: impl Into<String>, source: io::Error) -> ImageError {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded => ImageError::NoSpace(what.into()),
            _ => ImageError::Disk { what: what.into(), source },
        }
    }

    /// An error while reading `what`, a stream whose bytes came from elsewhere: the disk's own errors have a number
    /// of the operating system, all others are the stream's fault.
    pub(crate) fn stream(what: &str, source: io::Error) -> ImageError {
        if source.get_ref().is_some_and(|inner| inner.is::<Exceeded>()) {
            return ImageError::TooLarge(format!("{what}: {source}"));
        }
        match source.raw_os_error() {
            Some(_) if !is_of_names(&source) => ImageError::disk(what, source),
            _ => ImageError::Damaged(format!("{what}: {source}")),
        }
    }

    /// No answer from a registry.
    pub(crate) fn unavailable(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ImageError {
        ImageError::Unavailable { what: what.into(), source: Some(source.into()) }
    }

    /// What several places that were asked for `name` said, in the order of asking.
    pub(crate) fn of_endpoints(name: &str, mut failures: Vec<(String, ImageError)>) -> ImageError {
        match failures.len() {
            0 => ImageError::NotFound(name.to_owned()),
            1 => failures.remove(0).1,
            _ => {
                // Each says the name again.
                let bare = |text: String| text.strip_prefix(&format!("{name}: ")).map_or(text.clone(), str::to_owned);
                let said = failures.iter().map(|(place, error)| (place.clone(), bare(error.message()))).collect();
                let last = failures.pop().map_or_else(|| ImageError::NotFound(name.to_owned()), |(_, error)| error);
                ImageError::Endpoints { name: name.to_owned(), said, last: Box::new(last) }
            }
        }
    }

    /// Of which kind the failure is.
    pub fn kind(&self) -> &ImageError {
        match self {
            ImageError::Endpoints { last, .. } => last,
            error => error,
        }
    }

    /// The same error, said to be about `name`.
    pub(crate) fn about(self, name: &str) -> ImageError {
        let say = |text: String| format!("{name}: {text}");
        match self {
            ImageError::Unauthorized(text) => ImageError::Unauthorized(say(text)),
            ImageError::Denied(text) => ImageError::Denied(say(text)),
            ImageError::Damaged(text) => ImageError::Damaged(say(text)),
            ImageError::TooLarge(text) => ImageError::TooLarge(say(text)),
            ImageError::Unavailable { what, source } => ImageError::Unavailable { what: say(what), source },
            other => other,
        }
    }

    /// The message with its causes, for a status or an event.
    pub fn message(&self) -> String {
        stdx::chain(self)
    }
}
