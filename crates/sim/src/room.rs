//! One controller's process: its view, its keys, and the turns that are being performed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use admit::UserInfo;
use brain::{Controller, Def, Loop, Object, Performed, Refusal, Refusals, Turn, View, Wake};
use driver::{Call, Verdict, events};
use meta::{ObjectExt, Time};
use scheduler::{Decision, Scheduler};
use serde_json::Value;
use store::{Ack, Collection, Event, Key, Listener, ReadError, Revision, Snapshot, Store, Txn, TxnError};
use view::Mirror;

use crate::mutant::Mutant;
use crate::server::Reply;

/// What a room is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A controller of the control plane.
    Controller,
    /// The scheduler.
    Scheduler,
    /// Plays nodes.
    Node,
}

/// A turn that is being performed.
pub struct Course {
    /// Whose.
    pub key: Key,
    turn: Turn,
    root: Option<Object>,
    began: Time,
    done: usize,
    wrote: Option<Revision>,
    refusal: Option<Refusal>,
    /// Set when the effects are over and only notes are left.
    performed: Option<Performed>,
    notes: VecDeque<Value>,
    note: NoteStep,
    /// The scheduler's name for it.
    ticket: u64,
    /// The request whose answer it waits for.
    call: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NoteStep {
    /// Nothing was sent yet.
    Begin,
    /// It is recorded.
    First,
    /// It is counted once more: it was told before.
    Again(i64),
    /// It is counted, because somebody told it before this process began.
    Last(i64),
}

/// A revision on its way to a view.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// When it arrives, in the run's time.
    pub at: u64,
    /// Which.
    pub revision: Revision,
    /// Whether it may concern the room.
    pub concerns: bool,
}

/// A controller's process.
pub struct Room {
    /// The controller's name; a second instance has a mark behind it.
    pub name: String,
    /// What it is for.
    pub part: Part,
    /// What it looks at, and what it is called.
    pub def: Def,
    /// Who it acts as.
    pub user: Arc<UserInfo>,
    /// Changes with every start: what belongs to an earlier life is dropped.
    pub life: u64,
    /// Whether it runs.
    pub up: bool,
    /// Until when it stands still, in the run's time.
    pub paused_until: u64,
    /// When to be killed: after so many messages, for how long.
    pub doom: Option<(u64, u64)>,
    /// When a wake-up is planned, in the run's time.
    pub planned: Option<u64>,
    /// Revisions on their way to the view: when they arrive.
    pub coming: VecDeque<Coming>,
    /// When the next look at them is planned.
    pub looks_at: Option<u64>,
    /// Turns being performed.
    pub courses: BTreeMap<u64, Course>,
    /// Messages sent, for choices that follow from the number.
    pub sent: u64,
    mirror: Mirror,
    mind: Mind,
    refusals: Refusals,
    /// How often each event was told in this life, as the driver counts.
    told: BTreeMap<String, i64>,
    courses_started: u64,
    mutant: Option<Mutant>,
    /// For a mutant: names of what was created.
    made: BTreeSet<String>,
}

/// How a room decides.
#[expect(clippy::large_enum_variant, reason = "a few dozen for a run, and looked into all the time")]
pub enum Mind {
    /// One key after the other, as controllers do.
    Controller {
        /// What it is.
        controller: Controller,
        /// The keys.
        keys: Loop,
    },
    /// One pod after the other, on what it knows of all of them.
    Scheduler(Box<Scheduler>),
}

impl Mind {
    /// A mind of the same kind that knows nothing.
    fn fresh(&self) -> Mind {
        match self {
            Mind::Controller { controller, .. } => {
                Mind::Controller { controller: controller.clone(), keys: Loop::new() }
            }
            Mind::Scheduler(_) => Mind::Scheduler(Box::default()),
        }
    }
}

/// What is decided next, before it is looked at more closely.
struct Decided {
    key: Key,
    ticket: u64,
    turn: std::thread::Result<Turn>,
}

