//! A copy of the world that takes requests like the server and goes its own way. Making one is O(1).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use admit::{Authorizer, UserInfo};
use api::{Answer, Asked, Attempt, Body, DEFINITIONS, Machine, Request, Verb};
use brain::{Call, Refused, View};
use clock::SeededIds;
use kinds::Catalog;
use meta::{ApiError, Time};
use serde_json::{Value, json};
use store::{Committed, Key, Mem, Snapshot, Store, Txn, TxnError};

/// Transactions of one deletecollection: with 500 objects each, five million objects.
const BATCHES_MAX: usize = 10_000;

/// The state that is forked.
pub struct World {
    /// The objects, with their indexes.
    pub view: View,
    /// The kinds that are served there.
    pub catalog: Arc<Catalog>,
    /// When it is.
    pub now: Time,
}

/// The copy. One thread, one clock that only [`Fork::set_now`] moves.
pub struct Fork {
    store: Mem,
    catalog: Arc<Catalog>,
    catalog_of: Snapshot,
    machine: Machine,
    authorizer: Authorizer,
    ids: SeededIds,
    now: Time,
    requests: usize,
    hands: BTreeMap<Key, Hands>,
}

/// Whose hands were on an object in this fork, by field manager.
#[derive(Default)]
struct Hands {
    /// Made it.
    maker: Option<String>,
    /// Asked for its deletion first; nodes and collectors only finish it.
    remover: Option<String>,
    /// Wrote it last.
    writer: String,
}

impl Fork {
    /// A copy of the world as it is.
    pub fn of(world: &World) -> Fork {
        let snapshot = world.view.snapshot();
        Fork {
            store: Mem::fork(snapshot),
            catalog: Arc::clone(&world.catalog),
            catalog_of: snapshot.only(DEFINITIONS),
            machine: Machine::default(),
            authorizer: Authorizer::default(),
            // The same world and wish give the same plan.
            ids: SeededIds::new(snapshot.revision().0),
            now: world.now,
            requests: 0,
            hands: BTreeMap::new(),
        }
    }

    /// Its store.
    pub fn store(&self) -> &Mem {
        &self.store
    }

    /// Its newest state.
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// When it is there.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets time pass.
    pub fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Who may do what there.
    pub(crate) fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// How many requests it has taken.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The field manager behind what became of an object in this fork: who made it, deleted it, or wrote it last.
    pub(crate) fn hand(&self, key: &Key, action: crate::Action) -> &str {
        let Some(hands) = self.hands.get(key) else { return "" };
        let chosen = match action {
            crate::Action::Create => hands.maker.as_ref(),
            crate::Action::Delete => hands.remover.as_ref(),
            _ => None,
        };
        chosen.unwrap_or(&hands.writer)
    }

    /// The kinds served now.
    pub fn catalog(&mut self) -> Arc<Catalog> {
        let snapshot = self.snapshot();
        if !snapshot.is_same_collection(&self.catalog_of, DEFINITIONS) {
            self.catalog = Arc::new(api::served(&self.catalog, &snapshot));
            self.catalog_of = snapshot.only(DEFINITIONS);
        }
        Arc::clone(&self.catalog)
    }

    /// Takes a request of a component, as its own user.
    pub fn call(&mut self, user: &Arc<UserInfo>, agent: &str, call: &Call) -> Result<Value, Refused> {
        let (path, body) = (call.path_and_query(agent), call.body.clone());
        let Call { method, content_type, .. } = call;
        let asked = Asked { user, agent, method, path: &path, content_type, body };
        self.ask(&asked).map(|(answer, _)| shown(answer)).map_err(|error| refused(&error))
    }

    /// Takes any request; the answer and its warnings.
    pub fn ask(&mut self, asked: &Asked<'_>) -> Result<(Answer, Vec<String>), ApiError> {
        self.requests += 1;
        let catalog = self.catalog();
        let request = asked.request(&self.snapshot(), &catalog, &self.authorizer)?;
        for _ in 0..BATCHES_MAX {
            let snapshot = self.snapshot();
            let world = api::World {
                snapshot: &snapshot,
                catalog: &catalog,
                now: self.now,
                authorizer: &self.authorizer,
                ids: &self.ids,
            };
            let commit = match self.machine.attempt(world, &request)? {
                Attempt::Answer(answer) => return Ok(with_warnings(answer)),
                Attempt::Commit(commit) => *commit,
            };
            self.remember(&commit.txn, &request, &snapshot);
            match self.submit(commit.txn) {
                Ok(_) if request.verb == Verb::DeleteCollection => {}
                Ok(committed) => return Ok(with_warnings((commit.then)(&committed))),
                Err(_) => return Err(commit.conflict),
            }
        }
        Err(ApiError::internal("the collection grew faster than it could be deleted"))
    }

    fn remember(&mut self, txn: &Txn, request: &Request, before: &Snapshot) {
        let manager = || request.manager().to_owned();
        for op in &txn.ops {
            let (store::Op::Put { key, .. } | store::Op::Delete { key, .. }) = op;
            let hands = self.hands.entry(key.clone()).or_default();
            // Whoever only observes does not change what is told of an object.
            if request.target.subresource != "status" || hands.writer.is_empty() {
                hands.writer = manager();
            }
            if before.get_key(key).is_none() {
                hands.maker = Some(manager());
            }
            if matches!(request.verb, Verb::Delete | Verb::DeleteCollection) {
                hands.remover.get_or_insert_with(manager);
            }
        }
    }

    /// The engine in memory acknowledges before it returns.
    fn submit(&self, txn: Txn) -> Result<Committed, TxnError> {
        let slot = Arc::new(Mutex::new(None));
        let ack = Arc::clone(&slot);
        self.store.submit(
            txn,
            Box::new(move |outcome| {
                *ack.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            }),
        );
        let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.unwrap_or_else(|| Err(TxnError::Stopped("no acknowledgement".to_owned())))
    }
}

fn with_warnings(mut answer: Answer) -> (Answer, Vec<String>) {
    let warnings = std::mem::take(&mut answer.warnings);
    (answer, warnings)
}

/// An answer as components read it: of a stored object they look at no more than its revision.
fn shown(answer: Answer) -> Value {
    match answer.body {
        Body::Entry(entry) => json!({"metadata": {"resourceVersion": entry.modified.0.to_string()}}),
        Body::Tree(tree) => tree,
        Body::Raw(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Body::List(_) | Body::Watch(_) => Value::Null,
    }
}

fn refused(error: &ApiError) -> Refused {
    let reason = error.reason.map_or("", |reason| reason.as_str()).to_owned();
    Refused { code: error.code, reason, message: error.message.clone() }
}
