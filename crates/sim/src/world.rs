//! A run: one queue of happenings in virtual time, and everybody who takes part.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use clock::{Clock, ManualClock};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use store::{Event, Snapshot};

use crate::cast;
use crate::coverage;
use crate::dice::Dice;
use crate::mutant::Mutant;
use crate::oracle::{Author, Oracles, Scene};
use crate::plan::{How, Plan, What};
use crate::report::{Report, Transcript, Violation};
use crate::room::{Coming, Part, Room};
use crate::server::{self, Reply, START, Said, Server, Wire, no_answer};
use crate::weather::{Does, Weather, Window};

/// How long after the beginning of the quiet phase everything must be as it should: the longest deadline of the
/// workloads (progress: 60 s) after the longest backoff (30 s), twice, and room for what follows from that.
pub const BOUND_MS: u64 = 240_000;
/// How long it must then stay so, and silent.
pub const WINDOW_MS: u64 = 180_000;
/// When a client gives up waiting.
const PATIENCE: u64 = 10_000_000;
/// The finalizer that users put on objects, and take off when the quiet phase begins.
pub const HOLD: &str = "sim.setpoint.dev/hold";
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
    /// Controllers that ran twice at some time.
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

/// Requests and answers.
impl World<'_> {
    fn send_as_user(&mut self, by: &str, wire: Wire) {
        let number = self.users_sent;
        self.users_sent += 1;
        let flight = Flight {
            sender: Sender::User,
            who: format!("user {by}"),
            wire,
            doubled: false,
            unanswered: false,
            back: 0,
        };
        self.send(flight, number);
    }

    fn send(&mut self, mut flight: Flight, number: u64) {
        let dice = Dice::about(self.plan.seed, &flight.who, number);
        let fate = self.weather.fate(self.at, &flight.who, &dice);
        self.calls += 1;
        let call = self.calls;
        flight.unanswered = fate.unanswered;
        flight.doubled = fate.again_after.is_some();
        flight.back = fate.back;
        let flight = Rc::new(flight);
        self.flights.insert(call, Rc::clone(&flight));
        if fate.lost {
            self.saw("a request was lost");
            self.say(&flight.who, &format!("#{call} {} {} is lost", flight.wire.method, flight.wire.path));
            return self.post(PATIENCE, Happening::Reply { call, reply: no_answer("lost") });
        }
        if let Some(after) = fate.again_after {
            self.saw("a request was doubled");
            self.post(fate.there + after, Happening::Arrive { call, flight: Rc::clone(&flight) });
        }
        self.post(fate.there, Happening::Arrive { call, flight });
    }

    fn arrive(&mut self, call: u64, flight: &Rc<Flight>) {
        let now = self.clock.now();
        // Its sender may have given up on it; it is carried out all the same.
        if let Sender::Room { room, life, .. } = flight.sender
            && self.rooms[room].life != life
        {
            self.saw("a late request was carried out");
        }
        self.flights.entry(call).or_insert_with(|| Rc::clone(flight));
        let Some(server) = self.server.as_mut().filter(|_| self.server_up) else {
            return self.post(flight.back, Happening::Reply { call, reply: no_answer("nobody listens") });
        };
        let said = server.receive(call, &flight.wire, now);
        self.heard(said);
        self.settle();
    }

    fn again(&mut self, life: u64, ticket: u64) {
        if life != self.server_life || !self.server_up {
            return;
        }
        let now = self.clock.now();
        if let Some(server) = self.server.as_mut() {
            let said = server.again(ticket, now);
            self.heard(said);
            self.settle();
        }
    }

    fn flush(&mut self, life: u64) {
        if life != self.server_life || !self.server_up {
            return;
        }
        self.flush_planned = false;
        let Some(server) = self.server.as_mut() else { return };
        let waiting = server.uncertain();
        if !server.flush() {
            match self.trouble.take() {
                // What stops must say so to nobody, and is started again.
                Some(down) => {
                    self.saw("the disk failed");
                    self.settle();
                    self.doubtful = waiting;
                    return self.crash_server(0, false, down);
                }
                None => {
                    self.violation("store", "medium", "the store stopped though the medium did not fail".to_owned());
                }
            }
        }
        self.settle();
    }

    /// Hands out what the store acknowledged, lets the oracles look at it, and plans the next flush.
    fn settle(&mut self) {
        loop {
            let now = self.clock.now();
            let Some(server) = self.server.as_mut() else { return };
            let said = server.settle(now);
            let nothing = said.replies.is_empty() && said.commits.is_empty() && said.again.is_empty();
            for (call, revision) in &said.commits {
                if let Some(flight) = self.flights.get(call) {
                    self.wrote.insert(flight.who.clone());
                    let author = Author { who: flight.who.clone() };
                    self.oracles.committed(*revision, author);
                }
            }
            self.observe();
            if nothing {
                break;
            }
            self.heard(said);
        }
        if !self.flush_planned && self.server.as_ref().is_some_and(Server::wants_flush) {
            self.flush_planned = true;
            let dice = Dice::about(self.plan.seed, "sync", self.posted);
            let after = self.weather.sync(self.at, &dice);
            self.post(after, Happening::Flush { life: self.server_life });
        }
    }

    fn heard(&mut self, said: Said) {
        for ticket in said.again {
            self.saw("an attempt was repeated");
            self.post(1_000, Happening::Again { life: self.server_life, ticket });
        }
        for (call, reply) in said.replies {
            let Some(flight) = self.flights.get(&call).cloned() else { continue };
            self.report.requests += 1;
            let text = match &reply {
                Ok(answer) => format!("ok {}", answer.text(&["metadata", "resourceVersion"])),
                Err(refused) => format!("{} {} {}", refused.code, refused.reason, refused.message),
            };
            self.say(&flight.who, &format!("#{call} {} {} -> {text}", flight.wire.method, flight.wire.path));
            if let Err(refused) = &reply
                && let Some(point) = coverage::refusal(&refused.reason)
            {
                self.saw(point);
            }
            if flight.wire.path.ends_with("/eviction") {
                self.saw(if reply.is_ok() { "an eviction was allowed" } else { "an eviction was refused" });
            }
            self.oracles.answered(self.at, &flight.who, &flight.wire, &reply, self.quiet);
            if flight.unanswered {
                self.saw("an answer was lost");
                self.post(PATIENCE, Happening::Reply { call, reply: no_answer("no answer") });
            } else {
                self.post(flight.back, Happening::Reply { call, reply });
            }
        }
    }

    fn reply(&mut self, call: u64, reply: Reply) {
        let Some(flight) = self.flights.get(&call).cloned() else { return };
        let Sender::Room { room, life, course } = flight.sender else {
            self.flights.remove(&call);
            return;
        };
        if self.rooms[room].life != life {
            return;
        }
        if self.rooms[room].paused_until > self.at {
            let until = self.rooms[room].paused_until;
            return self.post_at(until, Happening::Reply { call, reply });
        }
        if !flight.doubled {
            self.flights.remove(&call);
        }
        if self.is_doomed(room) {
            return;
        }
        // A second answer to the same request finds nobody waiting for it.
        if self.rooms[room].is_waiting(course, call) {
            self.rooms[room].answered(course, reply);
            self.go_on(room, course);
            self.poll(room);
        }
    }
}

