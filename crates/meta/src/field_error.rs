//! One thing wrong with one field, in the words and codes that clients know.
//!
//! The wording follows `k8s.io/apimachinery/pkg/util/validation/field`.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A value that must be there is not.
    Required,
    /// The value is malformed or out of range.
    Invalid,
    /// Something about the value as a whole is wrong, and showing it would not help.
    InvalidWhole,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The value occurs twice.
    Duplicate,
    /// The value may not be given here.
    Forbidden,
    /// The value is longer than allowed.
    TooLong,
    /// The list or map has more entries than allowed.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// What the value refers to does not exist.
    NotFound,
    /// The server failed while checking.
    Internal,
}

impl FieldErrorKind {
    /// The machine-readable reason in `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid | Self::InvalidWhole => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::InvalidWhole => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TypeInvalid => "Invalid value",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Self::InvalidWhole | Self::Required | Self::Forbidden | Self::TooLong | Self::TooMany | Self::Internal
        )
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub kind: FieldErrorKind,
    /// Where, e.g. `spec.containers[0].name`.
    pub field: String,
    /// The offending value; shown for the kinds that upstream shows it for.
    pub bad: Value,
    /// What was expected; may be empty.
    pub detail: String,
}

impl FieldError {
    fn new(kind: FieldErrorKind, path: impl fmt::Display, bad: Value, detail: impl Into<String>) -> Self {
        Self { kind, field: path.to_string(), bad, detail: detail.into() }
    }

    /// A value that must be there is not.
    pub fn required(path: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, Value::Null, detail)
    }

    /// The value is malformed or out of range.
    pub fn invalid(path: impl fmt::Display, bad: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, bad.into(), detail)
    }

    /// Something about the value as a whole is wrong; the message does not show it.
    pub fn invalid_whole(path: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::InvalidWhole, path, Value::Null, detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(path: impl fmt::Display, bad: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, bad.into(), detail)
    }

    /// The value is not one of `supported` (listed in the given order, each quoted).
    pub fn not_supported<S: AsRef<str>>(path: impl fmt::Display, bad: impl Into<Value>, supported: &[S]) -> Self {
        let list = supported.iter().map(|s| format!("{:?}", s.as_ref())).collect::<Vec<_>>().join(", ");
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {list}") };
        Self::new(FieldErrorKind::NotSupported, path, bad.into(), detail)
    }

    /// The value occurs twice.
    pub fn duplicate(path: impl fmt::Display, bad: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, bad.into(), "")
    }

    /// The value may not be given here.
    pub fn forbidden(path: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, Value::Null, detail)
    }

    /// The value has more than `bytes_max` bytes.
    pub fn too_long(path: impl fmt::Display, bytes_max: usize) -> Self {
        Self::new(FieldErrorKind::TooLong, path, Value::Null, format!("may not be more than {bytes_max} bytes"))
    }

    /// The list or map has `actual` entries, more than `max`.
    pub fn too_many(path: impl fmt::Display, actual: usize, max: usize) -> Self {
        let noun = if max == 1 { "item" } else { "items" };
        Self::new(FieldErrorKind::TooMany, path, json!(actual), format!("must have at most {max} {noun}"))
    }

    /// What the value refers to does not exist.
    pub fn not_found(path: impl fmt::Display, bad: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, bad.into(), "")
    }

    /// The server failed while checking.
    pub fn internal(path: impl fmt::Display, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Internal, path, Value::Null, detail)
    }

    /// The message without the field: `Invalid value: "x": must be …`.
    pub fn body(&self) -> String {
        let mut out = self.kind.title().to_owned();
        if self.kind == FieldErrorKind::TooMany {
            out = format!("{out}: {}", self.bad);
        } else if self.kind.shows_value() {
            out = format!("{out}: {}", shown(&self.bad));
        }
        if !self.detail.is_empty() {
            out = format!("{out}: {}", self.detail);
        }
        out
    }

    /// All messages as one: alone as it is, several as `[a, b]`, each only once.
    pub fn aggregate(errors: &[FieldError]) -> String {
        let mut seen = BTreeSet::new();
        let messages: Vec<String> = errors.iter().map(ToString::to_string).filter(|m| seen.insert(m.clone())).collect();
        match &messages[..] {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}

/// Go prints strings quoted, scalars plainly and the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "<nil>" } else { &self.field };
        write!(f, "{field}: {}", self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_upstream() {
        let check = |error: FieldError, text: &str| assert_eq!(error.to_string(), text);
        check(FieldError::required("spec.selector", ""), "spec.selector: Required value");
        check(FieldError::invalid("a", "B", "must be lower case"), "a: Invalid value: \"B\": must be lower case");
        check(FieldError::invalid("a", -1, "no"), "a: Invalid value: -1: no");
        check(FieldError::invalid_whole("a", "no"), "a: Invalid value: no");
        check(
            FieldError::not_supported("p", "X", &["TCP", "UDP"]),
            "p: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\"",
        );
        check(FieldError::too_many("l", 11, 10), "l: Too many: 11: must have at most 10 items");
    }

    #[test]
    fn several_are_bracketed_and_unique() {
        let error = FieldError::duplicate("a", "b");
        assert_eq!(FieldError::aggregate(std::slice::from_ref(&error)), "a: Duplicate value: \"b\"");
        let other = FieldError::forbidden("c", "");
        assert_eq!(FieldError::aggregate(&[error.clone(), error, other]), "[a: Duplicate value: \"b\", c: Forbidden]");
    }
}
