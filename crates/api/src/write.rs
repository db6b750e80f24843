//! The common course of every create, update and patch, from the object as asked for to the transaction.

use std::sync::Arc;

use admit::admission::{Effects, Operation};
use admit::{Attributes, crd_rules};
use kinds::{KindDef, Rules, UpdateOf, object_meta};
use meta::stored::DEPTH_MAX;
use meta::{ApiError, FieldError, FieldPath, Gvk, ObjectExt, Time};
use serde_json::{Value, json};
use store::{Entry, Keyspace, Op, Precondition, Txn};

use crate::admission::{Review, side_writes};
use crate::changes::{self, Author, Logged};
use crate::fights::{self, FieldFight};
use crate::machine::{Attempt, Commit};
use crate::{Answer, Body, Request, Verb, World, encode};

/// An object on its way into the store.
pub struct Write {
    /// Who does what, as admission sees it.
    pub attributes: Attributes,
    /// The object's kind at the request's version.
    pub kind: Arc<KindDef>,
    /// What stands in the store, decoded at the request's version; `None` for a create.
    pub old: Option<Old>,
    /// What shall stand there.
    pub new: Value,
    /// Warnings so far.
    pub warnings: Vec<String>,
    pub(crate) update_of: UpdateOf,
    pub(crate) manager: String,
    pub(crate) dry_run: bool,
    /// The request insists on a revision or uid: a conflict is the client's to solve.
    pub(crate) insists: bool,
    pub(crate) code: u16,
    /// The name was generated here: another try makes another one.
    pub(crate) name_generated: bool,
    effects: Effects,
    /// What the server chose for the object holds only with this; another attempt chooses anew.
    chosen: Option<Precondition>,
    /// What the client gets instead of the object (scale, eviction).
    pub(crate) answer_as: Option<fn(&KindDef, &Value) -> Value>,
}

/// A stored object, decoded.
pub struct Old {
    /// The object at the request's version, with its resourceVersion.
    pub tree: Value,
    /// As stored.
    pub entry: Arc<Entry>,
}

impl Old {
    /// Decodes what is stored.
    pub(crate) fn of(kind: &KindDef, entry: &Arc<Entry>) -> Result<Old, ApiError> {
        Ok(Old { tree: tree_at(kind, entry)?, entry: Arc::clone(entry) })
    }
}

/// The stored object as a tree at the kind's version.
pub(crate) fn tree_at(kind: &KindDef, entry: &Entry) -> Result<Value, ApiError> {
    let mut tree = meta::stored::read(&entry.value)
        .map_err(|_| ApiError::internal(format!("a stored object of kind {} cannot be decoded", kind.kind)))?;
    if let Some(conversion) = &kind.conversion {
        (conversion.from_hub)(&mut tree);
    }
    if kind.custom.is_some() {
        read_as_custom(kind, &mut tree);
    }
    Ok(tree)
}

/// Custom objects keep the version they were written at; reading says the version asked for, without what the
/// schema has dropped since and with the defaults it has gained.
fn read_as_custom(kind: &KindDef, tree: &mut Value) {
    tree.put(&["apiVersion"], kind.group_version().to_string());
    schema::prune::prune(kind.schema.get(), tree);
    schema::defaults::apply(kind.schema.get(), tree);
}

impl Write {
    pub(crate) fn new(request: &Request, old: Option<Old>, new: Value) -> Write {
        let mut attributes = request.attributes();
        attributes.name = new.name().to_owned();
        Write {
            attributes,
            kind: Arc::clone(&request.target.kind),
            code: if old.is_none() { 201 } else { 200 },
            old,
            new,
            warnings: Vec::new(),
            update_of: update_of(&request.target.subresource),
            manager: request.manager().to_owned(),
            dry_run: request.options.dry_run,
            insists: false,
            name_generated: false,
            effects: Effects::default(),
            chosen: None,
            answer_as: None,
        }
    }

    /// Runs the built-in admission steps.
    pub fn admit(mut self, world: World<'_>) -> Result<Write, ApiError> {
        let (mut new, mut effects) = (std::mem::take(&mut self.new), Effects::default());
        let gvk = self.kind.gvk();
        self.review(&gvk).admit(world, Some(&mut new), &mut effects)?;
        (self.new, self.effects) = (new, effects);
        Ok(self)
    }

    fn review<'w>(&'w self, kind: &'w Gvk) -> Review<'w> {
        Review {
            attributes: &self.attributes,
            operation: if self.old.is_none() { Operation::Create } else { Operation::Update },
            kind,
            old: self.old.as_ref().map(|old| &old.tree),
            dry_run: self.dry_run,
        }
    }

    /// Checks the object and makes the transaction.
    pub fn complete(mut self, world: World<'_>) -> Result<Attempt, ApiError> {
        let old = self.old.as_ref().map(|old| &old.tree);
        self.chosen = crate::service::allocate(world, &self.kind, old, &mut self.new)?;
        self.settle_generation();
        let errors = self.faults();
        if !errors.is_empty() {
            return Err(ApiError::invalid(&self.kind.group_kind(), self.new.name(), &errors));
        }
        let mut effects = std::mem::take(&mut self.effects);
        self.review(&self.kind.gvk()).charge(world, &self.new, &mut effects)?;
        self.warnings.append(&mut effects.warnings);
        self.effects = effects;
        self.warn();
        self.complete_unchecked(world)
    }

