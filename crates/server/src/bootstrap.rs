//! The objects that every cluster has, written through the API like any other.

use std::sync::Arc;

use admit::UserInfo;
use admit::user::MASTERS;
use apiserver::{App, InProcess};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::Transport;
use http::{Method, Request};
use meta::{Gvk, ObjectExt};
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};

use crate::StartError;

/// Most bytes of an answer worth reading here.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The range of the addresses of Services; `pki` takes the first one for `default/kubernetes`.
const SERVICE_CIDR: &str = "10.96.0.0/12";
/// Where the node-ipam controller reads the range of all pods' addresses.
const CLUSTER_NETWORK: &str = "cluster-network";
/// Where everybody may read whose cluster it is (kubeadm's name for it).
const CLUSTER_INFO: &str = "cluster-info";
/// Addresses of a node's pods, as upstream: 253 and the gateway.
const NODE_MASK: u8 = 24;

/// First objects that are on their way at a time: enough that few syncs of the log do for all, and half of the writes that
/// the API lets in, whatever the number of nodes.
const CALLS_MAX: usize = 100;

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
    /// The range of all pods' addresses.
    pub cluster_cidr: String,
}

/// Writes what is missing. Namespaces come first; the rest goes out together, so that the log syncs
/// a few times and not for each.
pub async fn write(app: &Arc<App>, facts: &Facts, simulated_nodes: usize) -> Result<(), StartError> {
    let objects = admit::bootstrap::objects();
    let (namespaces, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(|o| o["kind"] == "Namespace");
    create_all(app, namespaces).await?;
    let nodes = (0..simulated_nodes).map(agent::node_object);
    create_all(app, others.into_iter().chain(about_the_server(facts)).chain(nodes).collect()).await?;
    let network = json!({"cluster-cidr": facts.cluster_cidr, "node-cidr-mask-size": NODE_MASK.to_string()});
    keep_data(app, "kube-system", CLUSTER_NETWORK, network).await?;
    keep_data(app, "kube-public", CLUSTER_INFO, json!({"kubeconfig": facts.cluster_info()})).await
}

impl Facts {
    /// The server's address and authority, as kubeadm publishes them for those who join: a kubeconfig without a user.
    fn cluster_info(&self) -> String {
        let address = match self.address.contains(':') {
            true => format!("[{}]", self.address),
            false => self.address.clone(),
        };
        let cluster = json!({
            "certificate-authority-data": STANDARD.encode(&self.ca_pem),
            "server": format!("https://{address}:{}", self.port),
        });
        json!({
            "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "", "contexts": [], "users": [],
            "clusters": [{"name": "", "cluster": cluster}],
        })
        .to_string()
    }
}

/// Makes a ConfigMap, or brings its data up to date: a start may tell something new. (Nodes keep the ranges they have.)
async fn keep_data(app: &Arc<App>, namespace: &str, name: &str, data: Value) -> Result<(), StartError> {
    let transport = master(app);
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let Some(entry) = app.snapshot().get("core/configmaps", &format!("{namespace}/{name}")).cloned() else {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data,
        });
        return send(&transport, Method::POST, &path, "application/json", &object).await;
    };
    let stored: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    let is_same = |(key, value): (&String, &Value)| stored["data"].get(key) == Some(value);
    if data.as_object().into_iter().flatten().all(is_same) {
        return Ok(());
    }
    let patch = json!({ "data": data });
    send(&transport, Method::PATCH, &format!("{path}/{name}"), "application/merge-patch+json", &patch).await
}

async fn create_all(app: &Arc<App>, objects: Vec<Value>) -> Result<(), StartError> {
    let transport = master(app);
    let catalog = app.catalog();
    let snapshot = app.snapshot();
    let mut calls: JoinSet<Result<(), StartError>> = JoinSet::new();
    let ended = |done: Result<Result<(), StartError>, JoinError>| {
        done.unwrap_or_else(|error| Err(StartError::Bootstrap(error.to_string())))
    };
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
            if calls.len() == CALLS_MAX
                && let Some(done) = calls.join_next().await
            {
                ended(done)?;
            }
            calls.spawn(create(Arc::clone(&transport), path, object));
        }
    }
    while let Some(done) = calls.join_next().await {
        ended(done)?;
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

fn master(app: &Arc<App>) -> Arc<InProcess> {
    let user = UserInfo::new("system:apiserver", [MASTERS]).authenticated();
    Arc::new(InProcess::new(Arc::clone(app), user))
}

async fn create(transport: Arc<InProcess>, path: String, object: Value) -> Result<(), StartError> {
    send(&transport, Method::POST, &path, "application/json", &object).await
}

async fn send(
    transport: &InProcess,
    method: Method,
    path: &str,
    media: &str,
    object: &Value,
) -> Result<(), StartError> {
    let failed = |text: String| StartError::Bootstrap(format!("{path} {}: {text}", object.name()));
    let request = Request::builder()
        .uri(path)
        .method(method)
        .header("content-type", media)
        .header("user-agent", "setpoint")
        .body(Bytes::from(serde_json::to_vec(object).unwrap_or_default()))
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
