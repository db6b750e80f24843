//! The scheduler as a pure machine: events in, decisions out, and how they ended in again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brain::facts::Pod;
use brain::{Effect, Note, Object, Performed, View};
use stdx::Time;
use store::{Change, Event, Key};

use crate::ask::{Ask, PODS_COLLECTION, SCHEDULER_NAME};
use crate::cache::{Cache, Happened};
use crate::decide::{Diagnosis, Verdict, decide};
use crate::effects;
use crate::queue::Queue;
use crate::same::asks_the_same;
use crate::volumes::Prepare;

/// How long a pod waits on its node for its volumes (upstream's bindTimeoutSeconds).
const VOLUMES_PATIENCE: Duration = Duration::from_secs(600);

/// What is to be done about one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Names the decision for [`Scheduler::done`].
    pub ticket: u64,
    /// The pod.
    pub key: Key,
    /// What to do, in order. A note is about the pod that its effect is about, and said once it is done.
    pub effects: Vec<Effect>,
    /// What there is to say about the pod anyway.
    pub notes: Vec<Note>,
}

/// A decision that is being performed.
enum Flight {
    /// A bind.
    Bind(Key),
    /// Volumes are being reserved or asked for.
    Volumes(Key, Stay),
    /// Room is being made.
    Room(Key),
    /// Only told.
    Told,
}

/// A pod that waits for its volumes on the node it will be bound to.
#[derive(Clone)]
struct Stay {
    node: Box<str>,
    /// Claims whose volumes are to be made, by key in their collection.
    made: Vec<Arc<str>>,
    claims: Vec<Arc<str>>,
    until: Time,
}

/// The scheduler.
#[derive(Default)]
pub struct Scheduler {
    cache: Cache,
    queue: Queue,
    flights: BTreeMap<u64, Flight>,
    stays: BTreeMap<Key, Stay>,
    /// Stays whose volumes may be ready.
    due: BTreeSet<Key>,
    tickets: u64,
}

impl Scheduler {
    /// A scheduler that knows nothing yet: see [`Scheduler::rebuild`].
    pub fn new() -> Scheduler {
        Scheduler::default()
    }

    /// Learns the whole world, at the start and when history was lost. Binds under way stay assumed.
    pub fn rebuild(&mut self, view: &View, now: Time) {
        let assumed: Vec<(Ask, Box<str>)> = self
            .cache
            .pods()
            .filter(|(key, placed)| placed.assumed && view.get_key(key).is_some())
            .map(|(_, placed)| (placed.ask.clone(), placed.node.clone()))
            .collect();
        self.cache = Cache::of(view);
        for (ask, node) in assumed {
            if self.cache.pod(ask.key()).is_none() {
                self.cache.assume(ask, &node);
            }
        }
        let gone: Vec<Key> = self.queue.keys().filter(|key| view.get_key(key).is_none()).cloned().collect();
        gone.iter().for_each(|key| self.drop_pod(key));
        for object in view.list(PODS_COLLECTION, "") {
            self.look_at_pod(object, None, now);
        }
        self.queue.wake_all(now);
    }

    /// Takes in one change, in order.
    pub fn observe(&mut self, event: &Event, now: Time) {
        let happened = self.cache.apply(event);
        if *event.key.collection == *PODS_COLLECTION {
            if event.change == Change::Deleted {
                self.drop_pod(&event.key);
            } else {
                let object = Object::new(event.key.clone(), Arc::clone(&event.entry));
                self.look_at_pod(object, Some(event), now);
            }
        }
        self.tell(&happened, now);
    }

    fn tell(&mut self, happened: &[Happened], now: Time) {
        for happened in happened {
            self.queue.happened(&self.cache, happened, now);
            if let Happened::Volumes(_) = happened {
                self.due.extend(self.stays.keys().cloned());
            }
        }
    }

    fn drop_pod(&mut self, key: &Key) {
        self.queue.remove(key);
        self.cache.unnominate(key);
        self.leave_stay(key);
    }

    fn leave_stay(&mut self, key: &Key) {
        self.due.remove(key);
        if let Some(stay) = self.stays.remove(key) {
            stay.claims.iter().for_each(|claim| self.cache.volumes.take_back(claim));
        }
    }