    /// The same for a change whose rules stand elsewhere (binding).
    pub(crate) fn complete_unchecked(mut self, world: World<'_>) -> Result<Attempt, ApiError> {
        if !meta::stored::is_within(&self.new, DEPTH_MAX) {
            return Err(ApiError::bad_request(format!("the object is nested deeper than {DEPTH_MAX} levels")));
        }
        if let Some(old) = &self.old {
            self.new.put(&["metadata", "resourceVersion"], old.tree.text(&["metadata", "resourceVersion"]));
            if merge::managed::settle(&old.tree, &mut self.new) && self.effects.writes.is_empty() {
                return Ok(Attempt::Answer(self.answer_old()));
            }
        }
        // A name that is visibly taken needs no transaction to find out. A generated one is tried again by the store's
        // own precondition, with another suffix.
        if self.old.is_none() && !self.name_generated && world.snapshot.get_key(&self.key()).is_some() {
            return Err(ApiError::already_exists(&self.kind.group_resource(), self.new.name()));
        }
        let logged = self.logged(world.now);
        let fights = match &self.old {
            Some(old) => fights::guard(world, &self.kind, &old.tree, &logged)?,
            None => Vec::new(),
        };
        if self.dry_run {
            return Ok(Attempt::Answer(self.answer_dry()));
        }
        Ok(Attempt::Commit(Box::new(self.commit(world, logged, &fights))))
    }

    /// `metadata.generation` counts changes of everything but metadata and status.
    fn settle_generation(&mut self) {
        if !self.kind.counts_generation {
            return;
        }
        let generation = match &self.old {
            None => 1,
            Some(old) => {
                let begins_deletion = self.new.is_deleting() && !old.tree.is_deleting();
                old.tree.generation() + i64::from(begins_deletion || desired_differs(&self.kind, &old.tree, &self.new))
            }
        };
        self.new.put(&["metadata", "generation"], generation);
    }

    fn faults(&self) -> Vec<FieldError> {
        let mut errors = match &self.old {
            None => object_meta::validate_object_meta(&self.kind, &self.new),
            Some(old) => object_meta::validate_object_meta_update(&self.kind, &self.new, &old.tree),
        };
        errors.extend(fights::faults(&self.new));
        errors.extend(self.kind_faults());
        errors
    }

    fn kind_faults(&self) -> Vec<FieldError> {
        let old = self.old.as_ref().map(|old| &old.tree);
        match (&self.kind.rules, old) {
            (Rules::BuiltIn(rules), None) => (rules.validate)(&self.new),
            (Rules::BuiltIn(rules), Some(old)) => (rules.validate_update)(&self.new, old, self.update_of),
            (Rules::Custom, old) => {
                let errors = schema::validate::check(self.kind.schema.get(), &self.new, &FieldPath::ROOT);
                // Rules read fields of the types that the schema promises: they come after it.
                if errors.is_empty() {
                    crd_rules::validate(self.kind.schema.get(), &self.new, old).errors
                } else {
                    errors
                }
            }
        }
    }

    fn warn(&mut self) {
        if let Some(deprecated) = &self.kind.deprecated {
            self.warnings.push(deprecated.to_string());
        }
        if let Rules::BuiltIn(rules) = &self.kind.rules {
            self.warnings.extend((rules.warnings)(&self.new, self.old.as_ref().map(|old| &old.tree)));
        }
    }

    fn answer_old(self) -> Answer {
        let warnings = self.warnings;
        let body = match (self.old, self.answer_as) {
            (Some(old), None) => Body::Tree(old.tree),
            (Some(old), Some(answer_as)) => Body::Tree(answer_as(&self.kind, &old.tree)),
            (None, _) => Body::Tree(self.new),
        };
        Answer { code: 200, body, warnings }
    }

    fn answer_dry(mut self) -> Answer {
        // What is not stored has no revision of its own: a new object has none, a changed one its last.
        match &self.old {
            None => drop(self.new.remove(&["metadata", "resourceVersion"])),
            Some(old) => {
                self.new.put(&["metadata", "resourceVersion"], old.tree.text(&["metadata", "resourceVersion"]))
            }
        }
        let tree = self.answer_as.map_or_else(|| self.new.clone(), |answer_as| answer_as(&self.kind, &self.new));
        Answer { code: self.code, body: Body::Tree(tree), warnings: self.warnings }
    }

    /// Where the object is stored.
    fn key(&self) -> store::Key {
        match self.kind.is_namespaced() {
            true => store::Key::new(self.kind.collection(), format!("{}/{}", self.new.namespace(), self.new.name())),
            false => store::Key::new(self.kind.collection(), self.new.name()),
        }
    }

