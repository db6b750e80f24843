//! The oracles: they look at every revision and know nothing of the code they check.
//!
//! E1 everything converges by a bound after the faults end, measured by the last violation; E2 it stays so; E3 it is
//! silent; E4 work is bounded; E5 no state comes back while something is wrong (a lasso); E6 invariants hold on the way;
//! E7 everybody writes only what it may. And of the store: the watch tells exactly what happened, to slow watchers too (the
//! nine properties), and what was acknowledged is there.

mod guarantee;
mod judge;
mod ledger;
mod matches;
mod safety;
mod watchers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use meta::ObjectExt;
use store::{Collection, Event, Key, Revision, Snapshot, Store};

use crate::report::Violation;
use crate::server::{Reply, START, Wire, base_snapshot};
use crate::world::BOUND_MS;
use judge::Judge;
use ledger::Ledger;
use matches::Facts;
use safety::Safety;
use watchers::Watchers;

/// Durable writes in the quiet phase, for each object that is there and once more: everything may be written anew a
/// few times.
const WRITES_PER_OBJECT_MAX: u64 = 30;
const WRITES_FREE: u64 = 300;
/// Objects that may be there at once: no plan asks for a tenth of them, so somebody creates without end.
const OBJECTS_MAX: usize = 5_000;
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
    /// Controllers that ran twice at some time, if only by a request that outlived its sender.
    pub twins: &'s BTreeSet<&'static str>,
}

