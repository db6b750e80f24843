//! Who takes part in every run: the controllers, the scheduler, and who plays the nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use admit::UserInfo;
use brain::{Def, Loop, Resource};

use crate::mutant::Mutant;
use crate::room::{Mind, Part, Room};

/// What the scheduler's events are about, and what it is called.
const SCHEDULER: Def = Def {
    name: scheduler::SCHEDULER_NAME,
    root: Resource::new("", "v1", "pods"),
    root_kind: "Pod",
    watches: &[],
    resync: None,
};

/// Everybody, none of them running yet.
pub fn everybody(mutant: Option<Mutant>) -> Vec<Room> {
    let mut rooms: Vec<Room> = Vec::new();
    for (part, controllers) in [(Part::Controller, controllers::all()), (Part::Node, agent::simulated())] {
        for controller in controllers {
            let def = controller.def.clone();
            let is_second = rooms.iter().any(|room| room.def.name == def.name);
            let name = if is_second { format!("{}-{}", def.name, def.root.plural) } else { def.name.to_owned() };
            let user = UserInfo::service_account("kube-system", &account(def.name), "");
            // Nodes are what they are: mistakes are planted in the control plane.
            let mutant = mutant.filter(|_| part == Part::Controller);
            let mind = Mind::Controller { controller, keys: Loop::new() };
            rooms.push(Room::new(name, part, def, mind, Arc::new(user), mutant));
        }
    }
    let user = UserInfo::new("system:kube-scheduler", [""; 0]).authenticated();
    let mind = Mind::Scheduler(Box::default());
    rooms.push(Room::new("scheduler".to_owned(), Part::Scheduler, SCHEDULER, mind, Arc::new(user), None));
    rooms
}

/// The service account of a controller, as the server has it. Asked for once a process: the roles are many.
fn account(name: &'static str) -> String {
    static KNOWN: Mutex<BTreeMap<&'static str, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(name).or_insert_with(|| admit::bootstrap::controller_account(name)).clone()
}
