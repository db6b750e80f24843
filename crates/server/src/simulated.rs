//! What simulated nodes answer when they are asked for streams: that there is nothing behind them.

use std::sync::{Arc, Weak};

use apiserver::{App, LogOptions, LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PodId};
use contract::{Connection, ExecSpec, Session};
use meta::ObjectExt;
use serde_json::Value;
use store::Entry;
use tokio::sync::mpsc;

/// The hand of nodes without machines.
struct Simulated {
    /// Where the pods are; the API has this hand in turn.
    app: Weak<App>,
}

/// Connects the first `count` simulated nodes.
pub(crate) fn connect(app: &Arc<App>, count: usize) {
    let hand = Arc::new(Simulated { app: Arc::downgrade(app) });
    for index in 0..count {
        app.connect_node(agent::node_object(index).name(), hand.clone());
    }
}

fn refuse<T: Send + 'static>(pod: &PodId) -> NodeAnswer<'static, T> {
    let message = format!("pod {:?} is simulated and runs no process", pod.name);
    Box::pin(async move { Err(NodeError::BadRequest(message)) })
}

impl Simulated {
    fn pod(&self, uid: &str) -> Option<Value> {
        let snapshot = self.app.upgrade()?.snapshot();
        // Few bytes hold the uid, so few pods are read.
        let holds = |entry: &Entry| entry.value.windows(uid.len().max(1)).any(|bytes| bytes == uid.as_bytes());
        let mut pods = snapshot.items("core/pods").filter(|(_, entry)| holds(entry));
        pods.find_map(|(_, entry)| meta::stored::read(&entry.value).ok().filter(|pod: &Value| pod.uid() == uid))
    }
}

impl NodeHand for Simulated {
    fn log<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText> {
        Box::pin(async move {
            let (pieces, text) = mpsc::channel(1);
            let (uid, container) = id.trim_start_matches("simulated://").split_once('/').unwrap_or((id, ""));
            let pod = self.pod(uid).ok_or_else(|| NodeError::NotFound(format!("no pod has the uid {uid:?}")))?;
            let mut log = agent::simulated_log(&pod, container).into_bytes();
            log.truncate(usize::try_from(options.limit_bytes.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
            // There is room for it.
            let _ = pieces.try_send(log.into());
            Ok(text)
        })
    }

    fn exec<'a>(&'a self, pod: &'a PodId, _container: &'a str, _spec: &'a ExecSpec) -> NodeAnswer<'a, Session> {
        refuse(pod)
    }

    fn attach<'a>(&'a self, pod: &'a PodId, _container: &'a str, _stdin: bool) -> NodeAnswer<'a, Session> {
        refuse(pod)
    }

    fn usage(&self) -> NodeAnswer<'_, NodeUsage> {
        Box::pin(async { Err(NodeError::NotFound("simulated nodes use nothing".to_owned())) })
    }

    fn forward<'a>(&'a self, pod: &'a PodId, _port: u16) -> NodeAnswer<'a, Box<dyn Connection>> {
        refuse(pod)
    }
}
