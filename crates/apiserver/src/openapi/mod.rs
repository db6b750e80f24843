//! OpenAPI: an index and one document a group version in v3, one document for everything in v2 (as JSON and in the
//! protobuf form that kubectl and helm ask for). Documents are made when first asked for.

mod definitions;
mod document;
mod gnostic;
mod operation;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use client::Body;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{Response, StatusCode};
use kinds::Catalog;
use meta::{ApiError, GroupVersion};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::discovery::version_path;
use crate::respond::{error_response, full, typed_response};

/// What clients ask for and what they are told they got; upstream's two names of one form.
const V2_PROTOBUF_ASKED: [&str; 2] = ["application/com.github.proto-openapi.spec.v2@v1.0+protobuf", V2_PROTOBUF];
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";
/// A document named by its hash never changes.
const FOREVER: &str = "public, immutable, max-age=31536000";

/// One document: its hash is needed (for the index) long before and more often than its text.
#[derive(Default)]
struct Document {
    hash: OnceLock<String>,
    bytes: OnceLock<Bytes>,
}

impl Document {
    fn hash(&self, make: impl FnOnce() -> Vec<u8>) -> &str {
        self.hash.get_or_init(|| hash(self.bytes.get().map_or_else(|| make().into(), Bytes::clone).as_ref()))
    }

