//! One request from its first byte to its response.

use std::sync::Arc;

use admit::{Attributes, UserInfo};
use api::route::{self, Address};
use api::{MediaType, Options, Payload, Request, Verb};
use bytes::Bytes;
use client::Body;
use http::header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH, USER_AGENT};
use http::{Method, Response};
use meta::{ApiError, GroupResource};
use tokio::sync::SemaphorePermit;

use crate::app::App;
use crate::authn::{self, Peer};
use crate::pods::{self, Asked};
use crate::{discovery, health, insight, metrics, negotiate, node_proxy, openapi, proxy, respond, shell, token};

/// Longest user agent remembered as a field manager (upstream's limit on manager names).
const AGENT_BYTES_MAX: usize = 128;
/// Most query pairs read: a command's words are one each, and a request's head bounds them too.
const QUERY_PAIRS_MAX: usize = 4_096;

/// Answers a request whose body has been read (and is within its limit).
pub async fn handle(app: &Arc<App>, peer: &Peer, request: http::Request<Bytes>) -> Response<Body> {
    match route_request(app, peer, &request).await {
        Ok(response) => response,
        Err(error) => respond::error_response(&error),
    }
}

async fn route_request(
    app: &Arc<App>,
    peer: &Peer,
    request: &http::Request<Bytes>,
) -> Result<Response<Body>, ApiError> {
    let user = authn::authenticate(app, peer, request.headers())?;
    let path = request.uri().path();
    match route::parse(path) {
        Some(address) => resource(app, peer, user, request, &address).await,
        None => {
            authorize_path(app, user, request.method(), path)?;
            path_response(app, request)
        }
    }
}

fn authorize_path(app: &App, user: Arc<UserInfo>, method: &Method, path: &str) -> Result<(), ApiError> {
    let verb = if method == Method::HEAD { "get".to_owned() } else { method.as_str().to_ascii_lowercase() };
    authn::authorize(app, &Attributes { user, verb, path: path.to_owned(), ..Attributes::default() })
}

/// What is not a resource: health, version, metrics, discovery, OpenAPI, the token issuer's documents.
fn path_response(app: &Arc<App>, request: &http::Request<Bytes>) -> Result<Response<Body>, ApiError> {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(ApiError::new(
            405,
            meta::Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        ));
    }
    let accept = header(request, &ACCEPT);
    let found = health::response(app, path, request.uri().query().unwrap_or(""))
        .or_else(|| discovery::response(app, path, accept))
        .or_else(|| openapi::response(app, request))
        .or_else(|| token::issuer_response(app, path));
    found.ok_or_else(not_found)
}

fn not_found() -> ApiError {
    ApiError::new(404, meta::Reason::NotFound, "the server could not find the requested resource")
}

async fn resource(
    app: &Arc<App>,
    peer: &Peer,
    user: Arc<UserInfo>,
    http: &http::Request<Bytes>,
    address: &Address,
) -> Result<Response<Body>, ApiError> {
    if address.subresource == "proxy" && proxy::serves(address) {
        return proxy::answer(app, user, http, address).await;
    }
    if address.subresource == "proxy" && node_proxy::serves(address) {
        return node_proxy::answer(app, user, http.method(), address).await;
    }
    let query = query_pairs(http.uri().query().unwrap_or(""))?;
    let flag = |name: &str| query.iter().any(|(key, value)| key == name && !matches!(value.as_str(), "false" | "0"));
    let resource = GroupResource::new(&*address.group, &*address.resource);
    let verb = address.verb(http.method().as_str(), flag("watch"));
    let verb = verb.ok_or_else(|| ApiError::method_not_allowed(&resource, http.method().as_str()))?;
    // Authorisation comes first: who may not ask does not learn what there is.
    authn::authorize(app, &attributes(&user, address, verb, &query))?;
    let target = address.target(&app.catalog()).ok_or_else(not_found)?;
    let verbs = match target.kind.subresource(&address.subresource) {
        Some(subresource) => &subresource.verbs,
        None => &target.kind.verbs,
    };
    if !verbs.is_empty() && !verbs.contains(&verb.as_str()) {
        return Err(ApiError::method_not_allowed(&resource, verb.as_str()));
    }
    if pods::is_stream(&target) {
        return pods::answer(Asked { app, user, target, query: &query, http }).await;
    }
    let include_object = query.iter().find(|(key, _)| key == "includeObject").map_or("", |(_, value)| value);
    let form = negotiate::representation(header(http, &ACCEPT), include_object, shows_rows(&target.kind))?;
    let body = payload(http, verb, &target.kind)?;
    let must_be_absent = header(http, &IF_NONE_MATCH) == "*";
    let options = Options { must_be_absent, ..Options::from_query(&query)? };
    let request = Request { user, verb, target, options, body, agent: agent(header(http, &USER_AGENT)) };
    if &*request.target.kind.group == insight::GROUP {
        return insight::answer(app, request).await;
    }
    let _permit = permit(app, peer, verb).await?;
    if (&*request.target.kind.plural, request.target.subresource.as_str()) == ("serviceaccounts", "token") {
        return token::request(app, &request);
    }
    if &*request.target.kind.plural == "tokenreviews" {
        return token::review(app, &request);
    }
    let answer = match &*request.target.kind.group {
        metrics::GROUP => metrics::answer(app, &request).await?,
        _ => shell::run(app, &request).await?,
    };
    Ok(respond::answer_response(app, answer, form, &request.target.kind))
}