/// Controllers that no rule of convergence is about.
pub fn unjudged(controllers: &[&'static str]) -> Vec<&'static str> {
    Judge::without_rule(controllers)
}

/// All of them.
pub struct Oracles {
    /// What must not have happened. A run stops at the first.
    pub violations: Vec<Violation>,
    /// Revisions looked at.
    pub revisions: u64,
    ledger: Ledger,
    safety: Safety,
    watchers: Watchers,
    judge: Judge,
    authors: BTreeMap<Revision, Author>,
    acknowledged: Revision,
    quiet_at: Option<u64>,
    writes: BTreeMap<String, u64>,
    conflicts: BTreeMap<(String, String), u64>,
    /// Pods that the scheduler has told once more since all is quiet.
    retold: BTreeSet<Key>,
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
            watchers: Watchers::default(),
            judge: Judge::new(&present.iter().copied().collect()),
            authors: BTreeMap::new(),
            acknowledged: snapshot.revision(),
            quiet_at: None,
            writes: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            retold: BTreeSet::new(),
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
        if let Err(refused) = reply
            && refused.message.contains(" cannot ")
            && refused.message.contains(r#"User "system:serviceaccount:kube-system:"#)
        {
            let text = format!("{who} asks for what its role does not grant: {}", refused.message);
            self.broken("E7", "role", at, text);
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

    /// New revisions, as the store tells them to watchers who are slow.
    pub fn watched(&mut self, at: u64, store: &dyn Store, after: Revision, events: &[Event], seed: u64) {
        if let Err(text) = self.watchers.told(store, after, events, seed) {
            self.broken("store", "watch", at, text);
        }
    }

    /// The quiet phase begins.
    pub fn quiet(&mut self, at: u64) {
        self.quiet_at = Some(at);
        self.judge_all(at);
    }

    /// The wall clock of the quiet phase, which no longer jumps.
    fn seconds(at: u64) -> i64 {
        START.as_secs() + (at / 1_000_000) as i64
    }

    fn judge_all(&mut self, at: u64) {
        self.judge.all(at, &Facts { ledger: &self.ledger, now: Oracles::seconds(at) });
    }

    /// Looks at one revision.
    pub fn revision(&mut self, scene: &Scene<'_>) {
        self.revisions += 1;
        if self.ledger.len() > OBJECTS_MAX && self.violations.is_empty() {
            let text = format!("{} objects, and no end", self.ledger.len());
            self.broken("E4", "objects", scene.at, text);
        }
        let author = scene.events.first().and_then(|event| self.authors.remove(&event.revision));
        let mut durable = false;
        let mut concerned = BTreeSet::new();
        let now = Oracles::seconds(scene.at);
        for event in scene.events {
            let old = self.ledger.get(&event.key).map(|kept| kept.tree.clone());
            durable |= event.entry.is_durable();
            if self.quiet_at.is_some() {
                self.judge.concerned(&self.ledger, event, &[old.as_deref()], &mut concerned);
                self.judge.time(scene.at, &Facts { ledger: &self.ledger, now }, &concerned);
            }
            if let Err(text) = self.ledger.tell(event) {
                self.broken("store", "watch", scene.at, text);
            }
            let broken = self.safety.event(scene, event, old.as_deref(), &self.ledger, author.as_ref());
            for (rule, text) in broken {
                self.broken("E6", rule, scene.at, text);
            }
            let new = self.ledger.get(&event.key).map(|kept| kept.tree.clone());
            if self.quiet_at.is_some() {
                self.judge.concerned(&self.ledger, event, &[new.as_deref()], &mut concerned);
            }
            if let Some(author) = &author
                && let Err(text) = guarantee::check(author, event, old.as_deref(), new.as_deref())
            {
                self.broken("E7", "guarantee", scene.at, text);
            }
        }
        if let Some(quiet_at) = self.quiet_at {
            concerned.iter().for_each(|key| self.judge.one(scene.at, &Facts { ledger: &self.ledger, now }, key));
            self.quiet_revision(scene, author.as_ref(), durable, quiet_at);
        }
    }

    fn quiet_revision(&mut self, scene: &Scene<'_>, author: Option<&Author>, durable: bool, quiet_at: u64) {
        let late = scene.at > quiet_at + BOUND_MS * 1_000;
        let by = author.map_or("nobody", |author| &author.who).to_owned();
        let leases = scene.events.iter().all(|event| &*event.key.collection == "coordination.k8s.io/leases");
        // A warning is repeated for as long as what it warns of lasts: a quota is full, a pod fits nowhere.
        let warnings = scene.events.iter().all(|event| {
            let kept = self.ledger.get(&event.key);
            &*event.key.collection == "core/events" && kept.is_some_and(|kept| kept.tree.text(&["type"]) == "Warning")
        });
        // A pod that waits for help is looked at again after five minutes, and may be told new numbers: once.
        let is_retold = late
            && by == "scheduler"
            && scene.events.iter().all(|event| {
                let kept = self.ledger.get(&event.key);
                let waits = kept.is_some_and(|kept| kept.tree.text(&["spec", "nodeName"]).is_empty());
                &*event.key.collection == "core/pods" && waits && self.retold.insert(event.key.clone())
            });
        if late && !leases && !warnings && !is_retold {
            let keys: Vec<String> = scene.events.iter().map(|event| event.key.to_string()).collect();
            self.broken("E3", "silent", scene.at, format!("{by} writes {} though all is quiet", keys.join(", ")));
        }
        if !durable {
            return;
        }
        *self.writes.entry(by.clone()).or_default() += 1;
        let most = WRITES_FREE + WRITES_PER_OBJECT_MAX * self.ledger.list("core/pods").count() as u64;
        if self.writes.values().sum::<u64>() > most {
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
        if late && !self.judge.is_content() {
            self.broken("E2", "stable", scene.at, self.wrong_text());
        }
        self.lasso(scene.at);
    }

    fn wrong_text(&self) -> String {
        let texts: Vec<String> = self.judge.wrong().take(5).collect();
        format!("{} (of {} problems)", texts.join("; "), self.judge.wrong().count())
    }

    /// A wrong state that comes back again and again will do so for ever.
    fn lasso(&mut self, at: u64) {
        if self.judge.is_content() {
            return;
        }
        let hash = self.ledger.essence();
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
        if let Err(text) = self.watchers.restarted() {
            self.broken("store", "watch", at, text);
        }
        self.ledger = self.ledger.anew(snapshot);
        self.authors.clear();
        if self.quiet_at.is_some() {
            self.judge_all(at);
        }
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
        if let Err(text) = self.watchers.restarted() {
            self.broken("store", "watch", at, text);
        }
        // Everything anew: what was kept up to date must say the same.
        let kept: Vec<String> = self.judge.wrong().collect();
        self.judge_all(at);
        let anew: Vec<String> = self.judge.wrong().collect();
        if let Some(one) = anew.iter().find(|one| !kept.contains(one)).or(kept.iter().find(|one| !anew.contains(one)))
            && !one.contains("outlived")
            && !one.contains("tolerate")
        {
            self.broken("law", "judge", at, format!("the judgement was not kept up to date: {one}"));
        }
        if !self.judge.is_content() {
            let text = format!("{} s after the faults ended: {}", (at - quiet_at) / 1_000_000, self.wrong_text());
            self.broken("E1", "converge", at, text);
        }
    }

    /// For each controller that had something to do: how long after the beginning of the quiet phase anything of its was
    /// wrong last.
    pub fn converged_ms(&self, quiet_at: u64) -> BTreeMap<&'static str, u64> {
        let span = |at: Option<u64>| at.map_or(0, |at| at.saturating_sub(quiet_at) / 1_000);
        self.judge.last_wrong().map(|(controller, at)| (controller, span(at))).collect()
    }

    /// Durable writes in the quiet phase, by author.
    pub fn writes(&self) -> &BTreeMap<String, u64> {
        &self.writes
    }

    /// Conflicts in the quiet phase, by author.
    pub fn conflicts(&self) -> BTreeMap<String, u64> {
        let mut by: BTreeMap<String, u64> = BTreeMap::new();
        for ((who, _), count) in &self.conflicts {
            *by.entry(who.clone()).or_default() += count;
        }
        by
    }
}
