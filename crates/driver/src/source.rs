//! What a driver looks at: the store of its own process, or a copy of one that is somewhere else.

use std::sync::Arc;

use brain::{Action, View};
use store::{Collection, Key, Revision, Store};
use tokio::sync::watch;

use crate::remote::Remote;

/// Snapshots, events, and what a write means for them.
#[derive(Clone)]
pub struct Source {
    /// What brains look at.
    pub store: Arc<dyn Store>,
    /// Rings when the store has moved.
    pub moved: watch::Receiver<Revision>,
    remote: Option<Arc<Remote>>,
}

/// What was written: where, and at which of the API server's revisions.
pub type Write = (Collection, Revision);

impl Source {
    /// The store of this process: what was acknowledged is visible, and every snapshot is one state of everything.
    pub fn own(store: Arc<dyn Store>, moved: watch::Receiver<Revision>) -> Source {
        Source { store, moved, remote: None }
    }

    /// A copy of a store that is somewhere else.
    pub fn remote(remote: Arc<Remote>) -> Source {
        Source { store: remote.store(), moved: remote.moved(), remote: Some(remote) }
    }

    /// The view's revision at which the writes are to be seen; waits for it where only waiting can tell.
    pub async fn seen(&self, writes: &[Write]) -> Option<Revision> {
        match &self.remote {
            None => writes.iter().map(|(_, revision)| *revision).max(),
            Some(remote) if !writes.is_empty() => Some(remote.seen(writes).await),
            Some(_) => None,
        }
    }

    /// The view that a turn decides on.
    pub(crate) fn view_for_turn(&self, view: &View) -> View {
        match &self.remote {
            None => view.clone(),
            Some(_) => view.recording(),
        }
    }

    /// Whether what the turn took for absent is so, for actions that cannot be taken back. In one process a view is one
    /// state of everything; in a copy one collection may be behind another, and an owner that is not seen may exist.
    pub(crate) async fn confirms(&self, action: &Action, view: &View, root: &Key) -> bool {
        match &self.remote {
            None => true,
            Some(remote) => remote.confirms(action, view, root).await,
        }
    }
}