/// Rooms.
impl World<'_> {
    fn start(&mut self, room: usize) {
        if self.rooms[room].up {
            return;
        }
        // The first view is a consistent read; while nobody answers there is none.
        let Some(server) = self.server.as_ref().filter(|_| self.server_up) else { return };
        let now = self.clock.now();
        self.rooms[room].start(server.store(), now);
        let text = format!("starts at revision {}", self.rooms[room].seen());
        let name = self.rooms[room].name.clone();
        self.say(&name, &text);
        self.poll(room);
    }

    fn kill(&mut self, room: usize, down: u64) {
        if !self.rooms[room].up {
            return;
        }
        self.saw("a controller was killed");
        self.rooms[room].kill();
        let name = self.rooms[room].name.clone();
        self.say(&name, "is killed");
        self.post(down, Happening::Start { room });
    }

    /// Counts a message; true when it was the one to die at.
    fn is_doomed(&mut self, room: usize) -> bool {
        match self.rooms[room].doom {
            Some((0, down)) => {
                self.kill(room, down);
                true
            }
            Some((left, down)) => {
                self.rooms[room].doom = Some((left - 1, down));
                false
            }
            None => false,
        }
    }

    fn look(&mut self, room: usize, life: u64) {
        if self.rooms[room].life != life || !self.rooms[room].up {
            return;
        }
        if self.rooms[room].paused_until > self.at {
            let until = self.rooms[room].paused_until;
            return self.post_at(until, Happening::Look { room, life });
        }
        self.see(room);
        let this = &mut self.rooms[room];
        this.looks_at = this.coming.iter().find(|coming| coming.concerns).map(|coming| coming.at);
        if let Some(at) = this.looks_at {
            self.post_at(at.max(self.at), Happening::Look { room, life });
        }
        self.poll(room);
    }

    /// Moves a room's view to what has arrived.
    fn see(&mut self, room: usize) {
        if let Some(server) = &self.server
            && self.rooms[room].look(server.store(), self.at, self.clock.now())
        {
            self.saw("a view began anew after compaction");
        }
    }

    fn wake(&mut self, room: usize, life: u64) {
        if self.rooms[room].life != life || !self.rooms[room].up {
            return;
        }
        if self.rooms[room].paused_until > self.at {
            let until = self.rooms[room].paused_until;
            return self.post_at(until, Happening::Wake { room, life });
        }
        self.rooms[room].planned = None;
        self.see(room);
        self.poll(room);
    }

    /// Starts what is due and plans the next look at the clock.
    fn poll(&mut self, room: usize) {
        let now = self.clock.now();
        while self.rooms[room].up && self.rooms[room].paused_until <= self.at {
            let down = &self.nodes_down;
            let Some(started) = self.rooms[room].start_turn(now, &|node| down.contains(node)) else { break };
            let name = self.rooms[room].name.clone();
            if !started.line.is_empty() {
                self.say(&name, &started.line);
            }
            if let Some(fault) = started.fault {
                self.violation("law", "decision", format!("{name}: {fault}"));
            }
            self.go_on(room, started.course);
        }
        self.plan_wake(room, now);
    }

    fn plan_wake(&mut self, room: usize, now: Time) {
        if !self.rooms[room].up {
            return;
        }
        let Some(timer) = self.rooms[room].next_timer() else { return };
        let at = self.at + (timer.since(now).as_micros() as u64).max(1);
        if self.rooms[room].planned.is_none_or(|planned| planned > at) {
            self.rooms[room].planned = Some(at);
            let life = self.rooms[room].life;
            self.post_at(at, Happening::Wake { room, life });
        }
    }

    /// Sends a turn's next request.
    fn go_on(&mut self, room: usize, course: u64) {
        let now = self.clock.now();
        let Some(call) = self.rooms[room].next_call(course, now) else { return };
        if self.is_doomed(room) {
            return;
        }
        let this = &mut self.rooms[room];
        let agent = this.agent();
        let wire = Wire {
            user: this.user.clone(),
            method: call.method.to_string(),
            path: call.path_and_query(&agent),
            agent,
            content_type: call.content_type.to_owned(),
            body: call.body,
        };
        this.sent += 1;
        this.waits_for(course, self.calls + 1);
        let number = this.sent;
        let flight = Flight {
            sender: Sender::Room { room, life: this.life, course },
            who: this.name.clone(),
            wire,
            doubled: false,
            unanswered: false,
            back: 0,
        };
        self.send(flight, number);
    }
}

