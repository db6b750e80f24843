//! `pods/proxy` and `services/proxy`: a request handed to a server in a pod, and its answer handed back.

use std::sync::Arc;

use admit::{Attributes, UserInfo};
use api::route::Address;
use bytes::Bytes;
use client::Body;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use meta::{ApiError, GroupResource, ObjectExt, Reason};
use serde_json::Value;

use crate::app::App;
use crate::authn;
use crate::idle::Keeping;
use crate::nodes::PodId;
use crate::pods;
use crate::respond::full;

/// What belongs to one connection and not to the message, and what the asker proved itself with here.
const NOT_PASSED_ON: &[HeaderName] = &[
    header::AUTHORIZATION,
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether there is a server behind what is addressed.
pub fn serves(address: &Address) -> bool {
    let is_known = address.group.is_empty() && matches!(address.resource.as_str(), "pods" | "services");
    is_known && !address.name.is_empty() && !address.watch
}

/// Answers with what the server in the pod answers.
pub async fn answer(
    app: &Arc<App>,
    user: Arc<UserInfo>,
    http: &http::Request<Bytes>,
    address: &Address,
) -> Result<Response<Body>, ApiError> {
    authn::authorize(app, &attributes(user, http.method(), address))?;
    let path = path_behind(http.uri().path(), address);
    if path.is_empty() && matches!(*http.method(), Method::GET | Method::HEAD) {
        return Ok(redirect(http.uri()));
    }
    let asked = Asked::read(&address.name)?;
    let backend = match address.resource.as_str() {
        "pods" => of_pod(app, &address.namespace, &asked)?,
        _ => of_service(app, &address.namespace, &asked)?,
    };
    let place = pods::place(app)?;
    let unreachable = |error: &dyn std::fmt::Display| {
        ApiError::new(503, Reason::ServiceUnavailable, format!("error trying to reach service: {error}"))
    };
    let hand = app.hand(&backend.node)?;
    let connection = hand.forward(&backend.pod, backend.port).await.map_err(|error| unreachable(&error.message()))?;
    let (mut sender, carrying) = http1::handshake(TokioIo::new(connection)).await.map_err(|e| unreachable(&e))?;
    // Ends with the answer, or when nobody waits for it any more.
    tokio::spawn(carrying);
    let answered = sender.send_request(request(http, path, &backend)?).await.map_err(|error| unreachable(&error))?;
    let (mut parts, body) = answered.into_parts();
    strip(&mut parts.headers);
    let body = body.map_err(Into::into).boxed_unsync();
    Ok(Response::from_parts(parts, Keeping::new(body, place).boxed_unsync()))
}

/// What is asked for, as authorisation looks at it.
pub fn attributes(user: Arc<UserInfo>, method: &Method, address: &Address) -> Attributes {
    let verb = match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        // As upstream: only who may do everything may do this.
        _ => "",
    };
    address.attributes(&user, verb)
}

/// The path behind `proxy`, as it came. `/api/v1/namespaces/NS/pods/NAME/proxy` has seven words.
fn path_behind<'p>(path: &'p str, address: &Address) -> &'p str {
    let words = if address.namespace.is_empty() { 5 } else { 7 };
    path.match_indices('/').nth(words).map_or("", |(at, _)| &path[at..])
}

/// Links in a page are relative to its last slash.
fn redirect(uri: &Uri) -> Response<Body> {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(&format!("{}/{query}", uri.path())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    name: String,
    port: String,
}

impl Asked {
    fn read(text: &str) -> Result<Asked, ApiError> {
        let words: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match words.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return Err(ApiError::bad_request(format!("invalid request {text:?}"))),
        };
        match scheme {
            "" | "http" => Ok(Asked { name: name.to_owned(), port: port.to_owned() }),
            other => {
                Err(ApiError::bad_request(format!("requests over {other:?} are not passed on, only over \"http\"")))
            }
        }
    }
}

/// The server to ask.
#[derive(Debug, PartialEq, Eq)]
struct Backend {
    node: String,
    pod: PodId,
    port: u16,
}

fn stored(app: &App, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let snapshot = app.snapshot();
    let found = snapshot.get(&format!("core/{resource}"), &format!("{namespace}/{name}"));
    let missing = || ApiError::not_found(&GroupResource::new("", resource), name);
    let entry = found.ok_or_else(missing)?;
    serde_json::from_slice(&entry.value).map_err(|_| ApiError::internal("the object cannot be read"))
}

fn of_pod(app: &App, namespace: &str, asked: &Asked) -> Result<Backend, ApiError> {
    let pod = stored(app, "pods", namespace, &asked.name)?;
    let port = match asked.port.as_str() {
        "" => first_port(&pod),
        text => text.parse().map_err(|_| ApiError::bad_request(format!("invalid port {text:?}")))?,
    };
    backend(&pod, port)
}

/// The first that its containers declare.
fn first_port(pod: &Value) -> u16 {
    let mut ports = pod.items(&["spec", "containers"]).iter().flat_map(|container| container.items(&["ports"]));
    ports.find_map(|port| u16::try_from(port.int(&["containerPort"])?).ok()).unwrap_or(80)
}