    fn bytes(&self, make: impl FnOnce() -> Vec<u8>) -> &Bytes {
        self.bytes.get_or_init(|| make().into())
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Documents by group version.
type ByVersion = BTreeMap<GroupVersion, Document>;

/// The documents of group versions without custom kinds; they are the same whatever the catalog.
static BUILT_IN: LazyLock<(Catalog, ByVersion)> = LazyLock::new(|| {
    let catalog = Catalog::built_in();
    let documents = versions(&catalog).map(|gv| (gv, Document::default())).collect();
    (catalog, documents)
});

fn versions(catalog: &Catalog) -> impl Iterator<Item = GroupVersion> {
    let groups = catalog.groups().iter();
    groups.flat_map(|group| group.versions.iter().map(|version| GroupVersion::new(&*group.name, &**version)))
}

/// The documents of one catalog.
pub struct Documents {
    catalog: Arc<Catalog>,
    /// Of the group versions that have custom kinds.
    custom: ByVersion,
    index: OnceLock<Bytes>,
    v2: Document,
    v2_protobuf: Document,
}

impl Documents {
    /// None made yet.
    pub fn new(catalog: Arc<Catalog>) -> Documents {
        let has_custom = |gv: &GroupVersion| catalog.in_version(gv).any(|kind| kind.custom.is_some());
        let custom = versions(&catalog).filter(has_custom).map(|gv| (gv, Document::default())).collect();
        Documents { catalog, custom, index: OnceLock::new(), v2: Document::default(), v2_protobuf: Document::default() }
    }

    fn v3(&self, gv: &GroupVersion) -> Option<(&Document, &Catalog)> {
        match self.custom.get(gv) {
            Some(document) => Some((document, &self.catalog)),
            None => BUILT_IN.1.get(gv).map(|document| (document, &BUILT_IN.0)),
        }
    }

    /// Every group version with the address of its document.
    fn index(&self) -> &Bytes {
        self.index.get_or_init(|| {
            let paths = versions(&self.catalog).filter_map(|gv| {
                let (document, catalog) = self.v3(&gv)?;
                let hash = document.hash(|| document::v3(catalog, &gv));
                let path = version_path(&gv);
                Some((path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": address(&path, hash)})))
            });
            let paths: serde_json::Map<_, _> = paths.collect();
            serde_json::to_vec(&json!({"paths": paths})).unwrap_or_default().into()
        })
    }
}

fn address(version_path: &str, hash: &str) -> String {
    format!("/openapi/v3{version_path}?hash={hash}")
}

/// Answers `/openapi/v2`, `/openapi/v3` and below.
pub fn response(app: &Arc<App>, request: &http::Request<Bytes>) -> Option<Response<Body>> {
    let published = app.published();
    let documents = &published.openapi;
    let accept = header(request, &ACCEPT);
    match request.uri().path().trim_end_matches('/') {
        "/openapi/v2" => Some(v2_response(documents, request, accept)),
        "/openapi/v3" => Some(typed_response(200, JSON, full(documents.index().clone()))),
        path => {
            let gv = group_version(path.strip_prefix("/openapi/v3/")?)?;
            let (document, catalog) = documents.v3(&gv)?;
            if !accepts_json(accept) {
                return Some(error_response(&ApiError::not_acceptable(&[JSON])));
            }
            Some(v3_response(document, catalog, &gv, request))
        }
    }
}

/// `api/v1` or `apis/GROUP/VERSION`.
fn group_version(path: &str) -> Option<GroupVersion> {
    let mut words = path.split('/');
    let (group, version) = match words.next()? {
        "api" => ("", words.next()?),
        "apis" => (words.next()?, words.next()?),
        _ => return None,
    };
    words.next().is_none().then(|| GroupVersion::new(group, version))
}

fn v3_response(
    document: &Document,
    catalog: &Catalog,
    gv: &GroupVersion,
    request: &http::Request<Bytes>,
) -> Response<Body> {
    let bytes = document.bytes(|| document::v3(catalog, gv));
    let hash = document.hash(Vec::new);
    let asked = asked_hash(request);
    if asked.is_some_and(|asked| asked != hash) {
        return moved(&address(&version_path(gv), hash));
    }
    let mut response = document_response(request, JSON, bytes, hash);
    if asked.is_some() {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(FOREVER));
    }
    response
}

fn v2_response(documents: &Documents, request: &http::Request<Bytes>, accept: &str) -> Response<Body> {
    let catalog = &documents.catalog;
    let first = accept.split(',').find_map(|alternative| v2_form(alternative.trim()));
    match first {
        Some(JSON) => {
            let bytes = documents.v2.bytes(|| document::v2_json(catalog));
            document_response(request, JSON, bytes, documents.v2.hash(Vec::new))
        }
        Some(form) => {
            let bytes = documents.v2_protobuf.bytes(|| document::v2_protobuf(catalog));
            document_response(request, form, bytes, documents.v2_protobuf.hash(Vec::new))
        }
        None => error_response(&ApiError::not_acceptable(&[JSON, V2_PROTOBUF])),
    }
}

/// The form of v2 that an alternative of `Accept` means.
fn v2_form(alternative: &str) -> Option<&'static str> {
    if V2_PROTOBUF_ASKED.contains(&alternative) {
        return Some(V2_PROTOBUF);
    }
    accepts_json(alternative).then_some(JSON)
}

fn accepts_json(accept: &str) -> bool {
    let media_type = |alternative: &str| alternative.split(';').next().unwrap_or("").trim().to_owned();
    accept.split(',').any(|alternative| matches!(&*media_type(alternative), "" | JSON | "*/*" | "application/*"))
}

/// 200 with the document, or 304 for a client that has it.
fn document_response(request: &http::Request<Bytes>, form: &'static str, bytes: &Bytes, hash: &str) -> Response<Body> {
    let etag = format!("\"{hash}\"");
    let known = header(request, &IF_NONE_MATCH).split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag);
    let mut response = match known {
        true => typed_response(304, form, full(Bytes::new())),
        false => typed_response(200, form, full(bytes.clone())),
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn moved(to: &str) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn asked_hash(request: &http::Request<Bytes>) -> Option<&str> {
    let query = request.uri().query().unwrap_or("");
    query.split('&').find_map(|pair| pair.strip_prefix("hash=")).filter(|hash| !hash.is_empty())
}

fn header<'r>(request: &'r http::Request<Bytes>, name: &http::HeaderName) -> &'r str {
    request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}