/// Oracles.
impl World<'_> {
    /// Shows the oracles every new revision, and sends it on its way to the views.
    fn observe(&mut self) {
        let Some(server) = &self.server else { return };
        let mut events: Vec<Event> = Vec::new();
        let after = self.last.revision();
        let rung = server.rung();
        if rung.is_empty() {
            return;
        }
        for collection in &rung {
            match server.store().events(collection, after, EVENTS_MAX) {
                Ok((found, _)) => events.extend(found),
                Err(_) => self.oracles.missed(collection),
            }
        }
        events.sort_by_key(|event| event.revision);
        let newest = server.snapshot();
        self.last = newest.clone();
        let at = self.at;
        for group in events.chunk_by(|a, b| a.revision == b.revision) {
            let text: Vec<String> = group.iter().map(describe).collect();
            self.transcript.line(at, "store", &format!("{}: {}", group[0].revision, text.join(", ")));
            let scene = Scene { at, events: group, nodes_down: &self.nodes_down, twins: &self.twins };
            self.oracles.revision(&scene);
        }
        let revision = newest.revision();
        let wrote = std::mem::take(&mut self.wrote);
        for room in 0..self.rooms.len() {
            if !self.rooms[room].up {
                continue;
            }
            // What is nobody's business wakes nobody; it is seen with whatever comes next.
            let concerns = self.rooms[room].minds(&rung) || wrote.contains(&self.rooms[room].name);
            let dice = Dice::about(self.plan.seed, &self.rooms[room].name, revision.0 << 1 | 1);
            let lag = self.weather.lag(self.at, &self.rooms[room].name, &dice);
            let this = &mut self.rooms[room];
            let arrives = (at + lag).max(this.coming.back().map_or(0, |last| last.at));
            let life = this.life;
            this.coming.push_back(Coming { at: arrives, revision, concerns });
            if concerns && this.looks_at.is_none() {
                this.looks_at = Some(arrives);
                self.post_at(arrives, Happening::Look { room, life });
            }
        }
    }

    fn compare_with_store(&mut self) {
        if let Some(server) = &self.server {
            let snapshot = server.snapshot();
            self.oracles.compare(self.at, &snapshot, &[]);
        }
    }
}