/// Turns of one controller under way at a time, as the driver has.
const TURNS_MAX: usize = 64;
const PODS: &str = "core/pods";

/// What a room says of a turn it started.
pub struct Started {
    /// Which.
    pub course: u64,
    /// What is wrong with the decision, if anything.
    pub fault: Option<String>,
    /// For the transcript; empty when nothing is to be done.
    pub line: String,
}

impl Room {
    /// A room that does not run yet.
    pub fn new(name: String, part: Part, def: Def, mind: Mind, user: Arc<UserInfo>, mutant: Option<Mutant>) -> Room {
        Room {
            name,
            part,
            def,
            user,
            life: 0,
            up: false,
            paused_until: 0,
            doom: None,
            planned: None,
            coming: VecDeque::new(),
            looks_at: None,
            courses: BTreeMap::new(),
            sent: 0,
            mirror: Mirror::default(),
            mind,
            refusals: Refusals::default(),
            told: BTreeMap::new(),
            courses_started: 0,
            mutant,
            made: BTreeSet::new(),
        }
    }

    /// A second instance of it.
    pub fn twin(&self, name: String) -> Room {
        Room::new(name, self.part, self.def.clone(), self.mind.fresh(), Arc::clone(&self.user), self.mutant)
    }

    /// Field manager and user agent, as the driver has.
    pub fn agent(&self) -> String {
        match self.part {
            Part::Scheduler => scheduler::SCHEDULER_NAME.to_owned(),
            _ => format!("{}-controller", self.def.name),
        }
    }

    /// Starts from the newest state, knowing nothing else.
    pub fn start(&mut self, store: &dyn Store, now: Time) {
        self.mirror = match self.mutant {
            Some(Mutant::StaleRestart) => stale(store),
            _ => Mirror::of(store),
        };
        self.mind = self.mind.fresh();
        if let Mind::Scheduler(scheduler) = &mut self.mind {
            scheduler.rebuild(self.mirror.view(), now);
        }
        self.refusals = Refusals::default();
        self.told.clear();
        self.courses.clear();
        self.coming.clear();
        self.looks_at = None;
        self.planned = None;
        self.up = true;
        if self.mutant != Some(Mutant::ForgetStart) {
            self.wake_all();
        }
    }

    /// Is killed.
    pub fn kill(&mut self) {
        self.life += 1;
        self.up = false;
        self.doom = None;
        self.courses.clear();
        self.coming.clear();
        self.looks_at = None;
        self.planned = None;
    }

    /// Whether a change of these collections may concern it.
    pub fn minds(&self, collections: &[Collection]) -> bool {
        let covered = |collection: &Collection| self.def.watches.iter().any(|watch| watch.covers(collection));
        self.part == Part::Scheduler || collections.iter().any(covered)
    }

    /// Looks at every key again.
    pub fn wake_all(&mut self) {
        if let Mind::Controller { controller, keys } = &mut self.mind {
            controller.all_keys(self.mirror.view()).into_iter().for_each(|key| keys.wake(key));
        }
    }

    /// The revision of its view.
    pub fn seen(&self) -> Revision {
        self.mirror.view().revision()
    }

