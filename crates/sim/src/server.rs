//! The server of a run: a real store, the real verbs, authorisation and kinds, without sockets. What is not answered at
//! once waits for the store's acknowledgement, which on a medium comes only with a flush.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use admit::user::MASTERS;
use admit::{Authorizer, UserInfo};
use api::route::Address;
use api::{Answer, Attempt, Body, DEFINITIONS, Machine, Request, Verb};
use bytes::Bytes;
use clock::SeededIds;
use driver::Refused;
use kinds::Catalog;
use meta::{ApiError, Gvk, ObjectExt, Time};
use serde_json::{Value, json};
use store::{Collection, Committed, Key, Mem, Revision, Snapshot, Store, Txn, TxnError};
use store_disk::vfs::{Medium, SimVfs, Trouble, Vfs};
use store_disk::{Disk, Flushing};

use crate::mutant::Mutant;

/// When every run begins.
pub const START: Time = Time::from_secs(1_900_000_000);
/// Attempts of one request when others write the same object, as the server has.
const ATTEMPTS_MAX: usize = 16;
/// Revisions that a restart of the engine in memory skips, as the durable one does.
const REVISIONS_SKIPPED: u64 = 16;

/// One request on its way.
#[derive(Clone, Debug)]
pub struct Wire {
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// User agent.
    pub agent: String,
    /// HTTP method.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Media type of the body.
    pub content_type: String,
    /// Body.
    pub body: Bytes,
}

/// What came of a request.
pub type Reply = Result<Value, Refused>;

/// No answer came.
pub fn no_answer(why: &str) -> Reply {
    Err(Refused { code: 0, reason: String::new(), message: why.to_owned() })
}

/// What is on the medium, or in memory.
enum Engine {
    Memory(Box<Mem>),
    Disk { disk: Disk, vfs: Arc<SimVfs> },
}

/// A request whose transaction has been handed to the store.
struct Waiting {
    call: u64,
    request: Request,
    then: Box<dyn FnOnce(&Committed) -> Answer + Send>,
    retry: bool,
    conflict: ApiError,
    attempts: usize,
    keys: Vec<Key>,
}

type Acks = Arc<Mutex<Vec<(u64, Result<Committed, TxnError>)>>>;
type Bells = Arc<Mutex<Vec<Collection>>>;

/// What the server has to say after it was given something to do.
#[derive(Default)]
pub struct Said {
    /// Requests that are answered.
    pub replies: Vec<(u64, Reply)>,
    /// Requests that were committed, and as which revision.
    pub commits: Vec<(u64, Revision)>,
    /// Requests to be attempted again when others' writes are visible.
    pub again: Vec<u64>,
}

/// The server.
pub struct Server {
    engine: Engine,
    catalog: Arc<Catalog>,
    catalog_of: Snapshot,
    authorizer: Authorizer,
    machine: Machine,
    ids: SeededIds,
    acks: Acks,
    bells: Bells,
    waiting: BTreeMap<u64, Waiting>,
    tickets: u64,
    mutant: Option<Mutant>,
}

/// The state that every cluster begins with, made once.
struct Base {
    snapshot: Snapshot,
    medium: Medium,
    catalog: Arc<Catalog>,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let catalog = Arc::new(Catalog::built_in());
    let memory = Engine::Memory(Box::default());
    let snapshot = bootstrapped(Server::on(memory, Arc::clone(&catalog), 0, None)).snapshot();
    let vfs = Arc::new(SimVfs::new(Medium::default()));
    let medium = match Engine::open(&vfs, None) {
        Ok(engine) => {
            drop(bootstrapped(Server::on(engine, Arc::clone(&catalog), 0, None)));
            vfs.medium().killed()
        }
        Err(_) => Medium::default(),
    };
    Base { snapshot, medium, catalog }
});

/// The state that every run begins with.
pub fn base_snapshot() -> &'static Snapshot {
    &BASE.snapshot
}

fn bootstrapped(mut server: Server) -> Server {
    let authentication = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": "the authority"},
    });
    let (namespaces, others): (Vec<Value>, Vec<Value>) =
        admit::bootstrap::objects().into_iter().partition(|object| object["kind"] == "Namespace");
    for object in namespaces.into_iter().chain(others).chain([authentication]) {
        let Some(wire) = server.creation(&object) else { continue };
        let _ = server.receive(0, &wire, START);
        server.flush();
    }
    server
}

