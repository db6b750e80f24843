//! E6: what must hold at every revision, in the chaos phase too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use meta::ObjectExt;
use serde_json::Value;
use store::{Change, Event};

use super::ledger::Ledger;
use super::matches::{is_active, is_ready, pods_of, selector, selects};
use super::{Author, Scene};

/// For how long a spec that was lowered may still be acted on: the longest lag, pause and delivery together.
const STALE: u64 = 200_000_000;

/// What is remembered for the invariants.
#[derive(Default)]
pub struct Safety {
    /// By owner's uid: sizes that a spec had lately.
    sizes: BTreeMap<String, VecDeque<(u64, i64)>>,
    /// How many pods were ever bound, to which node, by uid.
    bound: BTreeMap<String, String>,
    /// Uids that existed: they never come back.
    gone: BTreeSet<String>,
}

/// A broken invariant: the rule, and what happened.
pub type Broken = (&'static str, String);

impl Safety {
    /// Looks at one event. `old` is the object before, `ledger` already holds the state after.
    pub fn event(
        &mut self,
        scene: &Scene<'_>,
        event: &Event,
        old: Option<&Value>,
        ledger: &Ledger,
        author: Option<&Author>,
    ) -> Vec<Broken> {
        let new = ledger.get(&event.key).map(|kept| kept.tree.clone());
        let mut broken = Vec::new();
        broken.extend(self.identity(event, old, new.as_deref()));
        broken.extend(finalizers(event));
        match &*event.key.collection {
            "core/pods" => {
                broken.extend(self.binding(event, old, new.as_deref()));
                broken.extend(not_removed_by_others(event, old, author, scene));
                broken.extend(disrupted(scene, event, old, new.as_deref(), ledger, author));
                if event.change == Change::Created {
                    broken.extend(new.as_deref().and_then(|pod| self.overshoot(scene, pod, ledger)));
                    broken.extend(new.as_deref().and_then(|pod| quota(pod, ledger)));
                }
            }
            "apps/replicasets" | "core/replicationcontrollers" | "apps/deployments" => {
                if let Some(new) = new.as_deref() {
                    self.size(scene.at, new);
                    broken.extend(self.surge(scene.at, old, new, ledger, author));
                }
            }
            _ => {}
        }
        broken.extend(collected_living(old, new.as_deref(), ledger, author));
        broken
    }

    /// One uid is one object, once.
    fn identity(&mut self, event: &Event, old: Option<&Value>, new: Option<&Value>) -> Option<Broken> {
        if let (Some(old), Some(new)) = (old, new)
            && event.change == Change::Modified
            && old.uid() != new.uid()
        {
            return Some(("uid-changes", format!("{} was {} and is {}", event.key, old.uid(), new.uid())));
        }
        if let Some(old) = old.filter(|_| event.change == Change::Deleted) {
            self.gone.insert(old.uid().to_owned());
        }
        let back = new.filter(|new| self.gone.contains(new.uid()) && !new.uid().is_empty())?;
        Some(("uid-returns", format!("{} has the uid {} of an object that is gone", event.key, back.uid())))
    }

    /// A pod is bound once, to one node.
    fn binding(&mut self, event: &Event, old: Option<&Value>, new: Option<&Value>) -> Option<Broken> {
        let node = |pod: &Value| pod.text(&["spec", "nodeName"]).to_owned();
        let (new, was) = (new?, old.map(node).unwrap_or_default());
        let is = node(new);
        if !was.is_empty() && was != is {
            return Some(("bound-twice", format!("{} moves from {was} to {is:?}", event.key)));
        }
        if is.is_empty() {
            return None;
        }
        let known = self.bound.entry(new.uid().to_owned()).or_insert_with(|| is.clone());
        (*known != is).then(|| ("bound-twice", format!("{} is bound to {known} and to {is}", event.key)))
    }

    fn size(&mut self, at: u64, object: &Value) {
        let sizes = self.sizes.entry(object.uid().to_owned()).or_default();
        let size = allowed(object);
        if sizes.back().is_none_or(|(_, last)| *last != size) {
            // The one before held until now.
            if let Some((since, _)) = sizes.back_mut() {
                *since = at;
            }
            sizes.push_back((at, size));
        }
        while sizes.len() > 1 && sizes.front().is_some_and(|(until, _)| until + STALE < at) {
            sizes.pop_front();
        }
    }

    /// The largest size that a decision made lately may have seen.
    fn lately(&self, at: u64, uid: &str) -> Option<i64> {
        let sizes = self.sizes.get(uid)?;
        let last = sizes.len().saturating_sub(1);
        let recent = sizes.iter().enumerate().filter(|(index, (until, _))| *index == last || until + STALE >= at);
        recent.map(|(_, (_, size))| *size).max()
    }

    /// A ReplicaSet never has more active pods of its making than it asked for lately. Two instances of its controller
    /// at a time may make one too many: a child's name follows from the revision of its owner, which the one may have
    /// written (its status) before the other has seen the child. Nothing runs two of them but a plan.
    fn overshoot(&self, scene: &Scene<'_>, pod: &Value, ledger: &Ledger) -> Option<Broken> {
        let at = scene.at;
        let owner = pod.controller_ref()?;
        let controller = match owner.text(&["kind"]) {
            "ReplicaSet" => "replicaset",
            "ReplicationController" => "replication",
            _ => return None,
        };
        if scene.twins.contains(controller) {
            return None;
        }
        let uid = owner.text(&["uid"]);
        let set = ledger.living(uid)?;
        let active = pods_of(ledger, set).into_iter().filter(|pod| is_active(pod)).count() as i64;
        let most = self.lately(at, uid)?;
        (active > most).then(|| {
            (
                "overshoot",
                format!(
                    "{}/{} has {active} active pods and never asked for more than {most}",
                    set.namespace(),
                    set.name()
                ),
            )
        })
    }

    /// A Deployment's ReplicaSets never grow beyond what it asks for with its surge.
    fn surge(
        &self,
        at: u64,
        old: Option<&Value>,
        new: &Value,
        ledger: &Ledger,
        author: Option<&Author>,
    ) -> Option<Broken> {
        let owner = new.controller_ref().filter(|owner| owner.text(&["kind"]) == "Deployment")?;
        let size = |set: &Value| set.int(&["spec", "replicas"]).unwrap_or(1);
        if !author?.is("deployment") || size(new) <= old.map_or(0, size) {
            return None;
        }
        let uid = owner.text(&["uid"]);
        let deployment = ledger.living(uid)?;
        if deployment.text(&["spec", "strategy", "type"]) == "Recreate" {
            return None;
        }
        let total: i64 = ledger.owned(uid, "apps/replicasets").map(|set| size(set)).sum();
        let most = self.lately(at, uid)?;
        (total > most).then(|| {
            ("surge", format!("the ReplicaSets of {} ask for {total} pods, more than {most}", deployment.name()))
        })
    }
}

/// How many pods an object may have at most, by its spec.
fn allowed(object: &Value) -> i64 {
    let replicas = object.int(&["spec", "replicas"]).unwrap_or(1);
    let surge = match object.at(&["spec", "strategy", "rollingUpdate", "maxSurge"]) {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (replicas * percent + 99) / 100
        }
        _ => 0,
    };
    // Scaling in proportion rounds each ReplicaSet's share on its own.
    replicas + surge
}

