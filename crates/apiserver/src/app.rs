//! What every request shares.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use admit::tokens::{SignatureVerifier, TokenConfig, TokenSigner};
use admit::{Authorizer, UserInfo};
use api::Machine;
use clock::{Clock, Ids};
use kinds::Catalog;
use meta::ApiError;
use store::{Snapshot, Store};
use tokio::sync::Semaphore;

use crate::catalog::Source;
use crate::discovery::Published;
use crate::hub::Hub;
use crate::insight::Questions;
use crate::link::RemoteNode;
use crate::link::dial::{self, NodeTls};
use crate::nodes::{NodeHand, Nodes};
use crate::pods::STREAMS_MAX;

/// Requests carried out at a time, reads and writes apart, as upstream's defaults are; watches do not count.
pub(crate) const READS_IN_FLIGHT_MAX: usize = 400;
pub(crate) const WRITES_IN_FLIGHT_MAX: usize = 200;
/// Requests of this process's own components, reads and writes. They wait for one another instead of being turned away,
/// and so need no more than keeps the log's writer busy.
const INSIDE_IN_FLIGHT_MAX: usize = 100;

/// How the server proves and checks identities.
pub struct Identity {
    /// Issuer and audiences of service-account tokens.
    pub tokens: TokenConfig,
    /// Signs them.
    pub signer: Arc<dyn TokenSigner + Send + Sync>,
    /// Checks them.
    pub verifier: Arc<dyn SignatureVerifier + Send + Sync>,
    /// The public keys, as a JSON Web Key Set.
    pub key_set: serde_json::Value,
}

/// What an [`App`] is made of.
pub struct AppConfig {
    /// Where objects are.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Identities and randomness.
    pub ids: Arc<dyn Ids>,
    /// Proofs of identity.
    pub identity: Identity,
    /// The version that `/version` reports, `v1.37.0` and its commit.
    pub git_version: String,
}

/// The API server without its sockets.
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) identity: Identity,
    pub(crate) git_version: String,
    pub(crate) machine: Machine,
    pub(crate) authorizer: Authorizer,
    pub(crate) hub: Arc<Hub>,
    pub(crate) reads: Semaphore,
    pub(crate) writes: Semaphore,
    pub(crate) inside: Semaphore,
    /// Held by the one request that chooses values among those that others have taken.
    pub(crate) choosing: tokio::sync::Mutex<()>,
    /// What questions about the world share.
    pub(crate) questions: Questions,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) nodes: Nodes,
    /// Rounds of fights over fields so far.
    pub(crate) fights: AtomicU64,
    node_tls: OnceLock<NodeTls>,
    catalog: RwLock<Arc<Published>>,
    ready: AtomicBool,
    pub(crate) stopping: tokio::sync::watch::Sender<bool>,
}

impl App {
    /// An API server on a store. It serves the custom kinds that the store already has.
    pub fn new(config: AppConfig) -> Arc<App> {
        let hub = Hub::new(&*config.store);
        let catalog = Published::new(Source::of(&config.store.snapshot()));
        Arc::new(App {
            store: config.store,
            clock: config.clock,
            ids: config.ids,
            identity: config.identity,
            git_version: config.git_version,
            machine: Machine::default(),
            authorizer: Authorizer::default(),
            hub,
            reads: Semaphore::new(READS_IN_FLIGHT_MAX),
            writes: Semaphore::new(WRITES_IN_FLIGHT_MAX),
            inside: Semaphore::new(INSIDE_IN_FLIGHT_MAX),
            choosing: tokio::sync::Mutex::default(),
            questions: Questions::default(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            nodes: Nodes::default(),
            fights: AtomicU64::new(0),
            node_tls: OnceLock::new(),
            catalog: RwLock::new(Arc::new(catalog)),
            ready: AtomicBool::new(false),
            stopping: tokio::sync::watch::Sender::new(false),
        })
    }

    /// The kinds served now, with the documents about them.
    pub(crate) fn published(&self) -> Arc<Published> {
        let published = Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner));
        if published.source.is_current(&self.store.snapshot()) {
            return published;
        }
        // Those who come meanwhile need the new one too, so they wait here. The state is read behind the lock: a
        // catalog is never replaced by an older one.
        let mut slot = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.store.snapshot();
        if !slot.source.is_current(&snapshot) {
            *slot = Arc::new(Published::new(Source::of(&snapshot)));
        }
        Arc::clone(&slot)
    }

    /// Takes a node's hand: streams of its pods are asked of it from now on.
    pub fn connect_node(&self, name: &str, hand: Arc<dyn NodeHand>) {
        self.nodes.connect(name, hand);
    }

    /// Nodes on other machines are asked over TLS from now on; `tls` gives the configuration of the moment.
    pub fn reach_nodes(&self, tls: NodeTls) {
        // Told once; a second time would change nothing.
        let _ = self.node_tls.set(tls);
    }

    /// The hand of a node: of this process, or over a connection to where its Node says that it is.
    pub(crate) fn hand(&self, name: &str) -> Result<Arc<dyn NodeHand>, ApiError> {
        let near = self.nodes.hand(name);
        match (&near, self.node_tls.get()) {
            (Err(_), Some(tls)) => match dial::address(&self.store.snapshot(), name) {
                Some(address) => Ok(Arc::new(RemoteNode::new(name, dial::to(name, address, Arc::clone(tls))))),
                None => near,
            },
            _ => near,
        }
    }

    /// The kinds served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.published().catalog)
    }

    /// The newest state.
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// Rings when new revisions become visible.
    pub fn moved(&self) -> tokio::sync::watch::Receiver<store::Revision> {
        self.hub.subscribe_any()
    }

    /// Says that the server has what it needs: `/readyz` answers ok from now on.
    pub fn become_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether `/readyz` answers ok.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !*self.stopping.borrow()
    }

    /// Ends all watches and refuses readiness; connections then drain.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// The user of a built-in controller.
    pub fn controller_user(name: &str) -> UserInfo {
        UserInfo::service_account("kube-system", name, "")
    }
}