    /// Moves the view to the newest revision that has arrived by `at`. True when the history on the way was gone, and
    /// everything is looked at anew.
    pub fn look(&mut self, store: &dyn Store, at: u64, now: Time) -> bool {
        let mut to = None;
        while let Some(Coming { revision, .. }) = self.coming.pop_front_if(|coming| coming.at <= at) {
            to = Some(revision);
        }
        let Some(to) = to.filter(|to| *to > self.seen()) else { return false };
        let newest = store.snapshot();
        let snapshot = if newest.revision() <= to { newest } else { store.snapshot_at(to).unwrap_or(newest) };
        let misses = self.mutant == Some(Mutant::MissDeletions);
        let drops = self.mutant == Some(Mutant::DropEvents);
        let deaf = self.mutant == Some(Mutant::Deaf(self.def.name));
        let (mind, def) = (&mut self.mind, &self.def);
        let wake = |view: &View, event: &Event| match mind {
            // The mutant misses every fifth event.
            _ if deaf && event.change == store::Change::Modified => {}
            _ if misses && event.change == store::Change::Deleted => {}
            _ if drops && event.revision.0.is_multiple_of(5) => {}
            Mind::Controller { keys, .. } => def.keys(view, event).into_iter().for_each(|key| keys.wake(key)),
            Mind::Scheduler(scheduler) => scheduler.observe(event, now),
        };
        let is_anew = !self.mirror.advance(&AsOf { store, snapshot }, wake);
        if is_anew {
            if let Mind::Scheduler(scheduler) = &mut self.mind {
                scheduler.rebuild(self.mirror.view(), now);
            }
            if self.mutant != Some(Mutant::NoRelist) {
                self.wake_all();
            }
        }
        is_anew
    }

    /// Decides what is due next.
    fn decide(&mut self, now: Time, is_down: &dyn Fn(&str) -> bool) -> Option<Decided> {
        let view = self.mirror.view();
        match &mut self.mind {
            Mind::Controller { controller, keys } => {
                let seen = if self.mutant == Some(Mutant::NoGate) { Revision(u64::MAX) } else { view.revision() };
                let key = keys.next(seen, now)?;
                let on_node = || view.get_key(&key).is_some_and(|root| is_down(&node_of(&root)));
                let turn = if self.part == Part::Node && on_node() {
                    Ok(Turn::rest())
                } else {
                    let last = self.refusals.get(&key);
                    std::panic::catch_unwind(AssertUnwindSafe(|| (controller.turn)(view, &key, now, last)))
                };
                Some(Decided { key, ticket: 0, turn })
            }
            Mind::Scheduler(scheduler) => {
                let decided = std::panic::catch_unwind(AssertUnwindSafe(|| scheduler.next(view, now)));
                let (key, ticket, turn) = match decided {
                    Ok(decision) => {
                        let Decision { key, ticket, effects, notes, .. } = decision?;
                        (key, ticket, Ok(Turn { effects, notes, ..Turn::rest() }))
                    }
                    Err(panic) => (Key::new(PODS, ""), 0, Err(panic)),
                };
                Some(Decided { key, ticket, turn })
            }
        }
    }

    /// Starts the next turn, if one is due.
    pub fn start_turn(&mut self, now: Time, is_down: &dyn Fn(&str) -> bool) -> Option<Started> {
        if self.courses.len() >= TURNS_MAX {
            return None;
        }
        let Decided { key, ticket, turn } = self.decide(now, is_down)?;
        let view = self.mirror.view();
        let root = view.get_key(&key);
        let (mut turn, mut fault) = match turn {
            Ok(turn) => (turn, None),
            Err(_) => (Turn::rest(), Some(format!("the decision on {key} panicked"))),
        };
        if let Some(violation) = &turn.violation {
            fault = Some(format!("the decision on {key} breaks its own invariant: {violation}"));
            turn = Turn::rest();
        }
        // Same input, same output: asked of every sixteenth decision that does something.
        if let Mind::Controller { controller, .. } = &self.mind
            && !turn.effects.is_empty()
            && self.courses_started.is_multiple_of(16)
            && (controller.turn)(view, &key, now, self.refusals.get(&key)) != turn
        {
            fault = Some(format!("two decisions on {key} from the same facts differ"));
        }
        if self.mutant == Some(Mutant::CreateOnce) {
            let made = &mut self.made;
            turn.effects.retain(|effect| {
                let creates = matches!(effect.action, brain::Action::Create { .. });
                !creates || made.insert(effect.action.name().to_owned())
            });
        }
        if self.mutant == Some(Mutant::Asleep(self.def.name)) {
            turn.effects.clear();
        }
        if let Some(mutant) = self.mutant {
            mutant.bend_about(&mut turn, root.as_ref(), self.def.name);
            mutant.bend(&mut turn, self.courses_started);
        }
        let line = line(&key, self.mirror.view().revision(), &turn);
        self.courses_started += 1;
        let course = Course {
            key,
            root,
            began: now,
            turn,
            done: 0,
            wrote: None,
            refusal: None,
            performed: None,
            notes: VecDeque::new(),
            note: NoteStep::Begin,
            ticket,
            call: 0,
        };
        self.courses.insert(self.courses_started, course);
        Some(Started { course: self.courses_started, fault, line })
    }