fn describe(event: &Event) -> String {
    format!("{:?} {}", event.change, event.key)
}

/// What the plan says.
impl World<'_> {
    fn act(&mut self, index: u64, what: &What) {
        match what {
            What::Request { by, method, path, content_type, body } => {
                let wire = user_wire(by, method, path, content_type, body);
                self.send_as_user(by, wire);
            }
            What::Pick { how, collection, namespace, which } => self.pick(*how, collection, namespace, *which),
            What::Network { for_ms, room, lost, unanswered, doubled, delay_ms } => {
                let does =
                    Does::Network { lost: *lost, unanswered: *unanswered, doubled: *doubled, delay: ms(*delay_ms) };
                self.fault(*for_ms, room.clone(), does);
            }
            What::Lag { room, for_ms, lag_ms } => self.fault(*for_ms, Some(room.clone()), Does::Lag(ms(*lag_ms))),
            What::SlowDisk { for_ms, sync_ms } => self.fault(*for_ms, None, Does::Sync(ms(*sync_ms))),
            What::Crash { room, after_messages, down_ms } => {
                if let Some(room) = self.room(room) {
                    self.rooms[room].doom = Some((*after_messages, ms(*down_ms)));
                }
            }
            What::Pause { room, for_ms } => {
                if let Some(room) = self.room(room) {
                    self.saw("a controller was paused");
                    self.rooms[room].paused_until = self.at + ms(*for_ms);
                    let life = self.rooms[room].life;
                    self.post(ms(*for_ms), Happening::Wake { room, life });
                }
            }
            What::Twin { room, for_ms } => self.twin(room, ms(*for_ms)),
            What::ServerCrash { power, down_ms } => self.crash_server(index, *power, ms(*down_ms)),
            What::NodeDown { node, for_ms } => {
                self.saw("a node vanished");
                self.nodes_down.insert(format!("simulated-{node}"));
                self.say("nemesis", &format!("node {node} vanishes"));
                self.post(ms(*for_ms), Happening::NodeUp(*node));
            }
            What::DiskFault { syncs, appends, down_ms } => {
                if let Some(server) = self.server.as_ref().filter(|_| self.server_up) {
                    server.trouble(*syncs, *appends);
                    self.trouble = Some(ms(*down_ms));
                    self.say("nemesis", &format!("the disk will fail in {syncs} syncs or {appends} appends"));
                }
            }
            What::ClockJump { by_ms } => self.jump(*by_ms),
            What::Compact => {
                self.saw("history was compacted");
                if let Some(server) = self.server.as_ref().filter(|_| self.server_up) {
                    server.store().compact(server.snapshot().revision());
                }
            }
        }
    }

    fn room(&self, name: &str) -> Option<usize> {
        self.rooms.iter().position(|room| room.name == name)
    }

    fn fault(&mut self, for_ms: u64, room: Option<String>, does: Does) {
        self.saw("a fault that lasts");
        self.say("nemesis", &format!("{does:?} on {room:?} for {for_ms} ms"));
        self.weather.add(Window { until: self.at + ms(for_ms), room, does });
    }

    fn twin(&mut self, name: &str, span: u64) {
        let Some(of) = self.room(name) else { return };
        self.saw("a controller ran twice");
        self.twins.insert(self.rooms[of].def.name);
        let of = &self.rooms[of];
        let name = format!("{}#{}", of.name, self.rooms.len());
        self.rooms.push(of.twin(name));
        let room = self.rooms.len() - 1;
        self.post(0, Happening::Start { room });
        self.post(span, Happening::Stop { room });
    }

    fn jump(&mut self, by_ms: i64) {
        self.saw("the clock jumped");
        self.say("nemesis", &format!("the clock jumps by {by_ms} ms"));
        let to = self.clock.now().as_micros().saturating_add(by_ms.saturating_mul(1_000));
        self.set_clock(Time::from_micros(to));
    }

    fn set_clock(&mut self, to: Time) {
        self.clock.jump_to(to);
        for room in 0..self.rooms.len() {
            self.rooms[room].planned = None;
            self.poll(room);
        }
    }

    fn crash_server(&mut self, number: u64, power: bool, down: u64) {
        if !self.server_up {
            return;
        }
        self.saw(if power { "the power failed" } else { "the server was killed" });
        self.say("server", if power { "loses power" } else { "is killed" });
        self.server_up = false;
        self.server_life += 1;
        self.flush_planned = false;
        if !self.plan.apart {
            for room in 0..self.rooms.len() {
                if self.rooms[room].part != Part::Node {
                    self.rooms[room].kill();
                }
            }
        }
        // Whoever waits for an answer learns that the connection is gone.
        let open: Vec<u64> = self.flights.keys().copied().collect();
        for call in open {
            self.post(1_000, Happening::Reply { call, reply: no_answer("the connection is gone") });
        }
        self.post(down, Happening::ServerStart { power, number });
    }

    fn start_server(&mut self, power: bool, number: u64) {
        if self.server_up {
            return;
        }
        let Some(old) = self.server.take() else { return };
        let mut uncertain = old.uncertain();
        uncertain.append(&mut self.doubtful);
        if !uncertain.is_empty() {
            self.saw("unacknowledged writes were cut off");
        }
        let dice = Dice::about(self.plan.seed, "power", number);
        let share = dice.between(0, 100);
        let mut pick = || dice.percent(share);
        let seed = self.plan.seed ^ (self.server_life << 32);
        match old.restarted(seed, power.then_some(&mut pick as &mut dyn FnMut() -> bool)) {
            Ok(server) => {
                self.last = server.snapshot();
                self.server = Some(server);
                self.server_up = true;
            }
            Err(text) => return self.violation("store", "opens", text),
        }
        let last = self.last.clone();
        self.say("server", &format!("starts at revision {}", last.revision()));
        self.oracles.restarted(self.at, &last, &uncertain);
        for room in 0..self.rooms.len() {
            if !self.rooms[room].up && !self.rooms[room].name.contains('#') {
                self.post(0, Happening::Start { room });
            } else if self.rooms[room].up {
                // A watch that ended is begun anew.
                let life = self.rooms[room].life;
                self.rooms[room].coming.clear();
                let coming = Coming { at: self.at + 100_000, revision: last.revision(), concerns: true };
                self.rooms[room].coming.push_back(coming);
                self.rooms[room].looks_at = Some(self.at + 100_000);
                self.post(100_000, Happening::Look { room, life });
            }
        }
    }

    fn node_up(&mut self, node: usize) {
        if !self.nodes_down.remove(&format!("simulated-{node}")) {
            return;
        }
        self.say("nemesis", &format!("node {node} is back"));
        for room in 0..self.rooms.len() {
            if self.rooms[room].part == Part::Node && self.rooms[room].up {
                self.rooms[room].wake_all();
                self.poll(room);
            }
        }
    }

    fn pick(&mut self, how: How, collection: &str, namespace: &str, which: u64) {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let found: Vec<_> = self.last.range(collection, &prefix, "").collect();
        if found.is_empty() {
            return;
        }
        let (item, entry) = found[(which % found.len() as u64) as usize];
        let key = store::Key::new(collection, item.clone());
        let tree: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let Some(path) = self.server.as_ref().and_then(|server| server.path_of(&key)) else { return };
        let delete = |policy: &str| {
            ("DELETE", json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}))
        };
        let mut path = path;
        let (method, body) = match how {
            How::Evict if self.mutant == Some(Mutant::EvictAnyway) => delete("Background"),
            How::Evict => {
                path.push_str("/eviction");
                let metadata = json!({"name": tree.name(), "namespace": tree.namespace()});
                ("POST", json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}))
            }
            How::Delete => delete("Background"),
            How::DeleteForeground => delete("Foreground"),
            How::DeleteOrphan => delete("Orphan"),
            How::Unlabel => ("PATCH", json!({"metadata": {"labels": null}})),
            How::Touch => {
                ("PATCH", json!({"metadata": {"annotations": {"sim.setpoint.dev/touched": which.to_string()}}}))
            }
            How::Hold => {
                let held = tree.finalizers().map(str::to_owned).chain([HOLD.to_owned()]).collect::<BTreeSet<_>>();
                let version = tree.text(&["metadata", "resourceVersion"]);
                ("PATCH", json!({"metadata": {"finalizers": held, "resourceVersion": version}}))
            }
        };
        let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let by = if how == How::Evict { "evictor" } else { "picker" };
        self.send_as_user(by, user_wire(by, method, &path, content_type, &body));
    }

    fn become_quiet(&mut self) {
        self.quiet = true;
        self.say("nemesis", "is quiet from now on");
        self.weather.clear();
        self.set_clock(START.after(Duration::from_micros(self.at)));
        let down: Vec<String> = std::mem::take(&mut self.nodes_down).into_iter().collect();
        for room in 0..self.rooms.len() {
            let this = &mut self.rooms[room];
            this.doom = None;
            this.paused_until = 0;
            let life = this.life;
            if this.name.contains('#') {
                this.kill();
                continue;
            }
            if this.part == Part::Node && this.up && !down.is_empty() {
                this.wake_all();
            }
            // What was on its way arrives now.
            let at = self.at;
            this.coming.iter_mut().for_each(|coming| coming.at = at);
            this.looks_at = Some(at);
            self.post(0, Happening::Look { room, life });
            self.post(0, Happening::Start { room });
            self.poll(room);
        }
        if !self.server_up {
            self.post(0, Happening::ServerStart { power: false, number: u64::MAX });
        }
        for after in [1_000, 5_000, 10_000, 20_000, 40_000] {
            self.post(ms(after), Happening::Release);
        }
        self.oracles.quiet(self.at);
    }

    /// The users take off what they held, and stop what goes on for ever.
    fn release(&mut self) {
        let mut wires = Vec::new();
        for collection in self.last.collections() {
            for (item, entry) in self.last.items(collection) {
                let tree: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
                let held = tree.finalizers().any(|finalizer| finalizer == HOLD);
                let runs = &**collection == "batch/cronjobs" && !tree.flag(&["spec", "suspend"]);
                let taints = tree.items(&["spec", "taints"]);
                let ours = |taint: &&Value| taint.text(&["key"]).starts_with("sim.setpoint.dev/");
                let tainted = &**collection == "core/nodes" && taints.iter().any(|taint| ours(&taint));
                if !held && !runs && !tainted {
                    continue;
                }
                let key = store::Key::new(collection.clone(), item.clone());
                let Some(path) = self.server.as_ref().and_then(|server| server.path_of(&key)) else { continue };
                let body = if held {
                    let rest: Vec<&str> = tree.finalizers().filter(|finalizer| *finalizer != HOLD).collect();
                    json!({"metadata": {
                        "finalizers": rest, "resourceVersion": tree.text(&["metadata", "resourceVersion"]),
                    }})
                } else if tainted {
                    let rest: Vec<&Value> = taints.iter().filter(|taint| !ours(taint)).collect();
                    json!({"spec": {"taints": rest}, "metadata": {
                        "resourceVersion": tree.text(&["metadata", "resourceVersion"]),
                    }})
                } else {
                    json!({"spec": {"suspend": true}})
                };
                wires.push(user_wire("releaser", "PATCH", &path, "application/merge-patch+json", &body));
            }
        }
        // Nodes that were taken away come back.
        for index in 0..self.plan.nodes {
            let node = agent::node_object(index);
            let is_there = self.last.get("core/nodes", node.name()).is_some();
            wires.extend(self.server.as_ref().filter(|_| !is_there).and_then(|server| server.creation(&node)));
        }
        for wire in wires {
            self.send_as_user("releaser", wire);
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
