//! Why a patch was refused.

use std::fmt;

use meta::{ApiError, Reason};

/// How a refused patch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// 400: the patch itself is malformed.
    Malformed,
    /// 422: the patch does not fit the object. Upstream keeps the detail to itself and sends one fixed sentence.
    Unprocessable,
    /// 413: the patch asks for more work than allowed.
    TooLarge,
    /// 500: upstream has no status of its own for it and sends the bare sentence.
    Unclassified,
}

/// A refused patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// How it is answered.
    pub kind: PatchErrorKind,
    /// What is wrong, in upstream's words.
    pub detail: String,
}

impl PatchError {
    /// 400.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::Malformed, detail: detail.into() }
    }

    /// 422.
    pub fn unprocessable(detail: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::Unprocessable, detail: detail.into() }
    }

    /// 413.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::TooLarge, detail: detail.into() }
    }

    /// 500.
    pub fn unclassified(detail: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::Unclassified, detail: detail.into() }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for PatchError {}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        match error.kind {
            PatchErrorKind::Malformed => ApiError::bad_request(error.detail),
            PatchErrorKind::Unprocessable => {
                ApiError::new(422, Reason::Invalid, "the server rejected our request due to an error in our request")
            }
            PatchErrorKind::TooLarge => ApiError::too_large(format!("Request entity too large: {}", error.detail)),
            PatchErrorKind::Unclassified => ApiError { code: 500, reason: None, message: error.detail, details: None },
        }
    }
}
