//! What whoever looks after the machine wants of the pods.

use std::sync::Arc;

use agent::pod::{Notice, Pod, Shown};
use agent::pressure::{self, Eviction};
use brain::Note;
use meta::ObjectExt;

use super::{Room, Tenant};
use crate::upkeep::{Errand, Occupant};
use crate::{COMPONENT, node_object};

/// Events that wait for the Node: one for each bad manifest, about.
const UNTOLD_MAX: usize = 64;

impl Room {
    /// Runs one.
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            // Whoever asked may have been stopped.
            Errand::Roster(answer) => drop(answer.send(self.roster())),
            Errand::MakeRoom(is_short_of_disk) => {
                if self.here.is_short_of_disk != is_short_of_disk {
                    self.here.is_short_of_disk = is_short_of_disk;
                    self.awake.extend(self.tenants.keys().cloned());
                }
            }
            Errand::Evict { uid, eviction } => self.evict(&uid, eviction),
            Errand::Tell(note) => self.tell_of_node(note),
        }
    }

    /// Everybody who is here.
    fn roster(&self) -> Vec<Occupant> {
        let nothing = Shown::default();
        let occupant = |(uid, tenant): (&String, &Tenant)| {
            let shown = self.shown.get(uid).unwrap_or(&nothing);
            let is_over = tenant.is_gone || Pod::new(&tenant.object).is_finished();
            let is_condemned = tenant.memory.is_condemned();
            // What was condemned has gone when its volumes and its containers are no more, not when it says so.
            let is_left = is_condemned && !(is_over && tenant.memory.is_unmounted() && shown.containers.is_empty());
            let is_in_the_way = is_over && self.here.is_short_of_disk && *shown != nothing;
            let is_removing = tenant.memory.is_removing();
            Occupant {
                uid: uid.clone(),
                pod: Arc::clone(&tenant.object),
                is_active: !is_over && !is_condemned,
                is_going: shown.alive().next().is_some() || is_removing || is_left || is_in_the_way,
            }
        };
        self.tenants.iter().map(occupant).collect()
    }

    fn evict(&mut self, uid: &str, eviction: Eviction) {
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        let (pod, message) = (Arc::clone(&tenant.object), eviction.verdict.message.clone());
        tracing::info!(pod = pod.name(), namespace = pod.namespace(), message, "a pod is evicted");
        tenant.memory.condemn(eviction.verdict);
        self.awake.insert(uid.to_owned());
        let notice = Notice { note: Note::warning(pressure::EVICTED, message), field_path: None };
        self.tell(&pod, vec![notice], &eviction.annotations, self.config.clock.now());
    }

    /// Makes an event of the node, once there is one.
    fn tell_of_node(&mut self, note: Note) {
        if self.untold.len() < UNTOLD_MAX {
            self.untold.push(note);
        }
        self.tell_untold();
    }

    /// What could not be told before the Node was made.
    pub(super) fn tell_untold(&mut self) {
        if self.untold.is_empty() {
            return;
        }
        let Some(node) = self.mirror.view().get("core/nodes", "", &self.config.name) else { return };
        let now = self.config.clock.now();
        let event = |note: Note| driver::events::event_from(COMPONENT, &node_object::NODES, "Node", &node, &note, now);
        let events = std::mem::take(&mut self.untold).into_iter().filter_map(event).collect();
        self.send_events(events);
    }
}