/// The user that may do anything.
pub fn admin() -> Arc<UserInfo> {
    Arc::new(UserInfo::new("admin", [MASTERS]).authenticated())
}

impl Engine {
    fn open(vfs: &Arc<SimVfs>, mutant: Option<Mutant>) -> Result<Engine, String> {
        let options = store_disk::Options {
            flushing: Flushing::ByHand,
            ids: Arc::new(SeededIds::new(1)),
            mutant: mutant.and_then(Mutant::of_store),
            limits: store::Limits { mutant: mutant.and_then(Mutant::of_heart), ..store::Limits::default() },
            // Small, so that a run of a few hundred writes sees segments end and checkpoints made.
            segment_bytes: 512 << 10,
            checkpoint_bytes: 256 << 10,
            ..store_disk::Options::default()
        };
        let on: Arc<dyn Vfs> = vfs.clone();
        let disk = Disk::open_on(on, options).map_err(|error| format!("the store did not open: {error:?}"))?;
        Ok(Engine::Disk { disk, vfs: Arc::clone(vfs) })
    }
}

impl Server {
    /// A server that was just installed.
    ///
    /// # Errors
    /// When the store does not open.
    pub fn start(medium: crate::plan::Medium, seed: u64, mutant: Option<Mutant>) -> Result<Server, String> {
        let engine = match medium {
            crate::plan::Medium::Memory => Engine::Memory(Box::new(Mem::fork(&BASE.snapshot))),
            crate::plan::Medium::Disk => Engine::open(&Arc::new(SimVfs::new(BASE.medium.clone())), mutant)?,
        };
        Ok(Server::on(engine, Arc::clone(&BASE.catalog), seed, mutant))
    }

    fn on(engine: Engine, catalog: Arc<Catalog>, seed: u64, mutant: Option<Mutant>) -> Server {
        let server = Server {
            engine,
            catalog,
            catalog_of: Snapshot::default(),
            authorizer: Authorizer::default(),
            machine: Machine::default(),
            ids: SeededIds::new(seed),
            acks: Acks::default(),
            bells: Bells::default(),
            waiting: BTreeMap::new(),
            tickets: 0,
            mutant,
        };
        let bells = Arc::clone(&server.bells);
        server.store().listen(Box::new(move |_, collections| {
            bells.lock().unwrap_or_else(PoisonError::into_inner).extend(collections.iter().cloned());
        }));
        server
    }

    /// The same server after it was killed: nothing is left but what the store kept. `pick` decides which unsynced
    /// pieces a power loss left; `None` for a kill that spares the machine.
    ///
    /// # Errors
    /// When the store does not open again.
    pub fn restarted(self, seed: u64, pick: Option<&mut dyn FnMut() -> bool>) -> Result<Server, String> {
        let mutant = self.mutant;
        let engine = match self.engine {
            Engine::Memory(store) => Engine::Memory(Box::new(Mem::fork(&without_volatile(&store.snapshot())))),
            Engine::Disk { disk, vfs } => {
                let medium = match pick {
                    Some(pick) => {
                        let full_length = pick();
                        vfs.medium().crashed(pick, full_length)
                    }
                    None => vfs.medium().killed(),
                };
                disk.abandon();
                Engine::open(&Arc::new(SimVfs::new(medium)), mutant)?
            }
        };
        Ok(Server::on(engine, Arc::clone(&BASE.catalog), seed, mutant))
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        match &self.engine {
            Engine::Memory(store) => &**store,
            Engine::Disk { disk, .. } => disk,
        }
    }

    /// The newest visible state.
    pub fn snapshot(&self) -> Snapshot {
        self.store().snapshot()
    }

    /// Whether something waits for the medium.
    pub fn wants_flush(&self) -> bool {
        matches!(self.engine, Engine::Disk { .. }) && !self.waiting.is_empty()
    }

    /// The keys that unacknowledged writes are about: after a crash nobody knows what became of them.
    pub fn uncertain(&self) -> Vec<Key> {
        self.waiting.values().flat_map(|waiting| waiting.keys.iter().cloned()).collect()
    }

