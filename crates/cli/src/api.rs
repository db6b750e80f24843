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
        let lost = |message: String| Refused { reason: String::new(), message };
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", "application/json")
            .header("user-agent", MANAGER)
            .body(body)
            .map_err(|error| lost(error.to_string()))?;
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
