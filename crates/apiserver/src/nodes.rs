//! What the API asks of the node that a pod is on: a log, a process, a connection, what is used. The node of this
//! process implements it directly; one on another machine may stand behind a connection.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use api::pod_streams::LogOptions;
use bytes::Bytes;
use client::BoxFuture;
use contract::{Connection, ExecSpec, Session};
use meta::{ApiError, Time};
use tokio::sync::mpsc;

/// Which pod, and which of its lives under that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodId {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// Why a node does not do what it is asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// It is not there (any more).
    NotFound(String),
    /// It makes no sense as things are.
    BadRequest(String),
    /// It went wrong.
    Internal(String),
}

impl NodeError {
    /// What to tell people.
    pub fn message(&self) -> &str {
        match self {
            NodeError::NotFound(message) | NodeError::BadRequest(message) | NodeError::Internal(message) => message,
        }
    }
}

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> ApiError {
        match error {
            NodeError::NotFound(message) => ApiError::new(404, meta::Reason::NotFound, message),
            NodeError::BadRequest(message) => ApiError::bad_request(message),
            NodeError::Internal(message) => ApiError::internal(message),
        }
    }
}

/// What a node answers.
pub type NodeAnswer<'a, T> = BoxFuture<'a, Result<T, NodeError>>;

/// The text of a log in pieces. Its end is the log's end; dropping it ends the reading.
pub type LogText = mpsc::Receiver<Bytes>;

/// What something uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Nanoseconds of processor time a second.
    pub cpu_nanos: u64,
    /// Bytes of memory that cannot be had back at once (the working set).
    pub memory_bytes: u64,
}

/// What a node uses, and each container on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// The end of the time over which it was measured.
    pub at: Time,
    /// The length of that time.
    pub window: Duration,
    /// The whole machine.
    pub node: Used,
    /// By pod's uid and container's name.
    pub pods: BTreeMap<String, BTreeMap<String, Used>>,
}

/// Bytes of a page: a thousand pods of ten kibibytes, and some room.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// What a node shows of itself, as the kubelet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Page {
    /// That it answers.
    Health,
    /// Its pods.
    Pods,
    /// What is used, for Prometheus.
    Resources,
    /// What is used, all at once.
    Summary,
}

impl Page {
    /// Every one.
    pub const ALL: [Page; 4] = [Page::Health, Page::Pods, Page::Resources, Page::Summary];

    /// Where it is.
    pub fn path(self) -> &'static str {
        match self {
            Page::Health => "/healthz",
            Page::Pods => "/pods",
            Page::Resources => "/metrics/resource",
            Page::Summary => "/stats/summary",
        }
    }

    /// The page at this path.
    pub fn of(path: &str) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.path() == path.trim_end_matches('/'))
    }

    /// What it is written in.
    pub fn content_type(self) -> &'static str {
        match self {
            Page::Health => "text/plain; charset=utf-8",
            Page::Pods | Page::Summary => "application/json",
            Page::Resources => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A node's hand.
pub trait NodeHand: Send + Sync {
    /// The log of one life of a container, by the runtime's id.
    fn log<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText>;
    /// Runs a command in a running container of a pod.
    fn exec<'a>(&'a self, pod: &'a PodId, container: &'a str, spec: &'a ExecSpec) -> NodeAnswer<'a, Session>;
    /// Joins the streams of a running container's first process; its input only if asked for.
    fn attach<'a>(&'a self, pod: &'a PodId, container: &'a str, stdin: bool) -> NodeAnswer<'a, Session>;
    /// What is used now.
    fn usage(&self) -> NodeAnswer<'_, NodeUsage>;
    /// What it shows of itself, at most [`PAGE_BYTES_MAX`]. A node that only pretends to be one shows nothing.
    fn page(&self, page: Page) -> NodeAnswer<'_, Bytes> {
        Box::pin(async move { Err(NodeError::NotFound(format!("this node has no page {}", page.path()))) })
    }
    /// Connects to a TCP port in a pod.
    fn forward<'a>(&'a self, pod: &'a PodId, port: u16) -> NodeAnswer<'a, Box<dyn Connection>>;
}

/// The nodes whose hands this server holds.
#[derive(Default)]
pub struct Nodes(RwLock<BTreeMap<String, Arc<dyn NodeHand>>>);

impl Nodes {
    /// Takes a node's hand; one that was held before is let go.
    pub fn connect(&self, name: &str, hand: Arc<dyn NodeHand>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), hand);
    }

    /// The hand of a node, or that it cannot be reached.
    pub fn hand(&self, name: &str) -> Result<Arc<dyn NodeHand>, ApiError> {
        let found = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        found.ok_or_else(|| ApiError::internal(format!("error dialing backend: node {name:?} is not connected")))
    }
}
