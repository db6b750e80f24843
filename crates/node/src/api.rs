//! The node's requests to the API.

use std::sync::Arc;

use brain::{Action, Patch, Resource};
use bytes::Bytes;
use client::Transport;
use driver::{Call, Hands, Refused, Source, request_of};
use meta::ObjectExt;
use serde_json::{Value, json};

use crate::COMPONENT;

pub(crate) const PODS: Resource = Resource::new("", "v1", "pods");
const JSON: &str = "application/json";

/// The node's way to the API.
#[derive(Clone)]
pub(crate) struct Api {
    pub hands: Arc<Hands>,
}

impl Api {
    pub fn new(transport: Arc<dyn Transport>, source: Source) -> Api {
        Api { hands: Arc::new(Hands::new(transport, source, COMPONENT)) }
    }

    /// GET.
    pub async fn get(&self, path: String) -> Result<Value, Refused> {
        self.call("GET", path, &Value::Null).await
    }

    /// Any request with a JSON body.
    pub async fn call(&self, method: &'static str, path: String, body: &Value) -> Result<Value, Refused> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.hands.call(Call { method, path, query: "", content_type: JSON, body }).await
    }

    /// An action as a brain asks for it.
    pub async fn act(&self, action: &Action) -> Result<Value, Refused> {
        self.hands.call(request_of(action)).await
    }

    /// Patches the status of an object.
    pub async fn patch_status(&self, resource: Resource, object: &Value, patch: Value) -> Result<Value, Refused> {
        self.act(&Action::Patch {
            resource,
            subresource: "status",
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            patch: Patch::Strategic(patch),
        })
        .await
    }

    /// Removes a pod that has ended here.
    pub async fn remove_pod(&self, pod: &Value) -> Result<Value, Refused> {
        self.act(&Action::Delete {
            resource: PODS,
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            revision: None,
            propagation: None,
            grace_seconds: Some(0),
        })
        .await
    }

    /// A token of the pod's service account, bound to the pod.
    pub async fn token(&self, pod: &Value, audience: &str, seconds: i64) -> Result<String, Refused> {
        let account = pod.text(&["spec", "serviceAccountName"]);
        let audiences: Vec<&str> = Some(audience).filter(|audience| !audience.is_empty()).into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {
                "audiences": audiences, "expirationSeconds": seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid()},
            },
        });
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", pod.namespace());
        let answer = self.call("POST", path, &request).await?;
        Ok(answer.text(&["status", "token"]).to_owned())
    }
}