    /// The collections that changed since the last call.
    pub fn rung(&self) -> Vec<Collection> {
        let mut rung = std::mem::take(&mut *self.bells.lock().unwrap_or_else(PoisonError::into_inner));
        rung.sort();
        rung.dedup();
        rung
    }

    /// Makes durable what waits. False when the medium failed.
    pub fn flush(&mut self) -> bool {
        if let Engine::Disk { disk, .. } = &self.engine {
            while disk.flush() {}
            if disk.is_checkpoint_due() && disk.checkpoint().is_err() {
                return false;
            }
            return !disk.has_stopped();
        }
        true
    }

    /// Sends trouble to the medium, if there is one.
    pub fn trouble(&self, syncs: u64, appends: u64) {
        if let Engine::Disk { vfs, .. } = &self.engine {
            let some = |count: u64| (count > 0).then_some(count);
            vfs.trouble(Trouble { sync_fails_in: some(syncs), append_fails_in: some(appends), room_bytes: None });
        }
    }

    /// Takes a request. What there is to say comes with [`Server::settle`].
    pub fn receive(&mut self, call: u64, wire: &Wire, now: Time) -> Said {
        let outcome = self.request(wire).map(|request| self.attempt(call, request, 0, now));
        let mut said = Said::default();
        match outcome {
            Ok(None) => {}
            Ok(Some(reply)) => said.replies.push((call, reply)),
            Err(error) => said.replies.push((call, Err(refused(&error)))),
        }
        said
    }

    /// Attempts a request again whose precondition had failed.
    pub fn again(&mut self, ticket: u64, now: Time) -> Said {
        let mut said = Said::default();
        if let Some(waiting) = self.waiting.remove(&ticket) {
            let call = waiting.call;
            said.replies.extend(self.attempt(call, waiting.request, waiting.attempts, now).map(|reply| (call, reply)));
        }
        said
    }

    /// Hands out what the store has acknowledged since.
    pub fn settle(&mut self, now: Time) -> Said {
        let mut said = Said::default();
        let acks = std::mem::take(&mut *self.acks.lock().unwrap_or_else(PoisonError::into_inner));
        for (ticket, outcome) in acks {
            self.acknowledged(ticket, outcome, now, &mut said);
        }
        said
    }

    fn acknowledged(&mut self, ticket: u64, outcome: Result<Committed, TxnError>, now: Time, said: &mut Said) {
        let Some(waiting) = self.waiting.remove(&ticket) else { return };
        let call = waiting.call;
        match outcome {
            Ok(committed) => {
                said.commits.push((call, committed.revision));
                if waiting.request.verb == Verb::DeleteCollection {
                    said.replies.extend(self.attempt(call, waiting.request, 0, now).map(|reply| (call, reply)));
                } else {
                    said.replies.push((call, Ok(shown((waiting.then)(&committed)))));
                }
            }
            Err(TxnError::Failed(_)) if waiting.retry && waiting.attempts < ATTEMPTS_MAX => {
                let then: Box<dyn FnOnce(&Committed) -> Answer + Send> = Box::new(|_| Answer::tree(Value::Null));
                self.waiting.insert(ticket, Waiting { then, keys: Vec::new(), ..waiting });
                said.again.push(ticket);
            }
            Err(TxnError::Failed(_)) => said.replies.push((call, Err(refused(&waiting.conflict)))),
            Err(TxnError::Overloaded) => {
                let error = ApiError::too_many_requests("too many writes wait for the disk", 1);
                said.replies.push((call, Err(refused(&error))));
            }
            Err(error) => said.replies.push((call, no_answer(&format!("{error:?}")))),
        }
    }

