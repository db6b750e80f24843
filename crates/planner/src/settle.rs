//! Runs everybody in a fork until nothing is due: the driver's loop, one turn after the other, on virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use brain::{Effect, Loop, Note, Object, Performed, Refusal, Refusals, Severity, Turn, Verdict, View, Wake};
use meta::{ObjectExt, Time, condition};
use scheduler::Scheduler;
use store::{Event, Key, Revision};
use view::Mirror;

use crate::cast::{self, Member};
use crate::fork::Fork;

const PODS: &str = "core/pods";
/// Distinct warnings kept of one plan: more than a person reads.
const WARNINGS_MAX: usize = 1_000;

/// How far a plan goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Turns of all controllers. A rollout of 1,000 pods takes about 20,000; ten times that is no rollout.
    pub turns_max: usize,
    /// Virtual time. Upstream's progress deadline is ten minutes; what is not there after half an hour does not come.
    pub horizon: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { turns_max: 200_000, horizon: Duration::from_secs(30 * 60) }
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing is due, and what matters is as it should be.
    Reached,
    /// Nothing more happens although not everything is as it should be.
    Stuck,
    /// The horizon came first.
    Horizon,
    /// There was no end to it.
    TooManyTurns,
}

/// Everybody, at work on a fork.
pub(crate) struct Troupe {
    pub fork: Fork,
    mirror: Mirror,
    base: Revision,
    began: Time,
    rooms: Vec<Room>,
    scheduler: Scheduler,
    scheduler_user: Arc<UserInfo>,
    knows_pods: bool,
    limits: Limits,
    /// Turns taken.
    pub turns: usize,
    /// What went wrong on the way, each once: about whom, reason, sentence.
    pub warnings: BTreeSet<(Key, &'static str, String)>,
    /// The fewest available replicas that a workload had, by its key.
    pub lowest: BTreeMap<Key, i64>,
    /// Why a plan cannot be trusted: a controller that broke its own rules.
    pub faults: Vec<String>,
}

struct Room {
    member: &'static Member,
    keys: Loop,
    refusals: Refusals,
}

impl Troupe {
    /// Nobody has anything to do yet: what the world had not settled is not the plan's doing.
    pub fn new(fork: Fork, view: View, limits: Limits) -> Troupe {
        let room = |member| Room { member, keys: Loop::new(), refusals: Refusals::default() };
        Troupe {
            base: view.revision(),
            began: fork.now(),
            fork,
            mirror: Mirror::at(view),
            rooms: cast::members().iter().map(room).collect(),
            scheduler: Scheduler::new(),
            scheduler_user: cast::scheduler_user(),
            knows_pods: false,
            limits,
            turns: 0,
            warnings: BTreeSet::new(),
            lowest: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    /// The state after the last look.
    pub fn view(&self) -> &View {
        self.mirror.view()
    }

    /// Does what is due now. False when there is no end to it.
    pub fn run_due(&mut self) -> bool {
        loop {
            self.look();
            let mut is_quiet = true;
            for room in 0..self.rooms.len() {
                while let Some(key) = self.next_key(room) {
                    is_quiet = false;
                    if self.turns >= self.limits.turns_max {
                        return false;
                    }
                    self.turn(room, key);
                }
            }
            is_quiet &= !self.schedule();
            if is_quiet {
                return true;
            }
        }
    }

    /// Runs until `is_done` says so of a quiet moment, or nothing more comes.
    pub fn run_to_rest(&mut self, is_done: &dyn Fn(&View) -> bool) -> Rest {
        loop {
            if !self.run_due() {
                return Rest::TooManyTurns;
            }
            if is_done(self.view()) {
                return Rest::Reached;
            }
            let timers = self.rooms.iter().filter_map(|room| room.keys.next_timer());
            let Some(next) = timers.chain(self.scheduler.next_timer()).min() else { return Rest::Stuck };
            if next.since(self.began) > self.limits.horizon {
                return Rest::Horizon;
            }
            self.fork.set_now(next);
        }
    }

    fn next_key(&mut self, room: usize) -> Option<Key> {
        let (seen, now) = (self.mirror.view().revision(), self.fork.now());
        self.rooms[room].keys.next(seen, now)
    }

    /// Takes in what was written since.
    fn look(&mut self) {
        let now = self.fork.now();
        let (rooms, scheduler, lowest) = (&mut self.rooms, &mut self.scheduler, &mut self.lowest);
        let knows_pods = self.knows_pods;
        let mut has_unbound = false;
        let wake = |view: &View, event: &Event| {
            for room in rooms.iter_mut() {
                for key in room.member.controller.def.keys(view, event) {
                    room.keys.wake(key);
                }
            }
            if knows_pods {
                scheduler.observe(event, now);
            }
            has_unbound |= *event.key.collection == *PODS;
            watch_availability(event, lowest);
        };
        // The fork keeps the history of its own short life.
        self.mirror.advance(self.fork.store(), wake);
        if has_unbound && !self.knows_pods {
            // Only a plan that touches pods pays for knowing all of them.
            self.knows_pods = true;
            self.scheduler.rebuild(self.mirror.view(), now);
        }
    }

    fn turn(&mut self, room: usize, key: Key) {
        self.turns += 1;
        let now = self.fork.now();
        let (member, view) = (self.rooms[room].member, self.mirror.view());
        let decided = if member.plays_pods && !self.is_playable(&key) {
            Ok(Turn::rest())
        } else {
            let last = self.rooms[room].refusals.get(&key);
            std::panic::catch_unwind(AssertUnwindSafe(|| (member.controller.turn)(view, &key, now, last)))
        };
        let name = member.controller.def.name;
        let fault = match &decided {
            Err(_) => Some(format!("the {name} controller panicked on {key}")),
            Ok(turn) => turn.violation.as_ref().map(|why| format!("the {name} controller on {key}: {why}")),
        };
        let turn = decided.unwrap_or_else(|_| Turn::rest());
        if let Some(fault) = fault {
            self.faults.push(fault);
            return self.rooms[room].keys.done(&key, Performed::Done { wrote: None }, Wake::OnChange, now);
        }
        self.warn(&key, turn.notes.iter());
        let (performed, refusal) = self.perform(&member.user, &member.agent, &turn.effects, &key);
        let refusals = &mut self.rooms[room].refusals;
        match refusal {
            Some(refusal) => refusals.remember(key.clone(), refusal),
            None => refusals.forget(&key),
        }
        self.rooms[room].keys.done(&key, performed, turn.wake, now);
        if !turn.effects.is_empty() {
            self.look();
        }
    }

    /// Pods that were there before keep the state that their real node reported, until they are told to go. Those of
    /// a node that is not ready do not move at all.
    fn is_playable(&self, key: &Key) -> bool {
        let view = self.mirror.view();
        let Some(pod) = view.get_key(key) else { return false };
        let tree = pod.tree();
        let node = view.get("core/nodes", "", tree.text(&["spec", "nodeName"]));
        let is_up = node.is_some_and(|node| condition::is_true(&node.tree(), "Ready"));
        is_up && (pod.created() > self.base || tree.is_deleting() || is_starting(&tree))
    }

    fn perform(
        &mut self,
        user: &Arc<UserInfo>,
        agent: &str,
        effects: &[Effect],
        key: &Key,
    ) -> (Performed, Option<Refusal>) {
        let mut wrote = None;
        for effect in effects {
            let answer = self.fork.call(user, agent, &brain::request_of(&effect.action));
            match brain::verdict(&effect.action, answer) {
                Verdict::Done(revision) => {
                    wrote = revision.max(wrote);
                    self.warn(key, effect.note.iter());
                }
                Verdict::Stale => return (Performed::Stale { wrote }, None),
                Verdict::Refused(refused) => {
                    let refusal = Refusal::of(&effect.action, refused.reason, refused.message, self.fork.now());
                    return (Performed::Failed { wrote }, Some(refusal));
                }
            }
        }
        (Performed::Done { wrote }, None)
    }

    /// Lets the scheduler decide on what waits. Whether it did anything.
    fn schedule(&mut self) -> bool {
        if !self.knows_pods {
            return false;
        }
        let mut has_decided = false;
        while self.turns < self.limits.turns_max {
            let now = self.fork.now();
            let (scheduler, view) = (&mut self.scheduler, self.mirror.view());
            let decided = std::panic::catch_unwind(AssertUnwindSafe(|| scheduler.next(view, now)));
            let Ok(decision) = decided else {
                self.faults.push("the scheduler panicked".to_owned());
                return has_decided;
            };
            let Some(decision) = decision else { return has_decided };
            self.turns += 1;
            has_decided = true;
            self.warn(&decision.key, decision.notes.iter());
            let user = Arc::clone(&self.scheduler_user);
            let (performed, _) = self.perform(&user, scheduler::SCHEDULER_NAME, &decision.effects, &decision.key);
            self.scheduler.done(decision.ticket, performed, self.fork.now());
            self.look();
        }
        has_decided
    }

    fn warn<'n>(&mut self, about: &Key, notes: impl Iterator<Item = &'n Note>) {
        for note in notes.filter(|note| note.severity == Some(Severity::Warning)) {
            if self.warnings.len() < WARNINGS_MAX {
                self.warnings.insert((about.clone(), note.reason, note.message.clone()));
            }
        }
    }
}

/// Whether a pod is on its way to running and nothing is known to be in its way.
fn is_starting(pod: &serde_json::Value) -> bool {
    let all = ["initContainerStatuses", "containerStatuses"].iter().flat_map(|list| pod.items(&["status", list]));
    let mut waiting = all.filter_map(|status| status.at(&["state", "waiting", "reason"]).and_then(|r| r.as_str()));
    pod.text(&["status", "phase"]) == "Pending"
        && waiting.all(|reason| matches!(reason, "ContainerCreating" | "PodInitializing"))
}

/// The kinds whose status counts available replicas.
const WORKLOADS: [&str; 4] = ["apps/deployments", "apps/statefulsets", "apps/daemonsets", "apps/replicasets"];

/// Notes the fewest replicas that a workload ever had available.
fn watch_availability(event: &Event, lowest: &mut BTreeMap<Key, i64>) {
    if !WORKLOADS.contains(&&*event.key.collection) || event.change != store::Change::Modified {
        return;
    }
    let available = available(&Object::new(event.key.clone(), Arc::clone(&event.entry)).tree());
    let least = lowest.entry(event.key.clone()).or_insert(available);
    *least = (*least).min(available);
}

/// How many replicas of a workload are available, by its status.
pub(crate) fn available(workload: &serde_json::Value) -> i64 {
    let field = if workload.text(&["kind"]) == "DaemonSet" { "numberAvailable" } else { "availableReplicas" };
    workload.int(&["status", field]).unwrap_or(0)
}