/// Whether there are objects to be shown as rows or by their metadata: not for reviews, which are only answered.
fn shows_rows(kind: &kinds::KindDef) -> bool {
    kind.verbs.is_empty() || kind.verbs.contains(&"get")
}

fn attributes(user: &Arc<UserInfo>, address: &Address, verb: Verb, query: &[(String, String)]) -> Attributes {
    let fields = query.iter().find(|(key, _)| key == "fieldSelector");
    let field_selector = fields.and_then(|(_, text)| meta::fields::FieldSelector::parse(text).ok());
    let named = field_selector.as_ref().and_then(|fields| fields.exact("metadata.name")).filter(|_| !verb.is_write());
    let name = if address.name.is_empty() { named.unwrap_or("").to_owned() } else { address.name.clone() };
    // Connecting to a pod is doing something there, whatever the method says.
    let verb = match address.subresource.as_str() {
        "exec" | "attach" | "portforward" => "create",
        _ => verb.as_str(),
    };
    Attributes { name, field_selector, ..address.attributes(user, verb) }
}

/// A place among the requests in flight, or 429. Watches hold none: they wait, they do not work. Components of this process
/// have places of their own and wait for one: each has few requests at a time, and a controller that catches up must not
/// lock users out, nor they it.
async fn permit<'a>(app: &'a App, peer: &Peer, verb: Verb) -> Result<Option<SemaphorePermit<'a>>, ApiError> {
    let full = || ApiError::too_many_requests("Too many requests, please try again later.", 1);
    let places = match verb {
        Verb::Watch => return Ok(None),
        _ if peer.is_inside => return app.inside.acquire().await.map(Some).map_err(|_| full()),
        verb if verb.is_write() => &app.writes,
        _ => &app.reads,
    };
    places.try_acquire().map(Some).map_err(|_| full())
}

fn payload(http: &http::Request<Bytes>, verb: Verb, kind: &kinds::KindDef) -> Result<Payload, ApiError> {
    let bytes = http.body().clone();
    if !verb.is_write() || bytes.is_empty() {
        return Ok(Payload { media_type: MediaType::Json, bytes });
    }
    let content_type = header(http, &CONTENT_TYPE);
    let accepted: &[&str] = match verb {
        Verb::Patch => api::accepted_patches(kind.custom.is_some()),
        _ => &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
    };
    let is_patch =
        |media_type: MediaType| !matches!(media_type, MediaType::Json | MediaType::Yaml | MediaType::Protobuf);
    match MediaType::parse(content_type) {
        Some(media_type) if is_patch(media_type) == (verb == Verb::Patch) => Ok(Payload { media_type, bytes }),
        _ => Err(ApiError::unsupported_media_type(accepted)),
    }
}

fn header<'r>(http: &'r http::Request<Bytes>, name: &http::HeaderName) -> &'r str {
    http.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// The first word of the user agent, without its version: `kubectl/v1.37` is the manager `kubectl`.
fn agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or("");
    let printable: String = name.chars().filter(|c| !c.is_control()).collect();
    let mut cut = printable.len().min(AGENT_BYTES_MAX);
    while !printable.is_char_boundary(cut) {
        cut -= 1;
    }
    printable[..cut].to_owned()
}

/// Decodes `a=b&c=d`.
pub fn query_pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let bad = || ApiError::bad_request("the query cannot be decoded");
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.take(QUERY_PAIRS_MAX + 1).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(key)?, decode(value)?))
    });
    let decoded: Option<Vec<_>> = decoded.collect();
    decoded.filter(|pairs| pairs.len() <= QUERY_PAIRS_MAX).ok_or_else(bad)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pairs = query_pairs("labelSelector=a%3Db%2Cc&watch&x=1+2").expect("decodes");
        assert_eq!(pairs[0], ("labelSelector".to_owned(), "a=b,c".to_owned()));
        assert_eq!(pairs[1], ("watch".to_owned(), String::new()));
        assert_eq!(pairs[2].1, "1 2");
        assert!(query_pairs("a=%zz").is_err());
    }

    #[test]
    fn agents_are_managers() {
        assert_eq!(agent("kubectl/v1.37.1 (linux/amd64)"), "kubectl");
        assert_eq!(agent(""), "");
    }
}
