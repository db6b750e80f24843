//! Rooms: how they start, look, wake, take their turns and end.

use clock::Clock;
use meta::Time;

use super::{Flight, Happening, Sender, World};
use crate::server::Wire;

impl World<'_> {
    pub(super) fn start(&mut self, room: usize) {
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

    pub(super) fn kill(&mut self, room: usize, down: u64) {
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
    pub(super) fn is_doomed(&mut self, room: usize) -> bool {
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

    pub(super) fn look(&mut self, room: usize, life: u64) {
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
    pub(super) fn see(&mut self, room: usize) {
        if let Some(server) = &self.server
            && self.rooms[room].look(server.store(), self.at, self.clock.now())
        {
            self.saw("a view began anew after compaction");
        }
    }

    pub(super) fn wake(&mut self, room: usize, life: u64) {
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
    pub(super) fn poll(&mut self, room: usize) {
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

    pub(super) fn plan_wake(&mut self, room: usize, now: Time) {
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
    pub(super) fn go_on(&mut self, room: usize, course: u64) {
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
            server_life: self.server_life,
        };
        self.send(flight, number);
    }
}
