//! Who takes part in every run: the controllers, the scheduler, and who plays the nodes.

use std::sync::Arc;

use admit::UserInfo;
use brain::{Action, Brain, Controller, Def, Note, Outcome, Resource, View, Watch};
use meta::{ObjectExt, Time, condition};
use store::{Event, Key};

use crate::mutant::Mutant;
use crate::room::{Part, Room};

/// Everybody, none of them running yet.
pub fn everybody(mutant: Option<Mutant>) -> Vec<Room> {
    let mut rooms: Vec<Room> = Vec::new();
    let parts = [
        (Part::Controller, controllers::all()),
        (Part::Scheduler, vec![Controller::of::<Binder>()]),
        (Part::Node, agent::simulated()),
    ];
    for (part, controllers) in parts {
        for controller in controllers {
            let def = &controller.def;
            let same = rooms.iter().filter(|room| room.controller.def.name == def.name).count();
            let name = if same == 0 { def.name.to_owned() } else { format!("{}-{}", def.name, def.root.plural) };
            let user = match part {
                Part::Scheduler => UserInfo::new("system:kube-scheduler", [""; 0]).authenticated(),
                _ => UserInfo::service_account("kube-system", &account(def.name), ""),
            };
            // Nodes are what they are: mistakes are planted in the control plane.
            let mutant = mutant.filter(|_| part == Part::Controller);
            rooms.push(Room::new(name, part, controller, Arc::new(user), mutant));
        }
    }
    rooms
}

/// The service account of a controller, as the server has it.
fn account(name: &str) -> String {
    let has_role = !admit::bootstrap::cluster_role_rules(&format!("system:controller:{name}")).is_empty();
    if has_role { name.to_owned() } else { format!("{name}-controller") }
}

/// A scheduler of the simplest kind: the ready node with the fewest pods.
struct Binder;

/// The pod to be bound.
struct Pod {
    namespace: String,
    name: String,
    uid: String,
}

impl Brain for Binder {
    const DEF: Def = Def {
        name: "scheduler",
        root: Resource::new("", "v1", "pods"),
        root_kind: "Pod",
        watches: &[
            Watch { collection: "core/pods", roots: |_, event| vec![event.key.clone()] },
            Watch { collection: "core/nodes", roots: unbound },
        ],
        resync: None,
    };
    type Desired = Pod;
    type Observed = Option<String>;
    type Step = String;
    type Why = std::convert::Infallible;

    fn observe(view: &View, key: &Key, _: Time) -> Option<(Pod, Option<String>)> {
        let object = view.get_key(key)?;
        let pod = object.tree();
        if object.meta().is_deleting() || !pod.text(&["spec", "nodeName"]).is_empty() {
            return None;
        }
        let all = view.list("core/pods", "");
        let nodes = view.list("core/nodes", "").into_iter().filter(|node| condition::is_true(&node.tree(), "Ready"));
        let load = |node: &str| {
            let on_it = |pod: &&brain::Object| &*brain::facts::Pod::of(pod).spec.node_name == node;
            all.iter().filter(on_it).count()
        };
        let best = nodes.map(|node| (load(&node.meta().name), node.meta().name.to_string())).min();
        let text = |text: &str| text.to_owned();
        let found = Pod { namespace: text(pod.namespace()), name: text(pod.name()), uid: text(pod.uid()) };
        Some((found, best.map(|(_, node)| node)))
    }

    fn reconcile(_: &Pod, node: &Option<String>, _: Time) -> Outcome<String, Self::Why> {
        node.iter().fold(Outcome::rest(), |outcome, node| outcome.step(node.clone()))
    }

    fn check(_: &Pod, _: &Option<String>, _: &Outcome<String, Self::Why>) -> Result<(), String> {
        Ok(())
    }

    fn perform(node: String, pod: &Pod, _: &Option<String>) -> Action {
        let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        Action::Bind { namespace, name, uid, node }
    }

    fn explain(why: Self::Why) -> Note {
        match why {}
    }
}

fn unbound(view: &View, _: &Event) -> Vec<Key> {
    let waits = |pod: &brain::Object| brain::facts::Pod::of(pod).spec.node_name.is_empty();
    view.list("core/pods", "").into_iter().filter(waits).map(|pod| pod.key).collect()
}
