//! A copy of a store that is somewhere else, kept by watches: what brains look at when they do not live in the
//! server's process. It is a store like any other, so brains and driver are the same.

mod ask;
mod confirm;
mod discovery;
mod follow;
mod reflector;
mod single;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::Transport;
use clock::Ids;
use store::{Collection, Replica, Revision, Store};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::source::Write;
use ask::Form;
use discovery::{Found, Served, discover};
use follow::Follower;

pub use single::watch_one;

/// What may change which collections there are.
const DEFINING: [&str; 2] = ["apiextensions.k8s.io/customresourcedefinitions", "apiregistration.k8s.io/apiservices"];
/// After such a change: definitions come in crowds, and a server needs a moment to serve what it has taken in.
const DISCOVERY_DELAY: Duration = Duration::from_secs(1);
/// And once more, for a server that needed longer.
const DISCOVERY_SECOND_DELAY: Duration = Duration::from_secs(10);
/// Wait after a discovery that failed; it doubles up to the longest.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The copy.
pub struct Remote {
    transport: Arc<dyn Transport>,
    ids: Arc<dyn Ids>,
    store: Arc<Replica>,
    moved: watch::Sender<Revision>,
    tracks: Mutex<BTreeMap<Collection, Track>>,
    /// Rings when definitions have changed.
    redefined: Notify,
    /// The last request found no server.
    unreachable: AtomicBool,
    /// What is copied, where that is not left to the server.
    chosen: Option<BTreeMap<Collection, Served>>,
}

/// One collection to copy, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'c> {
    /// `core/pods`.
    pub collection: &'c str,
    /// `/api/v1/pods`.
    pub path: &'c str,
    /// `v1`.
    pub api_version: &'c str,
    /// `Pod`.
    pub kind: &'c str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// A part of the query that selects, percent-encoded; empty for all.
    pub selector: &'c str,
}

impl Chosen<'_> {
    fn served(&self) -> Served {
        Served {
            path: self.path.to_owned(),
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespaced: self.namespaced,
            form: Form::Whole,
            selector: self.selector.to_owned(),
        }
    }
}

/// How far the copy of a collection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    /// It shows every write of the collection up to this one of the server's revisions.
    through: Revision,
    /// How often it was made whole.
    fills: u64,
    /// The server does not show the collection.
    absent: bool,
}

/// A collection that is followed.
struct Track {
    served: Served,
    reached: watch::Receiver<Reached>,
    again: Arc<Notify>,
    following: tokio::task::AbortHandle,
}

impl Remote {
    /// A copy that is empty until [`Remote::run`] fills it.
    pub fn new(transport: Arc<dyn Transport>, ids: Arc<dyn Ids>) -> Arc<Remote> {
        Remote::of(transport, ids, None)
    }

