//! What simulated nodes answer when they are asked for streams: that there is nothing behind them.

use std::sync::Arc;

use apiserver::{App, LogOptions, LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PodId};
use meta::ObjectExt;
use runtime::{Connection, ExecSpec, Session};
use tokio::sync::mpsc;

/// The log of every container.
const LOG: &str = "this pod is simulated: it runs no process and writes no log\n";

/// The hand of nodes without machines.
struct Simulated;

/// Connects the first `count` simulated nodes.
pub(crate) fn connect(app: &App, count: usize) {
    let hand = Arc::new(Simulated);
    for index in 0..count {
        app.connect_node(agent::node_object(index).name(), hand.clone());
    }
}

fn refuse<T: Send + 'static>(pod: &PodId) -> NodeAnswer<'static, T> {
    let message = format!("pod {:?} is simulated and runs no process", pod.name);
    Box::pin(async move { Err(NodeError::BadRequest(message)) })
}

impl NodeHand for Simulated {
    fn log<'a>(&'a self, _id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText> {
        Box::pin(async move {
            let (pieces, text) = mpsc::channel(1);
            let wanted = usize::try_from(options.limit_bytes.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            let shown = LOG.get(..wanted).unwrap_or(LOG);
            // There is room for it.
            let _ = pieces.try_send(shown.into());
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