    /// The next request of a turn; `None` when it is over (it is then closed).
    pub fn next_call(&mut self, course: u64, now: Time) -> Option<Call> {
        let running = self.courses.get_mut(&course)?;
        if running.performed.is_none() {
            if let Some(effect) = running.turn.effects.get(running.done) {
                let mut call = driver::request_of(&effect.action);
                if let Some(mutant) = self.mutant {
                    mutant.strip(&mut call);
                }
                return Some(call);
            }
            running.performed = Some(Performed::Done { wrote: running.wrote });
            running.collect_notes(&self.def);
        }
        if let Some(event) = running.notes.front() {
            let mut count = || {
                let count = self.told.entry(format!("{}/{}", event.namespace(), event.name())).or_insert(0i64);
                *count += 1;
                *count
            };
            running.note = match running.note {
                NoteStep::Begin => Some(count()).filter(|count| *count > 1).map_or(NoteStep::First, NoteStep::Again),
                NoteStep::Last(_) => NoteStep::Last(count()),
                same => same,
            };
            return Some(match running.note {
                NoteStep::Again(count) | NoteStep::Last(count) => events::again(event, count),
                NoteStep::Begin | NoteStep::First => events::first(event),
            });
        }
        self.close(course, now);
        None
    }

    /// Takes the answer to a turn's request.
    pub fn answered(&mut self, course: u64, reply: Reply) {
        let def = &self.def;
        let Some(running) = self.courses.get_mut(&course) else { return };
        if running.performed.is_some() {
            running.note_answered(reply);
            return;
        }
        let Some(effect) = running.turn.effects.get(running.done) else { return };
        let action = effect.action.clone();
        if reply.as_ref().is_err_and(|refused| refused.code == 0)
            && let Some(Mutant::DoubleCreate) = self.mutant
            && Mutant::rename(&mut running.turn.effects[running.done].action, running.done as u64)
        {
            // The mutant tries a lost create again under another name.
            return;
        }
        let performed = match driver::verdict(&action, reply) {
            Verdict::Done(revision) => {
                running.wrote = running.wrote.max(revision);
                running.done += 1;
                return;
            }
            Verdict::Stale => Performed::Stale { wrote: running.wrote },
            Verdict::Refused(refused) => {
                let (reason, message) = (refused.reason, refused.message);
                running.refusal = Some(Refusal::of(&action, reason, message, running.began));
                Performed::Failed { wrote: running.wrote }
            }
        };
        let ignores = self.mutant == Some(Mutant::IgnoreRefusals);
        running.performed = Some(if ignores { Performed::Done { wrote: running.wrote } } else { performed });
        running.collect_notes(def);
    }

    /// The turn waits for the answer to this request.
    pub fn waits_for(&mut self, course: u64, call: u64) {
        if let Some(running) = self.courses.get_mut(&course) {
            running.call = call;
        }
    }

    /// Whether the turn waits for the answer to this request.
    pub fn is_waiting(&self, course: u64, call: u64) -> bool {
        self.courses.get(&course).is_some_and(|running| running.call == call)
    }

