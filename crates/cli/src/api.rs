//! A client of the public API: finds where kinds are served, applies, reads, deletes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use client::Transport;
use http::{Method, Request};
use meta::ObjectExt;
use serde_json::{Value, json};

/// Most bytes of an answer: a list of a namespace's pods is a few megabytes at most.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The field manager of what is applied from files.
const MANAGER: &str = "setpoint";

/// A request that was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// `status.reason`; empty when no answer came.
    pub reason: String,
    /// `status.message`.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

/// Where one kind is served.
#[derive(Clone, Debug)]
struct Served {
    root: String,
    plural: String,
    is_namespaced: bool,
}

/// The client.
pub(crate) struct Api {
    transport: Arc<dyn Transport>,
    served: Mutex<BTreeMap<(String, String), Served>>,
}

impl Api {
    pub fn new(transport: Arc<dyn Transport>) -> Api {
        Api { transport, served: Mutex::default() }
    }

    /// Sends a request and reads its answer.
    pub async fn call(&self, method: Method, path: &str, media: &str, body: &Value) -> Result<Value, Refused> {
        self.call_if(method, path, media, body, false).await
    }

    /// The same; `if_absent` asks that there is no such object.
    async fn call_if(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
        if_absent: bool,
    ) -> Result<Value, Refused> {
        let lost = |message: String| Refused { reason: String::new(), message };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", "application/json")
            .header("user-agent", MANAGER);
        let request = if if_absent { request.header("if-none-match", "*") } else { request };
        let request = request.body(body).map_err(|error| lost(error.to_string()))?;
        let answer = self.transport.call(request).await.map_err(|error| lost(error.to_string()))?;
        let status = answer.status();
        let bytes = client::read_all(answer.into_body(), ANSWER_BYTES_MAX).await.map_err(|e| lost(e.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        match status.is_success() {
            true => Ok(value),
            false => Err(Refused {
                reason: value.text(&["reason"]).to_owned(),
                message: value.text(&["message"]).to_owned(),
            }),
        }
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Result<Value, Refused> {
        self.call(Method::GET, path, "application/json", &Value::Null).await
    }

    /// The address of an object.
    pub async fn address(&self, object: &Value) -> Result<String, Refused> {
        let served = self.served(object).await?;
        let place = match (served.is_namespaced, object.namespace()) {
            (false, _) => String::new(),
            (true, "") => "/namespaces/default".to_owned(),
            (true, namespace) => format!("/namespaces/{namespace}"),
        };
        Ok(format!("{}{place}/{}/{}", served.root, served.plural, object.name()))
    }

    /// Server-side apply. What somebody else holds is a conflict.
    pub async fn apply(&self, object: &Value) -> Result<Value, Refused> {
        let address = self.address(object).await?;
        let path = format!("{address}?fieldManager={MANAGER}&fieldValidation=Strict");
        self.call(Method::PATCH, &path, "application/apply-patch+yaml", object).await
    }

    /// Server-side apply as a plan has it: on the very revision that it was worked out on, or on none.
    pub async fn apply_planned(&self, object: &Value, change: &planner::Change, force: bool) -> Result<Value, Refused> {
        let mut object = object.clone();
        let is_new = change.uid.is_empty();
        if !is_new {
            object.put(&["metadata", "uid"], change.uid.clone());
            object.put(&["metadata", "resourceVersion"], change.resource_version.clone());
        }
        let address = self.address(&object).await?;
        let force = if force { "&force=true" } else { "" };
        let path = format!("{address}?fieldManager={MANAGER}&fieldValidation=Strict{force}");
        self.call_if(Method::PATCH, &path, "application/apply-patch+yaml", &object, is_new).await
    }

    /// Puts an object in the place of the live one, on the very revision that a plan was worked out on.
    pub async fn update_planned(&self, object: &Value, change: &planner::Change) -> Result<Value, Refused> {
        let mut object = object.clone();
        object.put(&["metadata", "uid"], change.uid.clone());
        object.put(&["metadata", "resourceVersion"], change.resource_version.clone());
        let path = format!("{}?fieldManager={MANAGER}", self.address(&object).await?);
        self.call(Method::PUT, &path, "application/json", &object).await
    }

    /// Changes an annotation of an object.
    pub async fn annotate(&self, object: &Value, key: &str, value: &str) -> Result<Value, Refused> {
        let path = format!("{}?fieldManager={MANAGER}-acknowledge", self.address(object).await?);
        let patch = json!({"metadata": {"annotations": {key: value}}});
        self.call(Method::PATCH, &path, "application/merge-patch+json", &patch).await
    }

    /// Deletes an object as a plan has it: the very one, at the very revision.
    pub async fn delete_planned(&self, change: &planner::Change) -> Result<(), Refused> {
        let address = self.address(&change.object.manifest()).await?;
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": change.uid, "resourceVersion": change.resource_version}});
        self.call(Method::DELETE, &address, "application/json", &options).await.map(|_| ())
    }

    /// Asks a question of `setpoint.dev`; the answer's status.
    pub async fn ask(&self, kind: &str, plural: &str, spec: Value) -> Result<Value, Refused> {
        let path = format!("/apis/{}/{plural}", planner::API_VERSION);
        let question = json!({"apiVersion": planner::API_VERSION, "kind": kind, "spec": spec});
        let mut answer = self.call(Method::POST, &path, "application/json", &question).await?;
        Ok(answer.get_mut("status").map(Value::take).unwrap_or_default())
    }

    /// Deletes an object with what it owns.
    pub async fn delete(&self, object: &Value) -> Result<(), Refused> {
        let address = self.address(object).await?;
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"});
        match self.call(Method::DELETE, &address, "application/json", &options).await {
            Err(refused) if refused.reason != "NotFound" => Err(refused),
            _ => Ok(()),
        }
    }

    async fn served(&self, object: &Value) -> Result<Served, Refused> {
        let (version, kind) = (object.text(&["apiVersion"]).to_owned(), object.text(&["kind"]).to_owned());
        let key = (version.clone(), kind.clone());
        if let Some(known) = self.served.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let none = || Refused {
            reason: "NotFound".to_owned(),
            message: format!("no matches for kind \"{kind}\" in version \"{version}\""),
        };
        let list = self.get(&root).await.map_err(|_| none())?;
        let is_it = |r: &&Value| r.text(&["kind"]) == kind && !r.text(&["name"]).contains('/');
        let found = list.items(&["resources"]).iter().find(is_it).ok_or_else(none)?;
        let served =
            Served { root, plural: found.text(&["name"]).to_owned(), is_namespaced: found.flag(&["namespaced"]) };
        self.served.lock().unwrap_or_else(PoisonError::into_inner).insert(key, served.clone());
        Ok(served)
    }
}
