//! Discovery: which groups, versions and resources there are, in the plain and the aggregated form. Made once a catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use client::Body;
use http::Response;
use http::header::{ETAG, HeaderValue, VARY};
use kinds::{Catalog, KindDef, Scope};
use meta::GroupVersion;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::catalog::Source;
use crate::negotiate;
use crate::respond::{full, json_response, typed_response};

const ALL_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A catalog with its documents.
pub struct Published {
    /// The kinds.
    pub catalog: Arc<Catalog>,
    /// What they were read from.
    pub source: Source,
    documents: BTreeMap<String, Bytes>,
    aggregated: BTreeMap<&'static str, (Bytes, String)>,
    /// OpenAPI documents, made when first asked for.
    pub openapi: crate::openapi::Documents,
}

impl Published {
    /// Reads a catalog and makes its documents.
    pub fn new(source: Source) -> Published {
        let catalog = Arc::new(source.read());
        let mut documents = BTreeMap::new();
        let mut put = |path: String, tree: Value| drop(documents.insert(path, to_bytes(&tree)));
        put("/api".to_owned(), legacy_versions());
        put("/apis".to_owned(), group_list(&catalog));
        for group in catalog.groups() {
            if !group.name.is_empty() {
                put(format!("/apis/{}", group.name), group_document(group, true));
            }
            for version in &group.versions {
                let gv = GroupVersion::new(&*group.name, &**version);
                put(version_path(&gv), resource_list(&catalog, &gv));
            }
        }
        let aggregated = ["/api", "/apis"].map(|root| {
            let bytes = to_bytes(&aggregated(&catalog, root == "/api"));
            let hash: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect();
            (root, (bytes, hash))
        });
        let openapi = crate::openapi::Documents::new(Arc::clone(&catalog));
        Published { catalog, source, documents, aggregated: BTreeMap::from(aggregated), openapi }
    }
}

/// Answers `/`, `/api`, `/apis` and below.
pub fn response(app: &Arc<App>, path: &str, accept: &str) -> Option<Response<Body>> {
    let published = app.published();
    let path = if path == "/" { path } else { path.trim_end_matches('/') };
    if let Some((bytes, hash)) =
        published.aggregated.get(path).filter(|_| negotiate::wants_aggregated_discovery(accept))
    {
        let mut response = typed_response(200, AGGREGATED, full(bytes.clone()));
        if let Ok(etag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
            response.headers_mut().insert(ETAG, etag);
        }
        response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
        return Some(response);
    }
    if path == "/" {
        let paths: Vec<&String> = published.documents.keys().collect();
        let more = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
        let all: Vec<&str> = paths.into_iter().map(String::as_str).chain(more).collect();
        return Some(json_response(200, to_bytes(&json!({"paths": all}))));
    }
    let document = published.documents.get(path)?;
    let mut response = json_response(200, document.clone());
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

fn to_bytes(tree: &Value) -> Bytes {
    serde_json::to_vec(tree).unwrap_or_default().into()
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
pub fn version_path(gv: &GroupVersion) -> String {
    if gv.group.is_empty() { format!("/api/{}", gv.version) } else { format!("/apis/{gv}") }
}

fn legacy_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

fn group_document(group: &kinds::Group, with_kind: bool) -> Value {
    let version = |version: &str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|v| version(v)).collect();
    let mut document = json!({
        "name": group.name, "versions": versions, "preferredVersion": version(&group.preferred().version),
    });
    if with_kind {
        document["kind"] = json!("APIGroup");
        document["apiVersion"] = json!("v1");
    }
    document
}

fn group_list(catalog: &Catalog) -> Value {
    let groups: Vec<Value> =
        catalog.groups().iter().filter(|g| !g.name.is_empty()).map(|g| group_document(g, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn verbs(kind: &KindDef) -> Vec<&'static str> {
    if kind.verbs.is_empty() { ALL_VERBS.to_vec() } else { kind.verbs.clone() }
}

fn resource_list(catalog: &Catalog, gv: &GroupVersion) -> Value {
    let mut resources = Vec::new();
    for kind in catalog.in_version(gv) {
        let namespaced = kind.scope == Scope::Namespaced;
        let mut resource = json!({
            "name": &*kind.plural, "singularName": &*kind.singular, "namespaced": namespaced, "kind": &*kind.kind,
            "verbs": verbs(kind),
        });
        for (key, words) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
            if !words.is_empty() {
                resource[key] = words.iter().map(|w| json!(&**w)).collect();
            }
        }
        if kind.is_stored() {
            resource["storageVersionHash"] = json!(storage_hash(kind));
        }
        resources.push(resource);
        for subresource in &kind.subresources {
            let spoken = subresource.kind.as_ref();
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, subresource.name), "singularName": "", "namespaced": namespaced,
                "kind": spoken.map_or(&*kind.kind, |gvk| &gvk.kind), "verbs": subresource.verbs,
            });
            if let Some(gvk) = spoken.filter(|gvk| gvk.group != *kind.group || gvk.version != *kind.version) {
                entry["group"] = json!(gvk.group);
                entry["version"] = json!(gvk.version);
            }
            resources.push(entry);
        }
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv.to_string(), "resources": resources})
}

/// Eight bytes that say which version is stored: clients compare them to see a storage migration.
fn storage_hash(kind: &KindDef) -> String {
    use base64::Engine as _;
    let stored = kind.conversion.as_ref().map_or_else(|| kind.gvk(), |conversion| conversion.hub.clone());
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, stored.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn aggregated(catalog: &Catalog, legacy: bool) -> Value {
    let groups: Vec<Value> = catalog
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == legacy)
        .map(|group| {
            let versions: Vec<Value> =
                group.versions.iter().map(|v| aggregated_version(catalog, &group.name, v)).collect();
            let metadata = if legacy {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group.name, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

fn aggregated_version(catalog: &Catalog, group: &str, version: &str) -> Value {
    let gv = GroupVersion::new(group, version);
    let response_kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let resources: Vec<Value> = catalog
        .in_version(&gv)
        .map(|kind| {
            let mut resource = json!({
                "resource": &*kind.plural, "singularResource": &*kind.singular,
                "responseKind": response_kind(group, version, &kind.kind),
                "scope": if kind.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
                "verbs": verbs(kind),
            });
            for (key, words) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
                if !words.is_empty() {
                    resource[key] = words.iter().map(|w| json!(&**w)).collect();
                }
            }
            if !kind.subresources.is_empty() {
                let subresources = kind.subresources.iter().map(|s| {
                    let spoken = s.kind.as_ref().map_or_else(
                        || response_kind(group, version, &kind.kind),
                        |gvk| response_kind(&gvk.group, &gvk.version, &gvk.kind),
                    );
                    json!({"subresource": &*s.name, "responseKind": spoken, "verbs": s.verbs})
                });
                resource["subresources"] = subresources.collect();
            }
            resource
        })
        .collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}
