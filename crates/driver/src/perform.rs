//! Performs actions: one API request each, in order, until one is refused.

use std::sync::Arc;

use brain::{Action, Effect, Patch, Performed, Propagation, Resource, View};
use bytes::Bytes;
use client::Transport;
use http::{Method, Request};
use meta::ObjectExt;
use serde_json::{Value, json};
use store::{Key, Revision};

use crate::events::Told;
use crate::source::{Source, Write};

/// Most bytes of an answer read: an object is at most 1.5 MiB.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The hands of one controller.
pub struct Hands {
    transport: Arc<dyn Transport>,
    /// What its writes come back to.
    source: Source,
    /// Field manager and user agent.
    name: String,
    /// What it has told.
    pub(crate) told: Told,
}

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

/// How performing effects ended.
pub struct Result {
    /// For the queue.
    pub performed: Performed,
    /// How many effects were carried out.
    pub done: usize,
    /// Why the next one was not, when the world does not show it.
    pub refused: Option<Refused>,
}

impl Hands {
    /// Hands that work through `transport` under a field manager's name.
    pub fn new(transport: Arc<dyn Transport>, source: Source, name: impl Into<String>) -> Hands {
        Hands { transport, source, name: name.into(), told: Told::default() }
    }

    /// Performs the effects that were decided on `view` about `root`, in order until one is refused.
    pub async fn perform(&self, effects: &[Effect], view: &View, root: &Key) -> Result {
        let mut writes = Vec::new();
        let mut ended = Verdict::Done(None);
        let mut done = 0;
        for effect in effects {
            ended = self.perform_one(&effect.action, view, root, &mut writes).await;
            if !matches!(ended, Verdict::Done(_)) {
                break;
            }
            done += 1;
        }
        let wrote = self.source.seen(&writes).await;
        match ended {
            Verdict::Done(_) => Result { performed: Performed::Done { wrote }, done, refused: None },
            Verdict::Stale => Result { performed: Performed::Stale { wrote }, done, refused: None },
            Verdict::Refused(refused) => {
                Result { performed: Performed::Failed { wrote }, done, refused: Some(refused) }
            }
        }
    }

    async fn perform_one(&self, action: &Action, view: &View, root: &Key, writes: &mut Vec<Write>) -> Verdict {
        if !self.source.confirms(action, view, root).await {
            return Verdict::Stale;
        }
        let verdict = verdict(action, self.call(request_of(action)).await);
        if let Verdict::Done(Some(revision)) = &verdict {
            writes.push((collection_of(action).into(), *revision));
        }
        verdict
    }

    /// Sends one request and reads its answer.
    pub async fn call(&self, call: Call) -> std::result::Result<Value, Refused> {
        let lost = |message: String| Refused { code: 0, reason: String::new(), message };
        let request = Request::builder()
            .uri(call.path_and_query(&self.name))
            .method(call.method)
            .header("content-type", call.content_type)
            .header("accept", "application/json")
            .header("user-agent", &self.name)
            .body(call.body)
            .map_err(|error| lost(error.to_string()))?;
        let response = self.transport.call(request).await.map_err(|error| lost(error.to_string()))?;
        let status = response.status();
        let bytes = client::read_all(response.into_body(), ANSWER_BYTES_MAX).await.map_err(|e| lost(e.to_string()))?;
        let answer: Value = meta::stored::read(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let text = |field: &str| answer.text(&[field]).to_owned();
        Err(Refused { code: status.as_u16(), reason: text("reason"), message: text("message") })
    }
}

/// The collection whose revision the answer to an action tells; empty where it tells one of everything.
fn collection_of(action: &Action) -> String {
    match action {
        Action::Create { resource, .. }
        | Action::Update { resource, .. }
        | Action::Patch { resource, .. }
        | Action::Delete { resource, .. } => resource.collection(),
        Action::DeleteCollection { .. } => String::new(),
        Action::Evict { .. } | Action::Bind { .. } => PODS.collection(),
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
pub fn verdict(action: &Action, answer: std::result::Result<Value, Refused>) -> Verdict {
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
    pub method: Method,
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
pub(crate) fn path(resource: &Resource, namespace: &str, name: &str, subresource: &str) -> String {
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

pub(crate) fn call(method: Method, path: String, content_type: &'static str, body: &Value) -> Call {
    Call { method, path, query: "", content_type, body: serde_json::to_vec(body).unwrap_or_default().into() }
}

/// An action as a request.
pub fn request_of(action: &Action) -> Call {
    match action {
        Action::Create { resource, namespace, object } => {
            call(Method::POST, path(resource, namespace, "", ""), JSON, object)
        }
        Action::Update { resource, subresource, object } => {
            call(Method::PUT, path(resource, object.namespace(), object.name(), subresource), JSON, object)
        }
        Action::Patch { resource, subresource, namespace, name, uid, patch } => {
            let path = path(resource, namespace, name, subresource);
            let (content_type, body, query) = patch_body(patch, uid);
            Call { query, ..call(Method::PATCH, path, content_type, &body) }
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
            call(Method::DELETE, path(resource, namespace, name, ""), JSON, &options)
        }
        Action::DeleteCollection { resource, namespace, propagation } => {
            let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            if let Some(propagation) = propagation {
                options.put(&["propagationPolicy"], policy(*propagation));
            }
            call(Method::DELETE, path(resource, namespace, "", ""), JSON, &options)
        }
        Action::Evict { namespace, name, uid } => {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": {"preconditions": {"uid": uid}},
            });
            call(Method::POST, path(&PODS, namespace, name, "eviction"), JSON, &eviction)
        }
        Action::Bind { namespace, name, uid, node } => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            call(Method::POST, path(&PODS, namespace, name, "binding"), JSON, &binding)
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