/// What has finalizers stays.
fn finalizers(event: &Event) -> Option<Broken> {
    if event.change != Change::Deleted {
        return None;
    }
    let last = super::ledger::parse(&event.entry.value);
    let held: Vec<&str> = last.finalizers().collect();
    let inner = last.items(&["spec", "finalizers"]).len();
    let named = if held.is_empty() { String::new() } else { format!("{held:?}") };
    (!held.is_empty() || (inner > 0 && &*event.key.collection == "core/namespaces"))
        .then(|| ("finalizer", format!("{} is gone with finalizers {named}", event.key)))
}

/// A pod that runs is taken out of the store only by its node, or by a user, or when its node is gone.
fn not_removed_by_others(
    event: &Event,
    old: Option<&Value>,
    author: Option<&Author>,
    scene: &Scene<'_>,
) -> Option<Broken> {
    let (old, author) = (old?, author?);
    let ran = !old.text(&["spec", "nodeName"]).is_empty()
        && !matches!(old.text(&["status", "phase"]), "Succeeded" | "Failed");
    let may = author.is("simulated-node") || author.is("pod-garbage-collector") || author.who.starts_with("user");
    // Taking off the last finalizer of a pod that its node has let go of removes it too.
    let was_let_go = old.int(&["metadata", "deletionGracePeriodSeconds"]) == Some(0);
    let strange = event.change == Change::Deleted && ran && !may && !was_let_go;
    let node = old.text(&["spec", "nodeName"]);
    strange.then(|| {
        let down = scene.nodes_down.contains(node);
        (
            "removed-while-running",
            format!("{} is removed by {} though it runs on {node} (down: {down})", event.key, author.who),
        )
    })
}

