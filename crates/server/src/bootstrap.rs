//! The objects that every cluster has, written through the API like any other.

use std::sync::Arc;

use admit::UserInfo;
use admit::user::MASTERS;
use apiserver::{App, InProcess};
use bytes::Bytes;
use client::Transport;
use http::{Method, Request};
use meta::{Gvk, ObjectExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::StartError;

/// Most bytes of an answer worth reading here.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The range of the addresses of Services; `pki` takes the first one for `default/kubernetes`.
const SERVICE_CIDR: &str = "10.96.0.0/12";

/// What the first objects say about this server.
pub struct Facts {
    /// The authority's certificate, PEM.
    pub ca_pem: String,
    /// The authority of front proxies, PEM.
    pub front_proxy_ca_pem: String,
    /// The API's port on this machine.
    pub port: u16,
    /// An address at which the API is reached.
    pub address: String,
    /// Address of the Service `default/kubernetes`.
    pub service_address: String,
}

/// Writes what is missing. Namespaces come first; the rest goes out at once, so that the log syncs once.
pub async fn write(app: &Arc<App>, facts: &Facts, simulated_nodes: usize) -> Result<(), StartError> {
    let objects = admit::bootstrap::objects();
    let (namespaces, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(|o| o["kind"] == "Namespace");
    create_all(app, namespaces).await?;
    let nodes = (0..simulated_nodes).map(agent::node_object);
    create_all(app, others.into_iter().chain(about_the_server(facts)).chain(nodes).collect()).await
}

async fn create_all(app: &Arc<App>, objects: Vec<Value>) -> Result<(), StartError> {
    let user = UserInfo::new("system:apiserver", [MASTERS]).authenticated();
    let transport = Arc::new(InProcess::new(Arc::clone(app), user));
    let catalog = app.catalog();
    let snapshot = app.snapshot();
    let mut calls = JoinSet::new();
    for object in objects {
        let kind = object.gvk().and_then(|gvk: Gvk| catalog.kind(&gvk).cloned());
        let Some(kind) = kind else {
            return Err(StartError::Bootstrap(format!("no such kind: {} {}", object["apiVersion"], object["kind"])));
        };
        let item = match object.namespace() {
            "" => object.name().to_owned(),
            namespace => format!("{namespace}/{}", object.name()),
        };
        if snapshot.get(&kind.collection(), &item).is_none() {
            let path = api_path(&kind.gvr(), object.namespace());
            calls.spawn(create(Arc::clone(&transport), path, object));
        }
    }
    while let Some(done) = calls.join_next().await {
        done.map_err(|error| StartError::Bootstrap(error.to_string()))??;
    }
    Ok(())
}

fn api_path(gvr: &meta::Gvr, namespace: &str) -> String {
    let root = match gvr.group.as_str() {
        "" => format!("/api/{}", gvr.version),
        group => format!("/apis/{group}/{}", gvr.version),
    };
    match namespace {
        "" => format!("{root}/{}", gvr.resource),
        namespace => format!("{root}/namespaces/{namespace}/{}", gvr.resource),
    }
}

async fn create(transport: Arc<InProcess>, path: String, object: Value) -> Result<(), StartError> {
    let failed = |text: String| StartError::Bootstrap(format!("{} {}: {text}", object["kind"], object.name()));
    let request = Request::builder()
        .uri(&path)
        .method(Method::POST)
        .header("user-agent", "setpoint")
        .body(Bytes::from(serde_json::to_vec(&object).unwrap_or_default()))
        .map_err(|error| failed(error.to_string()))?;
    let response = transport.call(request).await.map_err(|error| failed(error.to_string()))?;
    // Somebody else may have been faster: what matters is that it is there.
    if response.status().is_success() || response.status() == http::StatusCode::CONFLICT {
        return Ok(());
    }
    let answer = client::read_all(response.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
    let status: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Err(failed(status.text(&["message"]).to_owned()))
}

/// The Service that clients inside find the API by, and the certificates they trust it by.
fn about_the_server(facts: &Facts) -> Vec<Value> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [SERVICE_CIDR]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
            "spec": {
                "type": "ClusterIP", "clusterIP": facts.service_address, "clusterIPs": [facts.service_address],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": facts.port}],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [{
                "addresses": [{"ip": facts.address}],
                "ports": [{"name": "https", "port": facts.port, "protocol": "TCP"}],
            }],
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [facts.address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": facts.port, "protocol": "TCP"}],
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": facts.ca_pem,
                "requestheader-client-ca-file": facts.front_proxy_ca_pem,
                "requestheader-allowed-names": "[\"front-proxy-client\"]",
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
            },
        }),
    ]
}
