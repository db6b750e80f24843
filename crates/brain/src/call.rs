//! An action as one API request, before it is HTTP, and what the answer means: the words that all hands share, be
//! they the driver's, the planner's or the simulator's.

use bytes::Bytes;
use meta::ObjectExt;
use serde_json::{Value, json};
use store::Revision;

use crate::{Action, Patch, Propagation, Resource};

/// A request that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status; 0 when no answer came.
    pub code: u16,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
}

impl Refused {
    /// Whether the world moved on since the decision: looking again is all that is needed.
    pub fn is_stale(&self) -> bool {
        matches!(self.reason.as_str(), "Conflict" | "AlreadyExists" | "NotFound" | "Expired")
    }
}

/// What the answer to an action means for the turn it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Carried out, and the revision it wrote, if the answer says so.
    Done(Option<Revision>),
    /// The world has moved on: the turn ends, the next one sees why.
    Stale,
    /// Refused for a reason that the world does not show.
    Refused(Refused),
}

/// Reads the answer to an action.
pub fn verdict(action: &Action, answer: Result<Value, Refused>) -> Verdict {
    match answer {
        Ok(answer) => Verdict::Done(revision_of(&answer)),
        Err(refused) if is_done_already(action, &refused) => Verdict::Done(None),
        Err(refused) if refused.is_stale() => Verdict::Stale,
        Err(refused) => Verdict::Refused(refused),
    }
}

/// What is to be gone is gone.
fn is_done_already(action: &Action, refusal: &Refused) -> bool {
    matches!(action, Action::Delete { .. } | Action::Evict { .. }) && refusal.reason == "NotFound"
}

fn revision_of(answer: &Value) -> Option<Revision> {
    answer.text(&["metadata", "resourceVersion"]).parse().ok().map(Revision)
}

/// One request, before it is HTTP.
#[derive(Clone, Debug)]
pub struct Call {
    /// Method.
    pub method: &'static str,
    /// Path, without the query.
    pub path: String,
    /// The query, without the field manager.
    pub query: &'static str,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Body.
    pub body: Bytes,
}

impl Call {
    /// What stands in the request line, for a field manager.
    pub fn path_and_query(&self, manager: &str) -> String {
        let separator = if self.query.is_empty() { "" } else { "&" };
        format!("{}?fieldManager={manager}{separator}{}", self.path, self.query)
    }
}

/// The address of a resource, of one of its objects, or of a subresource.
pub fn path_of(resource: &Resource, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = match &*resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    if !namespace.is_empty() {
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    for word in [&*resource.plural, name, subresource].into_iter().filter(|word| !word.is_empty()) {
        path.push('/');
        path.push_str(word);
    }
    path
}

const PODS: Resource = Resource::new("", "v1", "pods");
const JSON: &str = "application/json";

/// A request with a JSON body and no query.
pub fn call(method: &'static str, path: String, content_type: &'static str, body: &Value) -> Call {
    Call { method, path, query: "", content_type, body: serde_json::to_vec(body).unwrap_or_default().into() }
}

/// An action as a request.
pub fn request_of(action: &Action) -> Call {
    match action {
        Action::Create { resource, namespace, object } => {
            call("POST", path_of(resource, namespace, "", ""), JSON, object)
        }
        Action::Update { resource, subresource, object } => {
            call("PUT", path_of(resource, object.namespace(), object.name(), subresource), JSON, object)
        }
        Action::Patch { resource, subresource, namespace, name, uid, patch } => {
            let path = path_of(resource, namespace, name, subresource);
            let (content_type, body, query) = patch_body(patch, uid);
            Call { query, ..call("PATCH", path, content_type, &body) }
        }
        Action::Delete { resource, namespace, name, uid, revision, propagation, grace_seconds } => {
            let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
            if let Some(revision) = revision {
                options.put(&["preconditions", "resourceVersion"], revision.0.to_string());
            }
            if let Some(propagation) = propagation {
                options.put(&["propagationPolicy"], policy(*propagation));
            }
            if let Some(seconds) = grace_seconds {
                options.put(&["gracePeriodSeconds"], *seconds);
            }
            call("DELETE", path_of(resource, namespace, name, ""), JSON, &options)
        }
        Action::DeleteCollection { resource, namespace, propagation } => {
            let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            if let Some(propagation) = propagation {
                options.put(&["propagationPolicy"], policy(*propagation));
            }
            call("DELETE", path_of(resource, namespace, "", ""), JSON, &options)
        }
        Action::Evict { namespace, name, uid } => {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": {"preconditions": {"uid": uid}},
            });
            call("POST", path_of(&PODS, namespace, name, "eviction"), JSON, &eviction)
        }
        Action::Bind { namespace, name, uid, node } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            call("POST", path_of(&PODS, namespace, name, "binding"), JSON, &binding)
        }
    }
}

/// The patch with the uid that it is meant for: another object of the same name is a conflict.
fn patch_body(patch: &Patch, uid: &str) -> (&'static str, Value, &'static str) {
    let guarded = |body: &Value| {
        let mut body = body.clone();
        if !uid.is_empty() {
            body.put(&["metadata", "uid"], uid);
        }
        body
    };
    match patch {
        Patch::Merge(body) => ("application/merge-patch+json", guarded(body), ""),
        Patch::Strategic(body) => ("application/strategic-merge-patch+json", guarded(body), ""),
        Patch::Apply(body) => ("application/apply-patch+yaml", guarded(body), "force=true"),
        Patch::Json(body) => {
            let mut operations = body.as_array().cloned().unwrap_or_default();
            if !uid.is_empty() {
                operations.insert(0, json!({"op": "test", "path": "/metadata/uid", "value": uid}));
            }
            ("application/json-patch+json", Value::Array(operations), "")
        }
    }
}

fn policy(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Orphan => "Orphan",
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    }
}
