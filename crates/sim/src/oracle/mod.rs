//! The oracles: they look at every revision and know nothing of the code they check.
//!
//! E1 everything converges by a bound after the faults end, measured by the last violation; E2 it stays so; E3 it is
//! silent; E4 work is bounded; E5 no state comes back while something is wrong (a lasso); E6 invariants hold on the way;
//! E7 everybody writes only what it may. And of the store: the watch tells exactly what happened, and what was
//! acknowledged is there.

mod guarantee;
mod ledger;
mod matches;
mod safety;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use meta::ObjectExt;
use serde_json::Value;
use store::{Collection, Event, Key, Revision, Snapshot};

use crate::dice::fnv;
use crate::report::Violation;
use crate::server::{Reply, Wire, base_snapshot};
use crate::world::BOUND_MS;
use ledger::Ledger;
use safety::Safety;

/// Durable writes in the quiet phase, for each object that is there and once more: everything may be written anew a
/// few times.
const WRITES_PER_OBJECT_MAX: u64 = 30;
const WRITES_FREE: u64 = 300;
/// Refusals as stale of one key of one controller in the quiet phase.
const CONFLICTS_MAX: u64 = 60;
/// How often the same wrong state may come back before it is called a lasso: twice is what a rollout may do.
const LASSO_MAX: u32 = 12;

/// Who made a write.
#[derive(Clone, Debug)]
pub struct Author {
    /// The room's name, or `user NAME`.
    pub who: String,
}

impl Author {
    /// Whether a room of this name, or a second instance of it, made it.
    pub fn is(&self, room: &str) -> bool {
        let name = self.who.split('#').next().unwrap_or("");
        name == room || (room == "simulated-node" && name.starts_with(room))
    }
}

/// One revision, with what is around it.
pub struct Scene<'s> {
    /// When, in the run's time (microseconds).
    pub at: u64,
    /// What happened.
    pub events: &'s [Event],
    /// Nodes that are away.
    pub nodes_down: &'s BTreeSet<String>,
}

