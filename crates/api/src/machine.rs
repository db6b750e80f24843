//! The machine: one request against one snapshot.

use std::sync::Arc;

use admit::Authorizer;
use bytes::Bytes;
use clock::Ids;
use kinds::Catalog;
use meta::{ApiError, Time};
use serde_json::Value;
use store::{Committed, Entry, Snapshot, Txn};

use crate::{
    ListAnswer, MediaType, Request, Verb, WatchAnswer, create, delete, list, patch, reviews, special, update, watch,
};

/// What the machine is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most items of a page of deletecollection's transaction.
    pub delete_batch_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        // 500 deletions are under 2 MB of log and a few milliseconds of the store's one writer.
        Settings { delete_batch_max: 500 }
    }
}

/// The state that an attempt sees.
#[derive(Clone, Copy)]
pub struct World<'w> {
    /// All objects.
    pub snapshot: &'w Snapshot,
    /// All kinds.
    pub catalog: &'w Catalog,
    /// The time.
    pub now: Time,
    /// Who may do what.
    pub authorizer: &'w Authorizer,
    /// Where uids and name suffixes come from.
    pub ids: &'w dyn Ids,
}

/// What came of an attempt.
pub enum Attempt {
    /// The answer; nothing is to be written.
    Answer(Answer),
    /// To be committed; then [`Commit::answer`] says what to answer.
    Commit(Box<Commit>),
}

/// A write that waits for its commit.
pub struct Commit {
    /// What to commit.
    pub txn: Txn,
    /// Makes the answer.
    pub then: Box<dyn FnOnce(&Committed) -> Answer + Send>,
    /// In how many fights over fields the write is one round more.
    pub fights: usize,
    /// Whether another attempt on a newer snapshot may succeed when a precondition fails: the request itself did
    /// not insist on a revision.
    pub retry: bool,
    /// The answer when it may not.
    pub conflict: ApiError,
}

/// What is answered.
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The body.
    pub body: Body,
    /// Warnings for people, one header each.
    pub warnings: Vec<String>,
}

/// A body, not yet in the representation asked for.
pub enum Body {
    /// One object as it is stored.
    Entry(Arc<Entry>),
    /// One object.
    Tree(Value),
    /// Bytes of JSON.
    Raw(Bytes),
    /// A collection.
    List(Box<ListAnswer>),
    /// A stream.
    Watch(Box<WatchAnswer>),
}

impl Answer {
    /// 200 with an object.
    pub fn tree(value: Value) -> Answer {
        Answer { code: 200, body: Body::Tree(value), warnings: Vec::new() }
    }

    /// The same with warnings added.
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Answer {
        self.warnings.extend(warnings);
        self
    }
}

/// The verbs. Stateless but for its settings.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// What it was told.
    pub settings: Settings,
}

impl Machine {
    /// Answers the request or says what to commit.
    pub fn attempt(&self, world: World<'_>, request: &Request) -> Result<Attempt, ApiError> {
        request.options.check(request.verb, request.body.media_type == MediaType::ApplyYaml)?;
        if let Some(attempt) = special::attempt(world, request)? {
            return Ok(attempt);
        }
        if request.target.kind.virtual_only {
            return reviews::attempt(world, request).map(Attempt::Answer);
        }
        match request.verb {
            Verb::Get => list::get(world, request).map(Attempt::Answer),
            Verb::List => list::list(world, request).map(Attempt::Answer),
            Verb::Watch => watch::watch(world, request).map(Attempt::Answer),
            Verb::Delete => delete::one(world, request),
            Verb::DeleteCollection => delete::collection(world, request, &self.settings),
            Verb::Create | Verb::Update | Verb::Patch => self.begin(world, request)?.admit(world)?.complete(world),
        }
    }

    /// The first half of a create, update or patch: the object as it would be, before admission. A shell that
    /// calls webhooks stands between the halves.
    pub fn begin(&self, world: World<'_>, request: &Request) -> Result<crate::Write, ApiError> {
        match request.verb {
            Verb::Create => create::begin(world, request),
            Verb::Update => update::begin(world, request),
            Verb::Patch => patch::begin(world, request),
            other => Err(ApiError::internal(format!("{} writes no object", other.as_str()))),
        }
    }
}
