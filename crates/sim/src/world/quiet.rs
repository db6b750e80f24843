//! How the faults end: everything is let go of and comes back.

use std::time::Duration;

use clock::Clock;
use meta::ObjectExt;
use serde_json::{Value, json};

use super::{AWAY, HOLD, Happening, STOPPED, World, ms, user_wire};
use crate::plan::Fate;
use crate::room::Part;
use crate::server::START;

/// For how long CronJobs run on: a minute, so that each has a time of its schedule, and the longest backoff before it is
/// served.
const CRON_JOBS_RUN_MS: u64 = 95_000;
/// The taint of a node that stays tainted.
const FOR_GOOD: &str = "sim.setpoint.dev/for-good";

impl World<'_> {
    pub(super) fn become_quiet(&mut self) {
        self.quiet = true;
        self.say("nemesis", "is quiet from now on");
        self.weather.clear();
        match self.plan.last_node {
            Fate::Stays => {}
            Fate::Tainted => self.saw("a node was tainted for good"),
            Fate::Goes => self.saw("a node was taken away for good"),
        }
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
        for after in [1_000, 5_000, 10_000, 20_000, 40_000, CRON_JOBS_RUN_MS, 100_000, 110_000] {
            self.post(ms(after), Happening::Release);
        }
        self.oracles.quiet(self.at);
    }

    /// The users take off what they held, and let go on for a while, then stop, what goes on for ever.
    pub(super) fn release(&mut self) {
        let mut wires = Vec::new();
        let stops = self.at >= ms(self.plan.quiet_at_ms + CRON_JOBS_RUN_MS);
        let last = agent::node_object(self.plan.nodes.saturating_sub(1));
        for collection in self.last.collections() {
            for (item, entry) in self.last.items(collection) {
                let tree: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
                let held = tree.finalizers().any(|finalizer| finalizer == HOLD);
                let turns = &**collection == "batch/cronjobs" && tree.flag(&["spec", "suspend"]) != stops;
                let taints = tree.items(&["spec", "taints"]);
                let has = |key: &str| taints.iter().any(|taint| taint.text(&["key"]) == key);
                let for_good = self.plan.last_node == Fate::Tainted && tree.name() == last.name();
                let tainted = &**collection == "core/nodes" && (has(AWAY) || (for_good && !has(FOR_GOOD)));
                if !held && !turns && !tainted {
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
                    let rest = taints.iter().filter(|taint| ![AWAY, FOR_GOOD].contains(&taint.text(&["key"]))).cloned();
                    let stays = for_good.then(|| json!({"key": FOR_GOOD, "effect": "NoExecute"}));
                    json!({"spec": {"taints": rest.chain(stays).collect::<Vec<_>>()}, "metadata": {
                        "resourceVersion": tree.text(&["metadata", "resourceVersion"]),
                    }})
                } else {
                    let stopped = stops.then(|| self.clock.now().to_rfc3339());
                    json!({"spec": {"suspend": stops}, "metadata": {"annotations": {STOPPED: stopped}}})
                };
                wires.push(user_wire("releaser", "PATCH", &path, "application/merge-patch+json", &body));
            }
        }
        // Nodes that were taken away come back, but for one.
        for index in 0..self.plan.nodes {
            let node = agent::node_object(index);
            let is_there = self.last.get("core/nodes", node.name()).is_some();
            let goes = self.plan.last_node == Fate::Goes && node.name() == last.name();
            if goes && is_there {
                let path = format!("/api/v1/nodes/{}", node.name());
                wires.push(user_wire("releaser", "DELETE", &path, "", &Value::Null));
            }
            let back = self.server.as_ref().filter(|_| !is_there && !goes);
            wires.extend(back.and_then(|server| server.creation(&node)));
        }
        for wire in wires {
            self.send_as_user("releaser", wire);
        }
    }
}