    /// The same of these collections alone, which are known to be there: until each has been read it is not whole, and
    /// a server that refuses one is asked again.
    pub fn choosing(transport: Arc<dyn Transport>, ids: Arc<dyn Ids>, chosen: &[Chosen<'_>]) -> Arc<Remote> {
        let chosen = chosen.iter().map(|one| (one.collection.into(), one.served())).collect();
        Remote::of(transport, ids, Some(chosen))
    }

    fn of(
        transport: Arc<dyn Transport>,
        ids: Arc<dyn Ids>,
        chosen: Option<BTreeMap<Collection, Served>>,
    ) -> Arc<Remote> {
        let store = Arc::new(Replica::default());
        let moved = watch::Sender::new(store.snapshot().revision());
        let remote = Arc::new(Remote {
            transport,
            ids,
            store,
            moved,
            tracks: Mutex::default(),
            redefined: Notify::new(),
            unreachable: AtomicBool::new(false),
            chosen,
        });
        let told = Arc::downgrade(&remote);
        remote.store.listen(Box::new(move |revision, collections| {
            let Some(remote) = told.upgrade() else { return };
            remote.moved.send_modify(|moved| *moved = revision.max(*moved));
            if collections.iter().any(|collection| DEFINING.contains(&&**collection)) {
                remote.redefined.notify_one();
            }
        }));
        remote
    }

    /// The copy as a store; it takes no writes.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    /// Rings when the copy has moved.
    pub fn moved(&self) -> watch::Receiver<Revision> {
        self.moved.subscribe()
    }

    /// Keeps the copy, for ever; what it started ends with it. `whole` turns true when every collection has been read
    /// once, consistently.
    pub async fn run(self: Arc<Remote>, whole: watch::Sender<bool>) {
        let mut followers = JoinSet::new();
        self.discover(&mut followers).await;
        let mut waiting: Vec<_> = self.tracks().values().map(|track| track.reached.clone()).collect();
        for reached in &mut waiting {
            // A follower ends only with its collection.
            let _ = reached.wait_for(|reached| reached.fills > 0).await;
        }
        tracing::info!(collections = waiting.len(), objects = self.objects(), "the copy is whole");
        whole.send_replace(true);
        loop {
            self.redefined.notified().await;
            for delay in [DISCOVERY_DELAY, DISCOVERY_SECOND_DELAY] {
                tokio::time::sleep(delay).await;
                self.discover(&mut followers).await;
            }
            while followers.try_join_next().is_some() {}
        }
    }

    fn objects(&self) -> usize {
        let snapshot = self.store.snapshot();
        snapshot.collections().map(|collection| snapshot.count(collection)).sum()
    }

    /// Asks what there is until there is an answer; starts and ends followers accordingly.
    async fn discover(self: &Arc<Remote>, followers: &mut JoinSet<()>) {
        if let Some(chosen) = &self.chosen {
            return self.follow(Found { collections: chosen.clone(), ..Found::default() }, followers);
        }
        let mut wait = RETRY_MIN;
        let found = loop {
            match discover(&self.transport).await {
                Ok(found) => break found,
                Err(error) => tracing::warn!(%error, "the server does not say what it has; it is asked again"),
            }
            tokio::time::sleep(wait / 2 + wait.mul_f64((self.dice() % 1_024) as f64 / 2_048.0)).await;
            wait = (wait * 2).min(RETRY_MAX);
        };
        self.follow(found, followers);
    }

    fn follow(self: &Arc<Remote>, found: Found, followers: &mut JoinSet<()>) {
        let mut tracks = self.tracks();
        let is_gone = |collection: &Collection, track: &Track| match found.collections.get(collection) {
            Some(served) => *served != track.served,
            None => !found.silent.contains(group_of(collection)),
        };
        tracks.retain(|collection, track| {
            let gone = is_gone(collection, track);
            if gone {
                track.following.abort();
                self.store.replace(collection, Vec::new());
            }
            !gone
        });
        for (collection, served) in found.collections {
            if let Some(track) = tracks.get(&collection) {
                if track.reached.borrow().absent {
                    track.again.notify_one();
                }
                continue;
            }
            let (reached, seen) = watch::channel(Reached::default());
            let again = Arc::new(Notify::new());
            let follower = Follower {
                remote: Arc::clone(self),
                collection: Arc::clone(&collection),
                served: served.clone(),
                reached,
                again: Arc::clone(&again),
                insists: self.chosen.is_some(),
            };
            let following = followers.spawn(follower.run());
            tracks.insert(collection, Track { served, reached: seen, again, following });
        }
    }

    /// The copy's revision at which these writes are visible; waits until they are.
    pub(crate) async fn seen(&self, writes: &[Write]) -> Revision {
        for (collection, revision) in writes {
            let reached = self.tracks().get(collection).map(|track| track.reached.clone());
            // What is not copied is not waited for.
            let Some(mut reached) = reached else { continue };
            let before = reached.borrow().fills;
            let _ = reached.wait_for(|reached| reached.shows(*revision, before)).await;
        }
        self.store.snapshot().revision()
    }

    /// How a collection is served, and whether the server shows it.
    fn served(&self, collection: &str) -> Option<(Served, bool)> {
        let tracks = self.tracks();
        let track = tracks.get(collection)?;
        let absent = track.reached.borrow().absent;
        Some((track.served.clone(), absent))
    }

    fn all_served(&self) -> Vec<Served> {
        self.tracks().values().map(|track| track.served.clone()).collect()
    }

    fn tracks(&self) -> std::sync::MutexGuard<'_, BTreeMap<Collection, Track>> {
        self.tracks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A follower got no answer.
    fn lost_server(&self) {
        if !self.unreachable.swap(true, Ordering::Relaxed) {
            tracing::warn!("the server does not answer; it is tried again until it does");
        }
    }

    /// A follower got an answer: if the server was lost, the others need not wait to find that out.
    fn found_server(&self) {
        if self.unreachable.swap(false, Ordering::Relaxed) {
            tracing::info!("the server answers again");
            self.tracks().values().for_each(|track| track.again.notify_waiters());
        }
    }

    fn dice(&self) -> u64 {
        self.ids.number()
    }
}

fn group_of(collection: &str) -> &str {
    match collection.split_once('/') {
        Some(("core", _)) | None => "",
        Some((group, _)) => group,
    }
}