    fn look_at_pod(&mut self, object: Object, event: Option<&Event>, now: Time) {
        let facts = Pod::of(&object);
        if facts.is_bound() || !is_ours(&object, &facts) {
            self.drop_pod(&object.key);
            return;
        }
        let previous = event.and_then(|event| event.previous.as_ref());
        let known = self.queue.get(&object.key).filter(|ask| ask.pod.uid() == &*object.meta().uid);
        let nominated = facts.status.nominated_node_name.clone();
        let nominated_before = previous.map(|entry| {
            Pod::of(&Object::new(object.key.clone(), Arc::clone(entry))).status.nominated_node_name.clone()
        });
        let (key, entry) = (object.key.clone(), event.map(|event| &event.entry));
        let same =
            known.is_some() && previous.zip(entry).is_some_and(|(old, new)| asks_the_same(&old.value, &new.value));
        if same {
            self.queue.refresh(object);
        } else {
            self.queue.put(Ask::of(object), now);
        }
        if nominated_before.unwrap_or_default() != nominated
            && let Some(ask) = self.queue.get(&key)
        {
            self.cache.nominate(&ask.clone(), &nominated);
        }
    }

    /// The next decision, if there is any to be made now. `view` must have seen what was observed.
    pub fn next(&mut self, view: &View, now: Time) -> Option<Decision> {
        if let Some(decision) = self.next_stay(now) {
            return Some(decision);
        }
        while let Some(ask) = self.queue.pop(now) {
            let Some(object) = view.get_key(ask.key()).filter(|object| *object.meta().uid == *ask.pod.uid()) else {
                self.drop_pod(&ask.key().clone());
                continue;
            };
            let ask = ask.with_pod(object);
            if let Some(decision) = self.turn(&ask, now) {
                return Some(decision);
            }
        }
        None
    }

    fn turn(&mut self, ask: &Ask, now: Time) -> Option<Decision> {
        match decide(&mut self.cache, ask) {
            Verdict::Gated => {
                self.queue.gate(ask.key());
                None
            }
            Verdict::Bind { node, prepare } if prepare.is_empty() => Some(self.bind(ask, &node)),
            Verdict::Bind { node, prepare } => Some(self.prepare(ask, node, &prepare, now)),
            Verdict::Preempt { node, victims, diagnosis } => {
                Some(self.make_room(ask, &node, &victims, &diagnosis, now))
            }
            Verdict::Unschedulable(diagnosis) => Some(self.reject(ask, &diagnosis, now)),
        }
    }

    fn decision(&mut self, key: &Key, flight: Flight, effects: Vec<Effect>, notes: Vec<Note>) -> Decision {
        self.tickets += 1;
        self.flights.insert(self.tickets, flight);
        Decision { ticket: self.tickets, key: key.clone(), effects, notes }
    }

    fn bind(&mut self, ask: &Ask, node: &str) -> Decision {
        self.cache.assume(ask.clone(), node);
        let effects = vec![effects::bind(ask, node)];
        self.decision(ask.key(), Flight::Bind(ask.key().clone()), effects, Vec::new())
    }

    fn prepare(&mut self, ask: &Ask, node: Box<str>, prepare: &[Prepare], now: Time) -> Decision {
        self.cache.assume(ask.clone(), &node);
        let mut stay = Stay { node, made: Vec::new(), claims: Vec::new(), until: now.after(VOLUMES_PATIENCE) };
        for step in prepare {
            match step {
                Prepare::Reserve { volume, claim } => {
                    self.cache.volumes.promise(volume, claim);
                    stay.claims.push(Arc::clone(claim));
                }
                Prepare::Make { claim } => {
                    stay.made.push(Arc::clone(claim));
                    stay.claims.push(Arc::clone(claim));
                }
            }
        }
        let effects = prepare.iter().filter_map(|step| effects::prepare(&self.cache, step, &stay.node)).collect();
        self.decision(ask.key(), Flight::Volumes(ask.key().clone(), stay), effects, Vec::new())
    }