    /// What the write does to the object's change log.
    fn logged(&self, now: Time) -> Logged {
        let author = Author {
            manager: &self.manager,
            user: &self.attributes.user.name,
            verb: changes::verb_text(&self.attributes.verb, &self.attributes.subresource),
        };
        let old = self.old.as_ref().map(|old| (&old.tree, &*old.entry));
        changes::logged(&self.kind, old, &self.new, &author, now)
    }

    fn commit(self, world: World<'_>, logged: Logged, fights: &[FieldFight]) -> Commit {
        let key = self.key();
        let annex = logged.annex();
        let (value, stamp_at) = match &self.kind.conversion {
            None => encode(&self.new),
            Some(conversion) => {
                let mut stored = self.new.clone();
                (conversion.to_hub)(&mut stored);
                encode(&stored)
            }
        };
        let precondition = match &self.old {
            None => Precondition::Absent(key.clone()),
            Some(old) => Precondition::ModifiedAt(key.clone(), old.entry.modified),
        };
        let keyspace = if self.kind.volatile { Keyspace::Volatile } else { Keyspace::Durable };
        let op = match is_removed(&self.kind, &self.new) {
            true => Op::Delete { key, last: Some((value, Some(stamp_at))) },
            false => Op::Put { key, value, annex, stamp_at: Some(stamp_at), keyspace },
        };
        let mut preconditions: Vec<Precondition> = [precondition].into_iter().chain(self.chosen.clone()).collect();
        let mut ops = vec![op];
        for (precondition, op) in side_writes(&self.effects, world.snapshot) {
            preconditions.push(precondition);
            ops.push(op);
        }
        ops.extend(fights::events(world, &self.new, fights));
        let (resource, name) = (self.kind.group_resource(), self.new.name().to_owned());
        let is_create = self.old.is_none();
        let conflict =
            if is_create { ApiError::already_exists(&resource, &name) } else { ApiError::modified(&resource, &name) };
        Commit {
            txn: Txn { preconditions, ops },
            fights: fights.len(),
            // A create that collides is answered at once unless it may pick another name or really is an apply.
            retry: !self.insists
                && (!is_create
                    || self.name_generated
                    || self.attributes.verb != Verb::Create.as_str()
                    || self.chosen.is_some()
                    || !self.effects.writes.is_empty()),
            conflict,
            then: Box::new(move |committed| self.answer_committed(committed)),
        }
    }

    fn answer_committed(mut self, committed: &store::Committed) -> Answer {
        let entry = committed.entries.first().cloned().flatten();
        self.new.put(&["metadata", "resourceVersion"], committed.revision.0.to_string());
        let body = match (self.answer_as, entry) {
            (Some(answer_as), _) => Body::Tree(answer_as(&self.kind, &self.new)),
            // Stored bytes go out as they are where the stored version is the one asked for.
            (None, Some(entry)) if self.kind.conversion.is_none() => Body::Entry(entry),
            (None, _) => Body::Tree(self.new),
        };
        Answer { code: self.code, body, warnings: self.warnings }
    }
}

/// Whether anything but metadata and status differs.
fn desired_differs(kind: &KindDef, old: &Value, new: &Value) -> bool {
    let has_status = kind.subresource("status").is_some();
    let (old, new) = (old.as_object(), new.as_object());
    let keys = old.into_iter().chain(new).flat_map(|map| map.keys());
    let mut differing = keys.filter(|key| !matches!(key.as_str(), "metadata" | "apiVersion" | "kind"));
    differing
        .any(|key| !(has_status && key == "status") && old.and_then(|o| o.get(key)) != new.and_then(|n| n.get(key)))
}

/// Whether the object goes away with this write: deletion has begun, its grace is over and nobody holds it.
pub(crate) fn is_removed(kind: &KindDef, object: &Value) -> bool {
    let grace_over = object.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0;
    object.is_deleting() && grace_over && !is_held(kind, object)
}

/// Whether finalizers hold the object.
pub(crate) fn is_held(kind: &KindDef, object: &Value) -> bool {
    let held_by_spec =
        kind.kind == "Namespace" && kind.group.is_empty() && !object.items(&["spec", "finalizers"]).is_empty();
    object.finalizers().next().is_some() || held_by_spec
}

pub(crate) fn update_of(subresource: &str) -> UpdateOf {
    match subresource {
        "" => UpdateOf::Main,
        "status" => UpdateOf::Status,
        "scale" => UpdateOf::Other("scale"),
        "ephemeralcontainers" => UpdateOf::Other("ephemeralcontainers"),
        "resize" => UpdateOf::Other("resize"),
        "approval" => UpdateOf::Other("approval"),
        "finalize" => UpdateOf::Other("finalize"),
        _ => UpdateOf::Other("other"),
    }
}

/// Sets the fields that only the server sets on a new object.
pub(crate) fn fill_system_fields(object: &mut Value, world: World<'_>) {
    let metadata = object.map_mut(&["metadata"]);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), json!(world.ids.uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(world.now.to_rfc3339()));
}