    fn attempt(&mut self, call: u64, request: Request, attempts: usize, now: Time) -> Option<Reply> {
        self.follow_definitions();
        let snapshot = self.snapshot();
        let (catalog, authorizer, ids) = (&*self.catalog, &self.authorizer, &self.ids);
        let world = api::World { snapshot: &snapshot, catalog, now, authorizer, ids };
        let commit = match self.machine.attempt(world, &request) {
            Ok(Attempt::Answer(answer)) => return Some(Ok(shown(answer))),
            Ok(Attempt::Commit(commit)) => *commit,
            Err(error) => return Some(Err(refused(&error))),
        };
        self.tickets += 1;
        if self.mutant == Some(Mutant::ForgetWrites) && self.tickets.is_multiple_of(40) {
            let revision = (snapshot.revision().0 + 1).to_string();
            return Some(Ok(json!({"metadata": {"resourceVersion": revision}})));
        }
        let mut txn = commit.txn;
        if self.mutant == Some(Mutant::NoPreconditions) {
            txn.preconditions.clear();
        }
        let (ticket, acks) = (self.tickets, Arc::clone(&self.acks));
        let (then, retry, conflict) = (commit.then, commit.retry, commit.conflict);
        let (keys, attempts) = (keys(&txn), attempts + 1);
        self.waiting.insert(ticket, Waiting { call, request, then, retry, conflict, attempts, keys });
        let ack = move |outcome| acks.lock().unwrap_or_else(PoisonError::into_inner).push((ticket, outcome));
        self.store().submit(txn, Box::new(ack));
        None
    }

    fn request(&mut self, wire: &Wire) -> Result<Request, ApiError> {
        self.follow_definitions();
        let Wire { user, agent, method, path, content_type, body } = wire;
        let asked = api::Asked { user, agent, method, path, content_type, body: body.clone() };
        asked.request(&self.snapshot(), &self.catalog, &self.authorizer)
    }

    /// The kinds served follow the definitions stored.
    fn follow_definitions(&mut self) {
        let snapshot = self.snapshot();
        if snapshot.is_same_collection(&self.catalog_of, DEFINITIONS) {
            return;
        }
        self.catalog = Arc::new(api::served(&BASE.catalog, &snapshot));
        self.catalog_of = snapshot;
    }

    /// The request that creates an object; `None` for an unknown kind.
    pub fn creation(&self, object: &Value) -> Option<Wire> {
        let kind = object.gvk().and_then(|gvk: Gvk| self.catalog.kind(&gvk))?;
        let gvr = kind.gvr();
        let root = if gvr.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", gvr.group) };
        let inside = match object.namespace() {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        Some(Wire {
            user: admin(),
            agent: "setpoint".to_owned(),
            method: "POST".to_owned(),
            path: format!("{root}/{}{inside}/{}", gvr.version, gvr.resource),
            content_type: "application/json".to_owned(),
            body: serde_json::to_vec(object).unwrap_or_default().into(),
        })
    }

    /// The path of a stored object; `None` for an unknown collection.
    pub fn path_of(&self, key: &Key) -> Option<String> {
        let kind = self.catalog.collection(&key.collection)?;
        let (namespace, name) = key.item.split_once('/').unwrap_or(("", &key.item));
        let gvr = kind.gvr();
        let address = Address {
            group: gvr.group.to_string(),
            version: gvr.version.to_string(),
            resource: gvr.resource.to_string(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Address::default()
        };
        Some(address.path())
    }
}

fn keys(txn: &Txn) -> Vec<Key> {
    let key = |op: &store::Op| match op {
        store::Op::Put { key, .. } | store::Op::Delete { key, .. } => key.clone(),
    };
    txn.ops.iter().map(key).collect()
}

fn without_volatile(snapshot: &Snapshot) -> Snapshot {
    let mut kept = Vec::new();
    for collection in snapshot.collections() {
        for (item, entry) in snapshot.items(collection).filter(|(_, entry)| entry.is_durable()) {
            kept.push((Key { collection: Arc::clone(collection), item: Arc::clone(item) }, Arc::clone(entry)));
        }
    }
    Snapshot::build(Revision(snapshot.revision().0 + REVISIONS_SKIPPED), kept)
}

fn refused(error: &ApiError) -> Refused {
    let reason = error.reason.map_or("", |reason| reason.as_str()).to_owned();
    Refused { code: error.code, reason, message: error.message.clone() }
}

/// An answer as a client reads it. Clients here look at no more of a stored object than its revision and count.
fn shown(answer: Answer) -> Value {
    match answer.body {
        Body::Entry(entry) => {
            let count = serde_json::from_slice::<Value>(&entry.value).unwrap_or_default()["count"].take();
            json!({"metadata": {"resourceVersion": entry.modified.0.to_string()}, "count": count})
        }
        Body::Tree(tree) => tree,
        Body::Raw(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Body::List(_) | Body::Watch(_) => Value::Null,
    }
}
