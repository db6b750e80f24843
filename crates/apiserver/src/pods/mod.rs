//! Streams of pods: logs, commands, terminals, connections. Who may is decided before; here the pod is looked up, its
//! node asked, and bytes are carried.

mod forward;
mod log;
mod session;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use api::{Body as AnswerBody, Options, Payload, Request, Target, Verb};
use bytes::Bytes;
use client::Body;
use http::Response;
use meta::{ApiError, ObjectExt};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::nodes::PodId;
use crate::shell;

/// Streams carried at a time. Each holds a few descriptors and, while it moves, some hundred kilobytes.
pub(crate) const STREAMS_MAX: usize = 1_024;

/// How long nothing may move on a stream of a process or a port (upstream's limit).
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 60 * 60);

/// One request for a stream of a pod.
pub struct Asked<'r> {
    /// What is served.
    pub app: &'r Arc<App>,
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// Of which pod, by which subresource.
    pub target: Target,
    /// How.
    pub query: &'r [(String, String)],
    /// As it came.
    pub http: &'r http::Request<Bytes>,
}

/// Whether a target is a stream of a pod.
pub fn is_stream(target: &Target) -> bool {
    let is_pod = target.kind.group.is_empty() && &*target.kind.plural == "pods";
    is_pod && matches!(target.subresource.as_str(), "log" | "exec" | "attach" | "portforward")
}

/// Answers a request for which [`is_stream`] holds.
pub async fn answer(asked: Asked<'_>) -> Result<Response<Body>, ApiError> {
    match asked.target.subresource.as_str() {
        "log" => log::answer(&asked).await,
        "portforward" => forward::answer(&asked).await,
        _ => session::answer(&asked).await,
    }
}

impl Asked<'_> {
    /// The pod, as whoever asks would get it.
    async fn pod(&self) -> Result<Value, ApiError> {
        let target = Target { subresource: String::new(), ..self.target.clone() };
        let (user, options) = (Arc::clone(&self.user), Options::default());
        let request =
            Request { user, verb: Verb::Get, target, options, body: Payload::default(), agent: String::new() };
        match shell::run(self.app, &request).await?.body {
            AnswerBody::Entry(entry) => {
                serde_json::from_slice(&entry.value).map_err(|_| ApiError::internal("the pod cannot be read"))
            }
            AnswerBody::Tree(pod) => Ok(pod),
            _ => Err(ApiError::internal("the pod cannot be read")),
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        place(self.app)
    }
}

/// A place among the streams, or 429.
pub fn place(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let full = |_| ApiError::too_many_requests("Too many streams, please try again later.", 1);
    Arc::clone(&app.streams).try_acquire_owned().map_err(full)
}

/// Which pod an object is.
pub fn id_of(pod: &Value) -> PodId {
    PodId { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid: pod.uid().to_owned() }
}
