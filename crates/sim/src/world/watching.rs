//! What the oracles and the rooms are shown of the store.

use store::Event;

use super::{EVENTS_MAX, Happening, World};
use crate::dice::Dice;
use crate::oracle::Scene;
use crate::room::Coming;

impl World<'_> {
    /// Shows the oracles every new revision, and sends it on its way to the views.
    pub(super) fn observe(&mut self) {
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
        self.oracles.watched(at, server.store(), after, &events, self.plan.seed);
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

    pub(super) fn compare_with_store(&mut self) {
        if let Some(server) = &self.server {
            let snapshot = server.snapshot();
            self.oracles.compare(self.at, &snapshot, &[]);
        }
    }
}

fn describe(event: &Event) -> String {
    format!("{:?} {}", event.change, event.key)
}
