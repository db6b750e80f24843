//! Transports around a transport: one that acts as somebody else, one that can be shut, one that can be exchanged.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderValue, Request, Response};
use tokio::sync::watch;

use crate::{Body, BoxFuture, CallError, Transport};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// Acts as another user, which the transport's own must be allowed to.
pub struct Acting {
    through: Arc<dyn Transport>,
    user: HeaderValue,
    groups: Vec<HeaderValue>,
}

impl Acting {
    /// A transport that acts as `user`, a member of `groups`; `None` when a name cannot stand in a header.
    pub fn new(through: Arc<dyn Transport>, user: &str, groups: &[String]) -> Option<Acting> {
        let groups = groups.iter().map(|group| HeaderValue::from_str(group).ok()).collect::<Option<_>>()?;
        Some(Acting { through, user: HeaderValue::from_str(user).ok()?, groups })
    }
}

impl Transport for Acting {
    fn call(&self, mut request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
        let headers = request.headers_mut();
        headers.insert(IMPERSONATE_USER, self.user.clone());
        for group in &self.groups {
            headers.append(IMPERSONATE_GROUP, group.clone());
        }
        self.through.call(request)
    }
}

/// Lets requests through until it is shut; those under way are given up too.
pub struct Gated {
    through: Arc<dyn Transport>,
    shut: watch::Receiver<bool>,
}

impl Gated {
    /// A transport that works until `shut` is true or has nobody left to say so.
    pub fn new(through: Arc<dyn Transport>, shut: watch::Receiver<bool>) -> Gated {
        Gated { through, shut }
    }
}

impl Transport for Gated {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
        let mut shut = self.shut.clone();
        Box::pin(async move {
            let closed = async {
                let _ = shut.wait_for(|shut| *shut).await;
            };
            tokio::select! {
                biased;
                () = closed => Err(CallError { message: "this process may not act any more".to_owned() }),
                answer = self.through.call(request) => answer,
            }
        })
    }
}

/// A transport in whose place another can be put, as when a certificate was renewed. What is under way goes on.
pub struct Swap(RwLock<Arc<dyn Transport>>);

impl Swap {
    /// Begins with this one.
    pub fn new(first: Arc<dyn Transport>) -> Swap {
        Swap(RwLock::new(first))
    }

    /// From now on this one is used.
    pub fn replace(&self, next: Arc<dyn Transport>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

impl Transport for Swap {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
        let now = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async move { now.call(request).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    struct Echo;

    impl Transport for Echo {
        fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<Body>, CallError>> {
            let (parts, _) = request.into_parts();
            let told: Vec<_> = parts.headers.iter().map(|(name, value)| format!("{name}={value:?};")).collect();
            let body = Full::new(Bytes::from(told.concat())).map_err(|never| match never {}).boxed_unsync();
            Box::pin(async move { Ok(Response::new(body)) })
        }
    }

    #[tokio::test]
    async fn a_shut_gate_lets_nothing_through() {
        let shut = watch::Sender::new(false);
        let gated = Gated::new(Arc::new(Echo), shut.subscribe());
        assert!(gated.call(Request::new(Bytes::new())).await.is_ok());
        shut.send_replace(true);
        assert!(gated.call(Request::new(Bytes::new())).await.is_err());
        let orphaned = Gated::new(Arc::new(Echo), watch::Sender::new(false).subscribe());
        assert!(orphaned.call(Request::new(Bytes::new())).await.is_err(), "nobody is left who could shut it");
    }

    #[tokio::test]
    async fn acting_names_the_user_and_the_groups() {
        let acting = Acting::new(Arc::new(Echo), "system:x", &["a".into(), "b".into()]).expect("names");
        let answer = acting.call(Request::new(Bytes::new())).await.expect("an answer");
        let told = crate::read_all(answer.into_body(), 1024).await.expect("a body");
        let expected = r#"impersonate-user="system:x";impersonate-group="a";impersonate-group="b";"#;
        assert_eq!(String::from_utf8_lossy(&told), expected);
        assert!(Acting::new(Arc::new(Echo), "new\nline", &[]).is_none());
    }
}
