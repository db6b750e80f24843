//! The lines: what a node is asked, and what it says first.

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod_streams::{LogOptions, LogStream};
use contract::ExecSpec;
use meta::Time;
use serde::{Deserialize, Serialize};

use crate::nodes::{NodeError, NodeUsage, Page, PodId, Used};

/// A pod and one of its containers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Place {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    container: String,
}

/// A question.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "ask", rename_all = "camelCase")]
pub enum Ask {
    /// The log of one life of a container.
    #[serde(rename_all = "camelCase")]
    Log {
        id: String,
        follow: bool,
        previous: bool,
        timestamps: bool,
        since_micros: Option<i64>,
        tail_lines: Option<u64>,
        limit_bytes: Option<u64>,
        stream: String,
    },
    /// A process.
    Exec { place: Place, command: Vec<String>, tty: bool, stdin: bool, stdout: bool, stderr: bool },
    /// The first process.
    Attach { place: Place, stdin: bool },
    /// A connection to a port.
    Forward { place: Place, port: u16 },
    /// What is used.
    Usage,
    /// What the node shows of itself.
    Page { page: Page },
}

/// The first line of an answer.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// `notFound`, `badRequest` or `internal`; empty when the answer follows.
    failed: String,
    message: String,
    /// Which of standard input, output, error and terminal sizes there are.
    streams: [bool; 4],
    usage: Option<Usage>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    at_micros: i64,
    window_nanos: u64,
    node: [u64; 2],
    pods: BTreeMap<String, BTreeMap<String, [u64; 2]>>,
}

impl Place {
    fn of(pod: &PodId, container: &str) -> Place {
        let PodId { namespace, name, uid } = pod.clone();
        Place { namespace, name, uid, container: container.to_owned() }
    }

    /// The pod and the container.
    pub fn parts(&self) -> (PodId, &str) {
        let Place { namespace, name, uid, container } = self;
        (PodId { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() }, container)
    }
}

impl Ask {
    pub fn log(id: &str, options: &LogOptions) -> Ask {
        Ask::Log {
            id: id.to_owned(),
            follow: options.follow,
            previous: options.previous,
            timestamps: options.timestamps,
            since_micros: options.since.map(Time::as_micros),
            tail_lines: options.tail_lines,
            limit_bytes: options.limit_bytes,
            stream: stream_name(options.stream).to_owned(),
        }
    }

    pub fn exec(pod: &PodId, container: &str, spec: &ExecSpec) -> Ask {
        let ExecSpec { command, tty, stdin, stdout, stderr } = spec.clone();
        Ask::Exec { place: Place::of(pod, container), command, tty, stdin, stdout, stderr }
    }

    pub fn attach(pod: &PodId, container: &str, stdin: bool) -> Ask {
        Ask::Attach { place: Place::of(pod, container), stdin }
    }

    pub fn forward(pod: &PodId, port: u16) -> Ask {
        Ask::Forward { place: Place::of(pod, ""), port }
    }

    /// The container's id and what is wanted of its log, if that is the question.
    pub fn log_options(&self) -> Option<(&str, LogOptions)> {
        let Ask::Log { id, follow, previous, timestamps, since_micros, tail_lines, limit_bytes, stream } = self else {
            return None;
        };
        let options = LogOptions {
            follow: *follow,
            previous: *previous,
            timestamps: *timestamps,
            since: since_micros.map(Time::from_micros),
            tail_lines: *tail_lines,
            limit_bytes: *limit_bytes,
            stream: stream_of(stream),
        };
        Some((id, options))
    }
}

fn stream_name(stream: LogStream) -> &'static str {
    match stream {
        LogStream::All => "all",
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

fn stream_of(name: &str) -> LogStream {
    match name {
        "stdout" => LogStream::Stdout,
        "stderr" => LogStream::Stderr,
        _ => LogStream::All,
    }
}

impl Reply {
    /// The answer follows.
    pub fn begun(streams: [bool; 4]) -> Reply {
        Reply { streams, ..Reply::default() }
    }

    pub fn failed(error: &NodeError) -> Reply {
        let failed = match error {
            NodeError::NotFound(_) => "notFound",
            NodeError::BadRequest(_) => "badRequest",
            NodeError::Internal(_) => "internal",
        };
        Reply { failed: failed.to_owned(), message: error.message().to_owned(), ..Reply::default() }
    }

    pub fn used(usage: &NodeUsage) -> Reply {
        let pair = |used: &Used| [used.cpu_nanos, used.memory_bytes];
        let pods = usage.pods.iter().map(|(uid, containers)| {
            (uid.clone(), containers.iter().map(|(name, used)| (name.clone(), pair(used))).collect())
        });
        let usage = Usage {
            at_micros: usage.at.as_micros(),
            window_nanos: u64::try_from(usage.window.as_nanos()).unwrap_or(u64::MAX),
            node: pair(&usage.node),
            pods: pods.collect(),
        };
        Reply { usage: Some(usage), ..Reply::default() }
    }

    pub fn error(&self) -> Option<NodeError> {
        let message = self.message.clone();
        match self.failed.as_str() {
            "" => None,
            "notFound" => Some(NodeError::NotFound(message)),
            "badRequest" => Some(NodeError::BadRequest(message)),
            _ => Some(NodeError::Internal(message)),
        }
    }

    pub fn streams(&self) -> [bool; 4] {
        self.streams
    }

    pub fn usage(&self) -> Option<NodeUsage> {
        let told = self.usage.as_ref()?;
        let used = |[cpu_nanos, memory_bytes]: [u64; 2]| Used { cpu_nanos, memory_bytes };
        let pods = told.pods.iter().map(|(uid, containers)| {
            (uid.clone(), containers.iter().map(|(name, pair)| (name.clone(), used(*pair))).collect())
        });
        Some(NodeUsage {
            at: Time::from_micros(told.at_micros),
            window: Duration::from_nanos(told.window_nanos),
            node: used(told.node),
            pods: pods.collect(),
        })
    }
}
