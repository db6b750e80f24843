//! A run: one queue of happenings in virtual time, and everybody who takes part.

mod nemesis;
mod quiet;
mod traffic;
mod turns;
mod watching;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use clock::ManualClock;
use serde_json::Value;
use store::Snapshot;

use crate::cast;
use crate::coverage;
use crate::mutant::Mutant;
use crate::oracle::Oracles;
use crate::plan::Plan;
use crate::report::{Report, Transcript, Violation};
use crate::room::Room;
use crate::server::{self, Reply, START, Server, Wire};
use crate::weather::Weather;

/// How long after the beginning of the quiet phase everything must be as it should: the longest deadline of the
/// workloads (progress: 60 s) after the longest backoff (30 s), twice, room for what follows from that, and the time for
/// which CronJobs run on.
pub const BOUND_MS: u64 = 340_000;
/// How long it must then stay so, and silent.
pub const WINDOW_MS: u64 = 180_000;
/// When a client gives up waiting.
const PATIENCE: u64 = 10_000_000;
/// The finalizer that users put on objects, and take off when the quiet phase begins.
pub const HOLD: &str = "sim.setpoint.dev/hold";
/// The taint that users put on nodes, and take off when the quiet phase begins.
pub const AWAY: &str = "sim.setpoint.dev/away";
/// When the users stopped a CronJob for good, as an annotation.
pub const STOPPED: &str = "sim.setpoint.dev/stopped-at";
/// Events read of one collection at a time: more than a transaction ever has.
const EVENTS_MAX: usize = 1_000_000;
/// Happenings after which a run is called endless.
const HAPPENINGS_MAX: u64 = 5_000_000;

/// How a plan is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct How2Run {
    /// Keep the transcript.
    pub transcript: bool,
    /// A mistake to plant.
    pub mutant: Option<Mutant>,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Room { room: usize, life: u64, course: u64 },
    User,
}

/// A request on its way.
struct Flight {
    sender: Sender,
    who: String,
    wire: Wire,
    doubled: bool,
    unanswered: bool,
    back: u64,
    /// The life of the server's process in which it was sent.
    server_life: u64,
}

enum Happening {
    Act(usize),
    Arrive { call: u64, flight: Rc<Flight> },
    Again { life: u64, ticket: u64 },
    Flush { life: u64 },
    Reply { call: u64, reply: Reply },
    Look { room: usize, life: u64 },
    Wake { room: usize, life: u64 },
    Start { room: usize },
    Stop { room: usize },
    ServerStart { power: bool, number: u64 },
    NodeUp(usize),
    Release,
    Quiet,
}

/// Everybody and everything.
struct World<'p> {
    plan: &'p Plan,
    clock: ManualClock,
    /// Microseconds since the beginning; the wall clock may jump, this does not.
    at: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    posted: u64,
    server: Option<Server>,
    server_up: bool,
    server_life: u64,
    flush_planned: bool,
    rooms: Vec<Room>,
    flights: BTreeMap<u64, Rc<Flight>>,
    calls: u64,
    users_sent: u64,
    nodes_down: BTreeSet<String>,
    weather: Weather,
    oracles: Oracles,
    transcript: Transcript,
    last: Snapshot,
    /// For how long the server is down when the trouble that was sent to its medium strikes.
    trouble: Option<u64>,
    /// What the failing medium was about to take.
    doubtful: Vec<store::Key>,
    /// Controllers that ran twice at some time, if only by a request that outlived its sender.
    twins: BTreeSet<&'static str>,
    /// Who made the revisions that are about to be observed.
    wrote: BTreeSet<String>,
    quiet: bool,
    report: Report,
    mutant: Option<Mutant>,
}

/// Runs a plan.
pub fn run(plan: &Plan, how: How2Run) -> Report {
    match World::new(plan, how) {
        Ok(world) => world.run(),
        Err(text) => {
            let violation = Violation { oracle: "store", rule: "opens", at_ms: 0, text };
            Report { violations: vec![violation], ..Report::default() }
        }
    }
}

fn ms(millis: u64) -> u64 {
    millis.saturating_mul(1_000)
}

