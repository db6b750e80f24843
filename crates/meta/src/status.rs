//! The one error that the API speaks: a `v1.Status` with a code, a reason and causes by field path.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::{FieldError, GroupKind, GroupResource};

/// Machine-readable reasons (`metav1.StatusReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409, the name is taken.
    AlreadyExists,
    /// 409, a precondition or a field owner stands against it.
    Conflict,
    /// 410, what was asked for is compacted away.
    Expired,
    /// 410, gone for good.
    Gone,
    /// 422, field errors.
    Invalid,
    /// 400.
    BadRequest,
    /// 405.
    MethodNotAllowed,
    /// 406.
    NotAcceptable,
    /// 413.
    RequestEntityTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 429.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    ServiceUnavailable,
    /// 504, the server gave up waiting.
    Timeout,
    /// 504, try again later.
    ServerTimeout,
}

impl Reason {
    /// The text of `status.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Gone => "Gone",
            Self::Invalid => "Invalid",
            Self::BadRequest => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::TooManyRequests => "TooManyRequests",
            Self::InternalError => "InternalError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::Timeout => "Timeout",
            Self::ServerTimeout => "ServerTimeout",
        }
    }
}

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Machine-readable, e.g. `FieldValueInvalid` or `FieldManagerConflict`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Field path; empty when the cause is no field.
    pub field: String,
}

/// What the error is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Object name; may be empty.
    pub name: String,
    /// API group.
    pub group: String,
    /// Kind or resource: upstream uses the kind for `Invalid` and the plural elsewhere.
    pub kind: String,
    /// Uid of the object, for uid preconditions.
    pub uid: String,
    /// One per field or owner.
    pub causes: Vec<Cause>,
    /// When to come back; 0 says nothing.
    pub retry_after_seconds: u32,
    /// For an expired list: the token that goes on at the newest revision (it travels in `metadata.continue`).
    pub continue_token: String,
}

/// A refused or failed request.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; `None` leaves the field out.
    pub reason: Option<Reason>,
    /// One sentence for people.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Self { code, reason: Some(reason), message: message.into(), details: None }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        }));
        self
    }

    /// 404: `pods "x" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, Reason::NotFound, format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// 409: `pods "x" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, Reason::AlreadyExists, format!("{resource} {name:?} already exists")).about(resource, name)
    }

    /// 409 with upstream's sentence for a failed operation.
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// 409: somebody wrote the object since `resourceVersion`.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403 of an authoriser or admission step: `pods "x" is forbidden: …`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 422 with a cause for each field error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{kind} {name:?} is invalid: {}", FieldError::aggregate(errors));
        let causes = errors
            .iter()
            .map(|e| Cause { reason: e.kind.reason().to_owned(), message: e.body(), field: e.field.clone() })
            .collect();
        let details = Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        };
        Self { code: 422, reason: Some(Reason::Invalid), message, details: Some(Box::new(details)) }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, Reason::BadRequest, message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 410: the revision asked for is compacted away.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, Reason::Expired, message)
    }

    /// 405.
    pub fn method_not_allowed(resource: &GroupResource, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", resource.to_string());
        Self::new(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// 406 with the media types that would do.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(406, Reason::NotAcceptable, message)
    }

    /// 415 with the media types that would do.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, Reason::UnsupportedMediaType, message)
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// 429 with the time to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut error = Self::new(429, Reason::TooManyRequests, message);
        error.details = Some(Box::new(Details { retry_after_seconds, ..Details::default() }));
        error
    }

    /// 500. `message` reaches the client: it must not hold secrets or paths of the server.
    pub fn internal(message: impl fmt::Display) -> Self {
        let mut error = Self::new(500, Reason::InternalError, format!("Internal error occurred: {message}"));
        let cause = Cause { reason: String::new(), message: message.to_string(), field: String::new() };
        error.details = Some(Box::new(Details { causes: vec![cause], ..Details::default() }));
        error
    }

    /// The same error with a token that goes on from here.
    pub fn with_continue(mut self, token: String) -> Self {
        self.details.get_or_insert_default().continue_token = token;
        self
    }

    /// The same error with a cause more.
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: impl Into<String>) -> Self {
        let cause = Cause { reason: reason.to_owned(), message: message.into(), field: field.into() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The `v1.Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if let Some(reason) = self.reason {
            status["reason"] = json!(reason.as_str());
        }
        if let Some(details) = &self.details {
            let about = details.to_value();
            if about.as_object().is_some_and(|about| !about.is_empty()) {
                status["details"] = about;
            }
            if !details.continue_token.is_empty() {
                status["metadata"]["continue"] = json!(details.continue_token);
            }
        }
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                out.insert(key.to_owned(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            out.insert("causes".to_owned(), self.causes.iter().map(Cause::to_value).collect());
        }
        if self.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let pairs = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        pairs.into_iter().filter(|(_, text)| !text.is_empty()).map(|(key, text)| (key, json!(text))).collect()
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_kind_field_and_reason() {
        let kind = GroupKind { group: "apps".into(), kind: "Deployment".into() };
        let status = ApiError::invalid(&kind, "web", &[FieldError::required("spec.selector", "")]).to_value();
        assert_eq!(status["message"], "Deployment.apps \"web\" is invalid: spec.selector: Required value");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(status["code"], 422);
    }

    #[test]
    fn not_found_names_the_resource() {
        let status = ApiError::not_found(&GroupResource::new("apps", "deployments"), "web").to_value();
        assert_eq!(status["message"], "deployments.apps \"web\" not found");
        assert_eq!(status["details"], json!({"name": "web", "group": "apps", "kind": "deployments"}));
    }
}
