//! `nodes/proxy`: the pages that a node shows of itself, as the kubelet does. Only these and only to be read: everything else
//! that is asked of a node has a subresource of its own.

use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use api::route::Address;
use bytes::Bytes;
use client::Body;
use http::{Method, Response};
use meta::{ApiError, GroupResource, Reason};

use crate::app::App;
use crate::nodes::Page;
use crate::{authn, pods, proxy, respond};

/// The kubelet's port: what is asked of it is asked of the node, which has no other.
const KUBELET_PORT: &str = "10250";
/// How long a page may take: the node may have to look twice, a second apart, and each look asks its runtime about every
/// container.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Whether this is addressed.
pub fn serves(address: &Address) -> bool {
    address.group.is_empty() && address.resource == "nodes" && !address.name.is_empty() && !address.watch
}

/// Answers with the page.
pub async fn answer(
    app: &Arc<App>,
    user: Arc<UserInfo>,
    method: &Method,
    address: &Address,
) -> Result<Response<Body>, ApiError> {
    let name = node_of(&address.name)?;
    let own = Address { name: name.to_owned(), ..address.clone() };
    authn::authorize(app, &proxy::attributes(user, method, &own))?;
    let resource = GroupResource::new("", "nodes");
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed(&resource, method.as_str()));
    }
    if app.snapshot().get("core/nodes", name).is_none() {
        return Err(ApiError::not_found(&resource, name));
    }
    let page = Page::of(&address.tail).ok_or_else(|| {
        let known: Vec<&str> = Page::ALL.into_iter().map(Page::path).collect();
        let message = format!("the node has no page {:?}, only {}", address.tail, known.join(", "));
        ApiError::new(404, Reason::NotFound, message)
    })?;
    let _place = pods::place(app)?;
    let late = |_| {
        let message = format!("node {name:?} does not show its page within {} seconds", PAGE_TIMEOUT.as_secs());
        ApiError::new(504, Reason::Timeout, message)
    };
    let hand = app.hand(name)?;
    let shown: Bytes = tokio::time::timeout(PAGE_TIMEOUT, hand.page(page)).await.map_err(late)??;
    Ok(respond::typed_response(200, page.content_type(), respond::full(shown)))
}

/// The node that `NAME`, `NAME:10250` or `https:NAME:10250` means.
fn node_of(text: &str) -> Result<&str, ApiError> {
    let words: Vec<&str> = text.split(':').collect();
    match words.as_slice() {
        [name] => Ok(name),
        [name, port] | ["" | "https", name, port] if matches!(*port, "" | KUBELET_PORT) => Ok(name),
        _ => Err(ApiError::bad_request(format!(
            "invalid node request {text:?}: a node is asked by its name, or as https:NAME:{KUBELET_PORT}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_by_name() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(node_of(text).ok(), expected, "{text}");
        check("n", Some("n"));
        check("n:", Some("n"));
        check("n:10250", Some("n"));
        check("https:n:10250", Some("n"));
        check("http:n:10250", None);
        check("n:22", None);
        check("https:n:10250:x", None);
    }

    #[test]
    fn pages_are_known_by_their_paths() {
        let check = |path: &str, expected: Option<Page>| {
            let address = api::route::parse(&format!("/api/v1/nodes/n/proxy{path}")).expect("an address");
            assert!(serves(&address));
            assert_eq!(Page::of(&address.tail), expected, "{path}");
        };
        check("/stats/summary", Some(Page::Summary));
        check("/metrics/resource", Some(Page::Resources));
        check("/healthz", Some(Page::Health));
        check("/healthz/", Some(Page::Health));
        check("/pods", Some(Page::Pods));
        check("/run/x", None);
        check("", None);
    }
}
