//! Requests on their way, their answers, and the moments at which the store has something to say.

use std::rc::Rc;

use clock::Clock;
use meta::ObjectExt;

use super::{Flight, Happening, PATIENCE, Sender, World};
use crate::coverage;
use crate::dice::Dice;
use crate::oracle::Author;
use crate::room::Part;
use crate::server::{Reply, Said, Server, Wire, no_answer};

impl World<'_> {
    pub(super) fn send_as_user(&mut self, by: &str, wire: Wire) {
        let number = self.users_sent;
        self.users_sent += 1;
        let flight = Flight {
            sender: Sender::User,
            who: format!("user {by}"),
            wire,
            doubled: false,
            unanswered: false,
            back: 0,
            server_life: self.server_life,
        };
        self.send(flight, number);
    }

    pub(super) fn send(&mut self, mut flight: Flight, number: u64) {
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

    pub(super) fn arrive(&mut self, call: u64, flight: &Rc<Flight>) {
        let now = self.clock.now();
        if self.died_with_its_sender(flight) {
            return;
        }
        // Its sender may have given up on it; it is carried out all the same.
        if let Sender::Room { room, life, .. } = flight.sender
            && self.rooms[room].life != life
        {
            self.saw("a late request was carried out");
            // Whoever sent it and its successor both act, for a moment.
            self.twins.insert(self.rooms[room].def.name);
        }
        self.flights.entry(call).or_insert_with(|| Rc::clone(flight));
        let Some(server) = self.server.as_mut().filter(|_| self.server_up) else {
            return self.post(flight.back, Happening::Reply { call, reply: no_answer("nobody listens") });
        };
        let said = server.receive(call, &flight.wire, now);
        self.heard(said);
        self.settle();
    }

    /// What is on its way within the server's process ends with it.
    fn died_with_its_sender(&self, flight: &Flight) -> bool {
        let Sender::Room { room, .. } = flight.sender else { return false };
        let is_within = !self.plan.apart && self.rooms[room].part != Part::Node;
        is_within && flight.server_life != self.server_life
    }

    pub(super) fn again(&mut self, life: u64, ticket: u64) {
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

    pub(super) fn flush(&mut self, life: u64) {
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
    pub(super) fn settle(&mut self) {
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

    pub(super) fn heard(&mut self, said: Said) {
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

    pub(super) fn reply(&mut self, call: u64, reply: Reply) {
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