/// An eviction of a ready pod takes its disruption from the pod's budget in the same revision, or does not happen.
fn disrupted(
    scene: &Scene<'_>,
    event: &Event,
    old: Option<&Value>,
    new: Option<&Value>,
    ledger: &Ledger,
    author: Option<&Author>,
) -> Option<Broken> {
    let begins = old.is_some_and(|old| is_active(old) && is_ready(old)) && new.is_none_or(|new| new.is_deleting());
    if author?.who != "user evictor" || !begins {
        return None;
    }
    let of = |budget: &&std::sync::Arc<Value>| selects(selector(budget), old.unwrap_or(&Value::Null));
    let budget = ledger.list_in("policy/poddisruptionbudgets", old?.namespace()).find(of)?;
    let told = |other: &Event| {
        *other.key.collection == *"policy/poddisruptionbudgets"
            && other.key.item.ends_with(&format!("/{}", budget.name()))
    };
    let paid = scene.events.iter().any(told);
    (!paid).then(|| ("disruption", format!("{} is evicted and its budget {} not charged", event.key, budget.name())))
}

/// No namespace has more pods than its quota allows.
fn quota(pod: &Value, ledger: &Ledger) -> Option<Broken> {
    let mut quotas = ledger.list_in("core/resourcequotas", pod.namespace()).peekable();
    quotas.peek()?;
    let pods = ledger.list_in("core/pods", pod.namespace());
    let counted = pods.filter(|pod| !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")).count() as i64;
    for quota in quotas {
        // A quota counts from when its status does.
        let hard: Option<i64> = quota.at(&["status", "hard", "pods"]).and_then(|hard| hard.as_str()?.parse().ok());
        if let Some(hard) = hard.filter(|hard| counted > *hard) {
            return Some(("quota", format!("{} has {counted} pods, its quota {hard}", pod.namespace())));
        }
    }
    None
}

/// The collector deletes nothing that has an owner which lives and stays.
fn collected_living(
    old: Option<&Value>,
    new: Option<&Value>,
    ledger: &Ledger,
    author: Option<&Author>,
) -> Option<Broken> {
    let old = old.filter(|old| !old.is_deleting())?;
    if !author?.is("generic-garbage-collector") || new.is_some_and(|new| !new.is_deleting()) {
        return None;
    }
    let stays = |owner: &&Value| {
        ledger.living(owner.text(&["uid"])).is_some_and(|owner| {
            !(owner.is_deleting() && owner.finalizers().any(|finalizer| finalizer == "foregroundDeletion"))
        })
    };
    let owner = old.owner_references().iter().find(stays)?;
    Some((
        "collected",
        format!("{}/{} is deleted though its owner {} lives", old.namespace(), old.name(), owner.text(&["name"])),
    ))
}