impl<'p> World<'p> {
    fn new(plan: &'p Plan, how: How2Run) -> Result<World<'p>, String> {
        let server = Server::start(plan.medium, plan.seed, how.mutant)?;
        let rooms = cast::everybody(how.mutant);
        let last = server.snapshot();
        let names: Vec<&'static str> = rooms.iter().map(|room: &Room| room.def.name).collect();
        let oracles = Oracles::new(&last, &names);
        Ok(World {
            plan,
            clock: ManualClock::at(START),
            at: 0,
            queue: BTreeMap::new(),
            posted: 0,
            server: Some(server),
            server_up: true,
            server_life: 0,
            flush_planned: false,
            rooms,
            flights: BTreeMap::new(),
            calls: 0,
            users_sent: 0,
            nodes_down: BTreeSet::new(),
            weather: Weather::default(),
            oracles,
            transcript: Transcript::new(how.transcript),
            last,
            trouble: None,
            doubtful: Vec::new(),
            twins: BTreeSet::new(),
            wrote: BTreeSet::new(),
            quiet: false,
            report: Report::default(),
            mutant: how.mutant,
        })
    }

    fn run(mut self) -> Report {
        self.begin();
        let end = ms(self.plan.quiet_at_ms + BOUND_MS + WINDOW_MS);
        let mut happenings = 0;
        while let Some(((at, _), happening)) = self.queue.pop_first() {
            if at > end || !self.oracles.violations.is_empty() {
                break;
            }
            happenings += 1;
            if happenings > HAPPENINGS_MAX {
                self.violation("E4", "endless", "the run does not come to an end".to_owned());
                break;
            }
            self.clock.advance(Duration::from_micros(at - self.at));
            self.at = at;
            self.happen(happening);
        }
        self.finish(end)
    }

    fn finish(mut self, end: u64) -> Report {
        if self.oracles.violations.is_empty() {
            self.at = end;
            self.compare_with_store();
            self.oracles.finish(end, ms(self.plan.quiet_at_ms));
        }
        let (hash, lines) = self.transcript.finish();
        Report {
            hash,
            lines,
            violations: std::mem::take(&mut self.oracles.violations),
            converged_ms: self.oracles.converged_ms(ms(self.plan.quiet_at_ms)),
            virtual_ms: self.at / 1_000,
            revisions: self.oracles.revisions,
            conflicts_max: self.oracles.conflicts_max(),
            writes: self.oracles.writes().clone(),
            conflicts: self.oracles.conflicts(),
            ..self.report
        }
    }

    fn begin(&mut self) {
        for index in 0..self.plan.nodes {
            let node = agent::node_object(index);
            if let Some(wire) = self.server.as_ref().and_then(|server| server.creation(&node)) {
                self.send_as_user("admin", wire);
            }
        }
        for room in 0..self.rooms.len() {
            self.post(0, Happening::Start { room });
        }
        for (index, entry) in self.plan.entries.iter().enumerate() {
            if entry.at_ms < self.plan.quiet_at_ms {
                self.post_at(ms(entry.at_ms), Happening::Act(index));
            }
        }
        self.post_at(ms(self.plan.quiet_at_ms), Happening::Quiet);
    }

    fn post(&mut self, after: u64, happening: Happening) {
        self.post_at(self.at + after, happening);
    }

    fn post_at(&mut self, at: u64, happening: Happening) {
        self.posted += 1;
        self.queue.insert((at, self.posted), happening);
    }

    fn say(&mut self, who: &str, text: &str) {
        self.transcript.line(self.at, who, text);
    }

    fn saw(&mut self, what: &'static str) {
        debug_assert!(coverage::POINTS.contains(&what), "{what} is not listed");
        *self.report.seen.entry(what).or_default() += 1;
    }

    fn violation(&mut self, oracle: &'static str, rule: &'static str, text: String) {
        self.say("oracle", &format!("{oracle} {rule}: {text}"));
        self.oracles.violations.push(Violation { oracle, rule, at_ms: self.at / 1_000, text });
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Act(index) => {
                let what = &self.plan.entries[index].what;
                self.act(index as u64, what);
            }
            Happening::Arrive { call, flight } => self.arrive(call, &flight),
            Happening::Again { life, ticket } => self.again(life, ticket),
            Happening::Flush { life } => self.flush(life),
            Happening::Reply { call, reply } => self.reply(call, reply),
            Happening::Look { room, life } => self.look(room, life),
            Happening::Wake { room, life } => self.wake(room, life),
            Happening::Start { room } => self.start(room),
            Happening::Stop { room } => {
                self.rooms[room].kill();
                let name = self.rooms[room].name.clone();
                self.say(&name, "ends for good");
            }
            Happening::ServerStart { power, number } => self.start_server(power, number),
            Happening::NodeUp(node) => self.node_up(node),
            Happening::Release => self.release(),
            Happening::Quiet => self.become_quiet(),
        }
    }
}

fn user_wire(by: &str, method: &str, path: &str, content_type: &str, body: &Value) -> Wire {
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap_or_default() };
    Wire {
        user: server::admin(),
        agent: by.to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        content_type: if content_type.is_empty() { "application/json" } else { content_type }.to_owned(),
        body: bytes.into(),
    }
}
