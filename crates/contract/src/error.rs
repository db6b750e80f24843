//! What can go wrong, told so that the caller can decide: missing, wrong state, refused spec, start, time, system.

/// The result of every operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such sandbox or container.
    #[error("{what} {id:?} not found")]
    NotFound { what: &'static str, id: String },
    /// The object is in a state that does not allow the operation.
    #[error("{0}")]
    WrongState(String),
    /// The spec cannot be carried out as written.
    #[error("{0}")]
    Invalid(String),
    /// The process could not be started; `exit_code` is what a shell would have said: 127 (not found), 126 (found but
    /// not executable) or 128 (anything before that).
    #[error("{message}")]
    Start { message: String, exit_code: i32 },
    /// The time allowed ran out; what had been begun was undone or killed.
    #[error("{what} timed out after {limit_ms} ms")]
    Timeout { what: String, limit_ms: u64 },
    /// All addresses of the node's range are taken.
    #[error("no free address in {0}")]
    NoAddress(String),
    /// The node has not been told its range of addresses yet.
    #[error("the pod network is not ready: the node has no range of addresses yet (spec.podCIDR)")]
    NetworkNotReady,
    /// The shim of the sandbox is gone or does not answer as it should.
    #[error("shim of sandbox {id}: {message}")]
    Shim { id: String, message: String },
    /// The system refused.
    #[error("{doing}: {source}")]
    Io { doing: String, source: std::io::Error },
}

impl Error {
    /// A system error with what was being done.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }

    /// True for [`Error::NotFound`]: removal treats it as done.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound { .. })
    }
}