/// All of them.
pub struct Oracles {
    /// What must not have happened. A run stops at the first.
    pub violations: Vec<Violation>,
    /// Revisions looked at.
    pub revisions: u64,
    ledger: Ledger,
    safety: Safety,
    present: BTreeSet<&'static str>,
    authors: BTreeMap<Revision, Author>,
    acknowledged: Revision,
    quiet_at: Option<u64>,
    /// By kind: when something was wrong last.
    wrong_at: BTreeMap<&'static str, u64>,
    /// What is wrong now.
    wrong: Vec<(&'static str, String)>,
    writes: u64,
    conflicts: BTreeMap<(String, String), u64>,
    states: BTreeMap<u64, u32>,
}

static BASE: LazyLock<Ledger> = LazyLock::new(|| Ledger::of(base_snapshot()));

impl Oracles {
    /// Oracles over a world that begins at `snapshot`, in which controllers of these names take part.
    pub fn new(snapshot: &Snapshot, present: &[&'static str]) -> Oracles {
        let is_base = snapshot.revision() == base_snapshot().revision();
        Oracles {
            violations: Vec::new(),
            revisions: 0,
            ledger: if is_base { BASE.clone() } else { Ledger::of(snapshot) },
            safety: Safety::default(),
            present: present.iter().copied().collect(),
            authors: BTreeMap::new(),
            acknowledged: snapshot.revision(),
            quiet_at: None,
            wrong_at: BTreeMap::new(),
            wrong: Vec::new(),
            writes: 0,
            conflicts: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    fn broken(&mut self, oracle: &'static str, rule: &'static str, at: u64, text: String) {
        self.violations.push(Violation { oracle, rule, at_ms: at / 1_000, text });
    }

    /// A request was committed as this revision.
    pub fn committed(&mut self, revision: Revision, author: Author) {
        self.acknowledged = self.acknowledged.max(revision);
        self.authors.insert(revision, author);
    }

    /// A request was answered.
    pub fn answered(&mut self, at: u64, who: &str, wire: &Wire, reply: &Reply, quiet: bool) {
        let stale =
            reply.as_ref().is_err_and(|refused| refused.reason == "Conflict" || refused.reason == "AlreadyExists");
        let told = reply.as_ref().ok().and_then(|answer| answer.text(&["metadata", "resourceVersion"]).parse().ok());
        if let Some(revision) = told.map(Revision).filter(|revision| *revision > self.ledger.revision) {
            let text = format!("{who} was told of {revision}, which never was ({} {})", wire.method, wire.path);
            self.broken("store", "acknowledged", at, text);
        }
        // An event that is there already is counted, not missed.
        if quiet && stale && !wire.path.contains("/events") {
            let path = wire.path.split('?').next().unwrap_or("").to_owned();
            *self.conflicts.entry((who.to_owned(), path)).or_default() += 1;
        }
    }

    /// Most conflicts of one key.
    pub fn conflicts_max(&self) -> u64 {
        self.conflicts.values().copied().max().unwrap_or(0)
    }

    /// Events of a collection could not be had though the watcher was at the newest revision.
    pub fn missed(&mut self, collection: &Collection) {
        self.broken("store", "gap", 0, format!("events of {collection} are lost to a watcher who had missed none"));
    }

    /// The quiet phase begins.
    pub fn quiet(&mut self, at: u64) {
        self.quiet_at = Some(at);
        self.writes = 0;
        self.judge(at);
    }

    /// Looks at one revision.
    pub fn revision(&mut self, scene: &Scene<'_>) {
        self.revisions += 1;
        let author = scene.events.first().and_then(|event| self.authors.remove(&event.revision));
        let mut durable = false;
        for event in scene.events {
            let old = self.ledger.get(&event.key).map(|kept| kept.tree.clone());
            durable |= event.entry.is_durable();
            if let Err(text) = self.ledger.tell(event) {
                self.broken("store", "watch", scene.at, text);
            }
            let broken = self.safety.event(scene, event, old.as_deref(), &self.ledger, author.as_ref());
            for (rule, text) in broken {
                self.broken("E6", rule, scene.at, text);
            }
            let new = self.ledger.get(&event.key).map(|kept| kept.tree.clone());
            if let Some(author) = &author
                && let Err(text) = guarantee::check(author, event, old.as_deref(), new.as_deref())
            {
                self.broken("E7", "guarantee", scene.at, text);
            }
        }
        if let Some(quiet_at) = self.quiet_at {
            self.quiet_revision(scene, author.as_ref(), durable, quiet_at);
        }
    }

    fn quiet_revision(&mut self, scene: &Scene<'_>, author: Option<&Author>, durable: bool, quiet_at: u64) {
        let late = scene.at > quiet_at + BOUND_MS * 1_000;
        let by = author.map_or("nobody", |author| &author.who).to_owned();
        let leases = scene.events.iter().all(|event| &*event.key.collection == "coordination.k8s.io/leases");
        if late && !leases {
            let keys: Vec<String> = scene.events.iter().map(|event| event.key.to_string()).collect();
            self.broken("E3", "silent", scene.at, format!("{by} writes {} though all is quiet", keys.join(", ")));
        }
        if !durable {
            return;
        }
        self.writes += 1;
        let most = WRITES_FREE + WRITES_PER_OBJECT_MAX * self.ledger.list("core/pods").count() as u64;
        if self.writes > most {
            self.broken(
                "E4",
                "writes",
                scene.at,
                format!("more than {most} writes in the quiet phase, the last by {by}"),
            );
        }
        let busiest = self.conflicts.iter().find(|(_, count)| **count > CONFLICTS_MAX);
        if let Some(((who, path), count)) = busiest.map(|(key, count)| (key.clone(), *count)) {
            self.broken("E4", "conflicts", scene.at, format!("{who} was refused {count} times at {path}"));
        }
        self.judge(scene.at);
        if late && !self.wrong.is_empty() {
            self.broken("E2", "stable", scene.at, self.wrong_text());
        }
        self.lasso(scene.at);
    }

    fn judge(&mut self, at: u64) {
        self.wrong = matches::problems(&self.ledger, &self.present);
        for (kind, _) in &self.wrong {
            self.wrong_at.insert(kind, at);
        }
    }

    fn wrong_text(&self) -> String {
        let texts: Vec<&str> = self.wrong.iter().take(5).map(|(_, text)| text.as_str()).collect();
        format!("{} (of {} problems)", texts.join("; "), self.wrong.len())
    }

    /// A wrong state that comes back again and again will do so for ever.
    fn lasso(&mut self, at: u64) {
        if self.wrong.is_empty() {
            return;
        }
        let hash = self.ledger.all().filter(|(_, kept)| kept.durable).fold(0u64, |sum, (key, kept)| {
            let name = if kept.tree.controller_ref().is_some() { "" } else { &key.item };
            let start = fnv(fnv(0xcbf2_9ce4_8422_2325, key.collection.as_bytes()), name.as_bytes());
            sum.wrapping_add(essence(&kept.tree, start))
        });
        let seen = self.states.entry(hash).or_default();
        *seen += 1;
        if *seen > LASSO_MAX {
            let text = format!("a wrong state came back {LASSO_MAX} times: {}", self.wrong_text());
            self.broken("E5", "lasso", at, text);
        }
    }

    /// The server was killed and is back: what was acknowledged is there, what was not may be.
    pub fn restarted(&mut self, at: u64, snapshot: &Snapshot, uncertain: &[Key]) {
        if snapshot.revision() < self.acknowledged {
            let text = format!("starts at {} though {} was acknowledged", snapshot.revision(), self.acknowledged);
            self.broken("store", "revision", at, text);
        }
        self.compare(at, snapshot, uncertain);
        self.ledger = Ledger::of(snapshot);
        self.authors.clear();
    }

    /// The store holds exactly what was told of it, but for keys whose writes nobody acknowledged.
    pub fn compare(&mut self, at: u64, snapshot: &Snapshot, uncertain: &[Key]) {
        let except: BTreeSet<Key> = uncertain.iter().cloned().collect();
        let same_life = snapshot.revision() == self.ledger.revision;
        if let Some(text) = self.ledger.difference(snapshot, &except, same_life) {
            self.broken("store", "acknowledged", at, text);
        }
    }

    /// The run is over: what is wrong now stays wrong.
    pub fn finish(&mut self, at: u64, quiet_at: u64) {
        self.judge(at);
        if !self.wrong.is_empty() {
            let text = format!("{} s after the faults ended: {}", (at - quiet_at) / 1_000_000, self.wrong_text());
            self.broken("E1", "converge", at, text);
        }
    }

    /// For each kind that was ever wrong in the quiet phase: how long after its beginning it was wrong last.
    pub fn converged_ms(&self, quiet_at: u64) -> BTreeMap<&'static str, u64> {
        self.wrong_at.iter().map(|(kind, at)| (*kind, at.saturating_sub(quiet_at) / 1_000)).collect()
    }
}

/// A hash of what matters: no identities, counters or times.
fn essence(value: &Value, hash: u64) -> u64 {
    const PASSING: &[&str] = &["uid", "resourceVersion", "generation", "observedGeneration", "name", "generateName"];
    match value {
        Value::Object(map) => map.iter().fold(hash, |hash, (field, value)| {
            if PASSING.contains(&field.as_str())
                || field.ends_with("Time")
                || field.ends_with("Timestamp")
                || field.ends_with("At")
            {
                return hash;
            }
            essence(value, fnv(hash, field.as_bytes()))
        }),
        Value::Array(items) => items.iter().fold(fnv(hash, b"["), |hash, item| essence(item, hash)),
        Value::String(text) => fnv(hash, text.as_bytes()),
        other => fnv(hash, other.to_string().as_bytes()),
    }
}
