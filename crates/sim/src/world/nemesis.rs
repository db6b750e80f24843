//! What the plan says: what users do, and what goes wrong.

use std::collections::BTreeSet;

use clock::Clock;
use meta::{ObjectExt, Time};
use serde_json::{Value, json};

use super::{HOLD, Happening, World, ms, user_wire};
use crate::dice::Dice;
use crate::mutant::Mutant;
use crate::plan::{How, What};
use crate::room::{Coming, Part};
use crate::server::no_answer;
use crate::weather::{Does, Window};

impl World<'_> {
    pub(super) fn act(&mut self, index: u64, what: &What) {
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

    pub(super) fn room(&self, name: &str) -> Option<usize> {
        self.rooms.iter().position(|room| room.name == name)
    }

    pub(super) fn fault(&mut self, for_ms: u64, room: Option<String>, does: Does) {
        self.saw("a fault that lasts");
        self.say("nemesis", &format!("{does:?} on {room:?} for {for_ms} ms"));
        self.weather.add(Window { until: self.at + ms(for_ms), room, does });
    }

    pub(super) fn twin(&mut self, name: &str, span: u64) {
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

    pub(super) fn jump(&mut self, by_ms: i64) {
        self.saw("the clock jumped");
        self.say("nemesis", &format!("the clock jumps by {by_ms} ms"));
        let to = self.clock.now().as_micros().saturating_add(by_ms.saturating_mul(1_000));
        self.set_clock(Time::from_micros(to));
    }

    pub(super) fn set_clock(&mut self, to: Time) {
        self.clock.jump_to(to);
        for room in 0..self.rooms.len() {
            self.rooms[room].planned = None;
            self.poll(room);
        }
    }

    pub(super) fn crash_server(&mut self, number: u64, power: bool, down: u64) {
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

    pub(super) fn start_server(&mut self, power: bool, number: u64) {
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

    pub(super) fn node_up(&mut self, node: usize) {
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

    pub(super) fn pick(&mut self, how: How, collection: &str, namespace: &str, which: u64) {
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
}