fn backend(pod: &Value, port: u16) -> Result<Backend, ApiError> {
    let node = pod.text(&["spec", "nodeName"]);
    if node.is_empty() || pod.text(&["status", "podIP"]).is_empty() {
        return Err(ApiError::bad_request(format!("address not allowed: pod {:?} has no address yet", pod.name())));
    }
    Ok(Backend { node: node.to_owned(), pod: pods::id_of(pod), port })
}

fn of_service(app: &App, namespace: &str, asked: &Asked) -> Result<Backend, ApiError> {
    let service = stored(app, "services", namespace, &asked.name)?;
    let nobody = |why: String| ApiError::new(503, Reason::ServiceUnavailable, why);
    let name = port_name(&service, &asked.port)
        .ok_or_else(|| nobody(format!("no service port {:?} found for service {:?}", asked.port, asked.name)))?;
    let snapshot = app.snapshot();
    let prefix = format!("{namespace}/");
    let slices = snapshot.range("discovery.k8s.io/endpointslices", &prefix, "");
    let slices = slices.filter_map(|(_, entry)| serde_json::from_slice::<Value>(&entry.value).ok());
    let own = slices.filter(|slice| slice.label("kubernetes.io/service-name") == Some(&asked.name));
    for slice in own {
        let mut ports = slice.items(&["ports"]).iter().filter(|port| port.text(&["name"]) == name);
        let Some(port) = ports.find_map(|port| u16::try_from(port.int(&["port"])?).ok()) else { continue };
        let is_ready = |endpoint: &&Value| endpoint.at(&["conditions", "ready"]) != Some(&Value::Bool(false));
        for endpoint in slice.items(&["endpoints"]).iter().filter(is_ready) {
            let target = endpoint.text(&["targetRef", "name"]);
            if let Ok(found) = stored(app, "pods", namespace, target).and_then(|pod| backend(&pod, port)) {
                return Ok(found);
            }
        }
    }
    Err(nobody(format!("no endpoints available for service {:?}", asked.name)))
}

/// The name of the port that is meant by name or number; without one, of the only port.
fn port_name<'s>(service: &'s Value, asked: &str) -> Option<&'s str> {
    let ports = service.items(&["spec", "ports"]);
    let is_meant = |port: &&Value| {
        port.text(&["name"]) == asked || port.int(&["port"]).is_some_and(|number| number.to_string() == asked)
    };
    let found = if asked.is_empty() && ports.len() == 1 { ports.first() } else { ports.iter().find(is_meant) };
    found.map(|port| port.text(&["name"]))
}

fn request(http: &http::Request<Bytes>, path: &str, backend: &Backend) -> Result<http::Request<Full<Bytes>>, ApiError> {
    let path = if path.is_empty() { "/" } else { path };
    let query = http.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let uri: Uri =
        format!("{path}{query}").parse().map_err(|_| ApiError::bad_request("the path cannot be passed on"))?;
    let mut request = http::Request::new(Full::new(http.body().clone()));
    (*request.method_mut(), *request.uri_mut()) = (http.method().clone(), uri);
    let headers = request.headers_mut();
    headers.clone_from(http.headers());
    strip(headers);
    let host = HeaderValue::from_str(&format!("{}:{}", backend.pod.name, backend.port));
    headers.insert(header::HOST, host.map_err(|_| ApiError::bad_request("the host cannot be passed on"))?);
    Ok(request)
}

fn strip(headers: &mut HeaderMap) {
    for name in NOT_PASSED_ON {
        headers.remove(name);
    }
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_have_ports_and_schemes() {
        let check = |text: &str, name: &str, port: &str| {
            let expected = Asked { name: name.to_owned(), port: port.to_owned() };
            assert_eq!(Asked::read(text), Ok(expected), "{text}");
        };
        check("a", "a", "");
        check("a:80", "a", "80");
        check("http:a:web", "a", "web");
        check("http:a:", "a", "");
        assert!(Asked::read("https:a:443").is_err());
        assert!(Asked::read("a:b:c:d").is_err());
    }

    #[test]
    fn paths_are_passed_on_as_they_came() {
        let check = |path: &str, expected: &str| {
            let address = api::route::parse(path).expect("an address");
            assert_eq!(path_behind(path, &address), expected, "{path}");
        };
        check("/api/v1/namespaces/a/pods/p:80/proxy", "");
        check("/api/v1/namespaces/a/pods/p:80/proxy/", "/");
        check("/api/v1/namespaces/a/services/s/proxy/x/%20y/", "/x/%20y/");
        check("/api/v1/nodes/n/proxy/logs/", "/logs/");
    }

    #[test]
    fn ports_are_found_by_name_and_number() {
        let one = json!({"spec": {"ports": [{"port": 80}]}});
        let two = json!({"spec": {"ports": [{"port": 80, "name": "web"}, {"port": 81, "name": "more"}]}});
        let check = |service: &Value, asked: &str, expected: Option<&str>| {
            assert_eq!(port_name(service, asked), expected, "{asked}");
        };
        check(&one, "", Some(""));
        check(&one, "80", Some(""));
        check(&one, "81", None);
        check(&two, "more", Some("more"));
        check(&two, "80", Some("web"));
        check(&two, "", None);
    }

    #[test]
    fn what_proves_the_asker_stays_here() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "impersonate-user", "connection", "accept"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