    fn close(&mut self, course: u64, now: Time) {
        let Some(over) = self.courses.remove(&course) else { return };
        match over.refusal {
            Some(refusal) => self.refusals.remember(over.key.clone(), refusal),
            None => self.refusals.forget(&over.key),
        }
        let mut wake = match (over.turn.wake, self.def.resync) {
            (wake, Some(resync)) => wake.or_at(now.after(resync)),
            (wake, None) => wake,
        };
        match self.mutant {
            Some(Mutant::ForgetWakes) => wake = Wake::OnChange,
            Some(Mutant::Chatty) => wake = wake.or_at(now.after(std::time::Duration::from_secs(30))),
            _ => {}
        }
        let performed = over.performed.unwrap_or(Performed::Done { wrote: over.wrote });
        match &mut self.mind {
            Mind::Controller { keys, .. } => {
                keys.done(&over.key, performed, wake, now);
                if self.courses_started.is_multiple_of(256) {
                    keys.tidy(self.mirror.view().revision());
                }
            }
            Mind::Scheduler(scheduler) => scheduler.done(over.ticket, performed, now),
        }
    }

    /// When its next timer is due, in wall-clock time.
    pub fn next_timer(&self) -> Option<Time> {
        match &self.mind {
            Mind::Controller { keys, .. } => keys.next_timer(),
            Mind::Scheduler(scheduler) => scheduler.next_timer(),
        }
    }
}

impl Course {
    fn collect_notes(&mut self, def: &brain::Def) {
        let Some(root) = &self.root else { return };
        let done = self.turn.effects.iter().take(self.done).filter_map(|effect| effect.note.as_ref());
        let told = done.chain(&self.turn.notes);
        let component = if def.name == scheduler::SCHEDULER_NAME {
            def.name.to_owned()
        } else {
            format!("{}-controller", def.name)
        };
        let event = |note| events::event_from(&component, &def.root, def.root_kind, root, note, self.began);
        self.notes = told.filter_map(event).collect();
    }

    fn note_answered(&mut self, reply: Reply) {
        self.note = match (self.note, reply) {
            (NoteStep::First, Err(refused)) if refused.reason == "AlreadyExists" => NoteStep::Last(0),
            // It has expired.
            (NoteStep::Again(_), Err(refused)) if refused.reason == "NotFound" => NoteStep::First,
            _ => {
                self.notes.pop_front();
                NoteStep::Begin
            }
        };
    }
}

/// The node that an object is about: a node's own name, or where a pod is bound.
fn node_of(object: &Object) -> String {
    match &*object.key.collection {
        "core/nodes" => object.key.item.to_string(),
        _ => object.tree().text(&["spec", "nodeName"]).to_owned(),
    }
}

fn line(key: &Key, seen: Revision, turn: &Turn) -> String {
    if turn.effects.is_empty() {
        return String::new();
    }
    let effects = turn
        .effects
        .iter()
        .map(|effect| format!("{} {} {}", effect.action.verb(), effect.action.resource().plural, effect.action.name()));
    format!("decides on {key} at {seen}: {}", effects.collect::<Vec<_>>().join(", "))
}

/// A view as it was some writes ago.
fn stale(store: &dyn Store) -> Mirror {
    let newest = store.snapshot();
    let then = Revision(newest.revision().0.saturating_sub(40));
    let snapshot = store.snapshot_at(then).unwrap_or(newest);
    Mirror::of(&AsOf { store, snapshot })
}

/// A store as somebody sees it who has not heard of the newest writes.
struct AsOf<'s> {
    store: &'s dyn Store,
    snapshot: Snapshot,
}

impl Store for AsOf<'_> {
    fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        self.store.snapshot_at(revision)
    }

    fn submit(&self, _: Txn, ack: Ack) {
        ack(Err(TxnError::Stopped("a view writes nothing".to_owned())));
    }

    fn events(
        &self,
        collection: &Collection,
        after: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        self.store.events(collection, after, limit)
    }

    fn listen(&self, _: Listener) {}

    fn compact(&self, _: Revision) {}
}
