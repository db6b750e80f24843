//! How the faults end: everything is let go of and comes back.

use std::time::Duration;

use meta::ObjectExt;
use serde_json::{Value, json};

use super::{HOLD, Happening, World, ms, user_wire};
use crate::room::Part;
use crate::server::START;

impl World<'_> {
    pub(super) fn become_quiet(&mut self) {
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
    pub(super) fn release(&mut self) {
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