    fn make_room(&mut self, ask: &Ask, node: &str, victims: &[Key], diagnosis: &Diagnosis, now: Time) -> Decision {
        let mut effects: Vec<Effect> =
            effects::unschedulable(ask, &diagnosis.message(), node, now).into_iter().collect();
        for victim in victims.iter().filter_map(|key| self.cache.pod(key)) {
            effects.extend(effects::evict(&victim.ask, ask, node, now));
        }
        // Less important pods that were to come there must look for another place.
        let lower = self.cache.nominated_on(node).into_iter().flatten();
        let lower: Vec<Ask> = lower.map(|(_, ask)| ask.clone()).filter(|o| o.priority() < ask.priority()).collect();
        for other in lower {
            effects.extend(effects::denominate(&other));
            self.cache.unnominate(other.key());
            self.queue.retry(other.key(), now);
        }
        self.cache.nominate(ask, node);
        self.queue.reject(ask.key(), diagnosis.plugins, now);
        let notes = vec![effects::failed_scheduling(diagnosis)];
        self.decision(ask.key(), Flight::Room(ask.key().clone()), effects, notes)
    }

    fn reject(&mut self, ask: &Ask, diagnosis: &Diagnosis, now: Time) -> Decision {
        // A nomination stands while the victims are leaving, and falls when room there does not help any more.
        let waits = diagnosis.preemption.as_deref().is_some_and(crate::preempt::is_waiting);
        let node = self.cache.nomination(ask.key()).filter(|_| waits).unwrap_or_default().to_owned();
        if node.is_empty() {
            self.cache.unnominate(ask.key());
        }
        self.queue.reject(ask.key(), diagnosis.plugins, now);
        let effects = effects::unschedulable(ask, &diagnosis.message(), &node, now).into_iter().collect();
        let notes = vec![effects::failed_scheduling(diagnosis)];
        self.decision(ask.key(), Flight::Told, effects, notes)
    }

    /// A decision was performed, and how it ended.
    pub fn done(&mut self, ticket: u64, performed: Performed, now: Time) {
        let well = matches!(performed, Performed::Done { .. });
        match self.flights.remove(&ticket) {
            Some(Flight::Bind(key)) if !well => self.fail(&key, now),
            Some(Flight::Room(key)) if !well => {
                self.cache.unnominate(&key);
                self.queue.retry(&key, now);
            }
            Some(Flight::Volumes(key, stay)) if well && self.queue.get(&key).is_some() => {
                self.stays.insert(key.clone(), stay);
                self.due.insert(key);
            }
            Some(Flight::Volumes(key, stay)) => {
                stay.claims.iter().for_each(|claim| self.cache.volumes.take_back(claim));
                self.fail(&key, now);
            }
            _ => {}
        }
    }

    /// A pod does not get to its node after all.
    fn fail(&mut self, key: &Key, now: Time) {
        self.leave_stay(key);
        let happened = self.cache.forget(key);
        self.queue.retry(key, now);
        self.tell(&happened, now);
    }

    fn next_stay(&mut self, now: Time) -> Option<Decision> {
        let late = self.stays.iter().filter(|(_, stay)| stay.until <= now).map(|(key, _)| key.clone());
        self.due.extend(late.collect::<Vec<_>>());
        while let Some(key) = self.due.pop_first() {
            let Some(stay) = self.stays.get(&key).cloned() else { continue };
            let claim = |claim: &Arc<str>| self.cache.volumes.claim(claim);
            let is_ready = stay.claims.iter().all(|key| claim(key).is_some_and(|claim| claim.facts.is_bound()));
            // A provisioner that cannot make the volume there takes the node back.
            let is_refused = stay.made.iter().any(|key| {
                claim(key).is_none_or(|claim| !claim.facts.is_bound() && claim.facts.selected_node() != &*stay.node)
            });
            if is_ready && let Some(ask) = self.queue.get(&key).cloned() {
                self.stays.remove(&key);
                return Some(self.bind(&ask, &stay.node));
            }
            if is_refused || stay.until <= now {
                self.fail(&key, now);
            }
        }
        None
    }

    /// When there may be something to decide although nothing happens.
    pub fn next_timer(&self) -> Option<Time> {
        let stay = self.stays.values().map(|stay| stay.until).min();
        [self.queue.next_timer(), stay].into_iter().flatten().min()
    }

    /// What is known of the cluster.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// How many pods have no node.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}

fn is_ours(object: &Object, pod: &Pod) -> bool {
    let name = &*pod.spec.scheduler_name;
    (name == SCHEDULER_NAME || name.is_empty()) && !pod.is_finished() && !object.meta().is_deleting()
}
