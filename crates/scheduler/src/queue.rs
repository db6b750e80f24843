//! Pods that wait for a node: ready to be tried, trying again later, or waiting for something to happen that can
//! help.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stdx::Time;
use store::Key;

use crate::ask::Ask;
use crate::cache::{Cache, Happened};
use crate::filter::fits_alone;
use crate::reason::{Plugin, Plugins};
use crate::statics::judge;
use crate::topology::NodeIx;

/// The pause after the first failed attempt; it doubles (upstream's podInitialBackoffSeconds).
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest pause (upstream's podMaxBackoffSeconds).
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Nobody waits longer than this without another try, whatever did not happen (upstream's
/// podMaxInUnschedulablePodsDuration).
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// All pods without a node.
#[derive(Default)]
pub struct Queue {
    pods: BTreeMap<Key, Waiting>,
    active: BTreeSet<Rank>,
    timers: BTreeSet<(Time, Key)>,
    by_plugin: BTreeMap<Plugin, BTreeSet<Key>>,
}

/// More important pods first, then those that wait longer.
type Rank = (Reverse<i32>, Time, Key);

struct Waiting {
    ask: Ask,
    since: Time,
    attempts: u32,
    tried: Time,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Its gates are not lifted.
    Gated,
    /// To be tried now.
    Active,
    /// To be tried then.
    Backoff(Time),
    /// To be tried when something happens that one of these plugins cares for, and then at the latest.
    Unschedulable(Plugins, Time),
    /// Being tried.
    Busy,
}

impl Queue {
    /// A pod without a node came, or asks for something else now.
    pub fn put(&mut self, ask: Ask, now: Time) {
        let key = ask.key().clone();
        let gated = !ask.spec().scheduling_gates.is_empty();
        let state = match self.pods.get(&key).map(|waiting| waiting.state) {
            Some(State::Busy) => State::Busy,
            _ if gated => State::Gated,
            Some(State::Unschedulable(..) | State::Backoff(_)) => self.after_backoff(&key, now),
            _ => State::Active,
        };
        self.leave_state(&key);
        let waiting = self.pods.entry(key.clone()).or_insert_with(|| Waiting {
            ask: ask.clone(),
            since: now,
            attempts: 0,
            tried: now,
            state,
        });
        waiting.ask = ask;
        self.enter_state(&key, state);
    }

    /// The same wants in a newer state of the pod.
    pub fn refresh(&mut self, object: brain::Object) {
        if let Some(waiting) = self.pods.get_mut(&object.key) {
            waiting.ask = waiting.ask.with_pod(object);
        }
    }

    /// The pod is bound, gone, or somebody else's.
    pub fn remove(&mut self, key: &Key) {
        self.leave_state(key);
        self.pods.remove(key);
    }

    /// One waiting pod.
    pub fn get(&self, key: &Key) -> Option<&Ask> {
        self.pods.get(key).map(|waiting| &waiting.ask)
    }

    /// The keys of all.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.pods.keys()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The next pod to try; it is busy until it is put back or removed.
    pub fn pop(&mut self, now: Time) -> Option<Ask> {
        self.wake_due(now);
        let (_, _, key) = self.active.pop_first()?;
        let waiting = self.pods.get_mut(&key)?;
        waiting.state = State::Busy;
        waiting.attempts = waiting.attempts.saturating_add(1);
        waiting.tried = now;
        Some(waiting.ask.clone())
    }

    fn wake_due(&mut self, now: Time) {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                return;
            }
            self.become_state(&key, State::Active);
        }
    }

    /// No node, for these reasons.
    pub fn reject(&mut self, key: &Key, plugins: Plugins, now: Time) {
        self.become_state(key, State::Unschedulable(plugins, now.after(PATIENCE)));
    }

    /// Its gates are not lifted: it was no attempt.
    pub fn gate(&mut self, key: &Key) {
        self.become_state(key, State::Gated);
    }

    /// The attempt failed in a way that nothing that happens will tell of.
    pub fn retry(&mut self, key: &Key, now: Time) {
        if self.pods.contains_key(key) {
            let state = self.after_backoff(key, now);
            self.become_state(key, state);
        }
    }

    /// Everybody who waits for something is tried again.
    pub fn wake_all(&mut self, now: Time) {
        let is_waiting = |waiting: &Waiting| matches!(waiting.state, State::Unschedulable(..));
        let waiting: Vec<Key> = self.pods.iter().filter(|(_, w)| is_waiting(w)).map(|(key, _)| key.clone()).collect();
        waiting.iter().for_each(|key| self.retry(key, now));
    }

    /// Something happened: whoever it can help is tried again.
    pub fn happened(&mut self, cache: &Cache, happened: &Happened, now: Time) {
        let mut helped = BTreeSet::new();
        for plugin in cares(happened) {
            for key in self.by_plugin.get(plugin).into_iter().flatten() {
                let Some(waiting) = self.pods.get(key) else { continue };
                if !helped.contains(key) && helps(cache, &waiting.ask, *plugin, happened) {
                    helped.insert(key.clone());
                }
            }
        }
        for key in helped {
            self.retry(&key, now);
        }
    }

    /// When somebody is to be tried again.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    fn after_backoff(&self, key: &Key, now: Time) -> State {
        let Some(waiting) = self.pods.get(key) else { return State::Active };
        let until = waiting.tried.after(backoff(waiting.attempts));
        if until <= now { State::Active } else { State::Backoff(until) }
    }

    fn become_state(&mut self, key: &Key, state: State) {
        self.leave_state(key);
        self.enter_state(key, state);
    }

    fn leave_state(&mut self, key: &Key) {
        let Some(waiting) = self.pods.get(key) else { return };
        match waiting.state {
            State::Active => {
                self.active.remove(&rank(key, waiting));
            }
            State::Backoff(until) | State::Unschedulable(_, until) => {
                self.timers.remove(&(until, key.clone()));
            }
            State::Gated | State::Busy => {}
        }
        if let State::Unschedulable(..) = waiting.state {
            self.by_plugin.values_mut().for_each(|keys| {
                keys.remove(key);
            });
        }
    }

    fn enter_state(&mut self, key: &Key, state: State) {
        let Some(waiting) = self.pods.get_mut(key) else { return };
        waiting.state = state;
        match state {
            State::Active => {
                let rank = rank(key, waiting);
                self.active.insert(rank);
            }
            State::Backoff(until) | State::Unschedulable(_, until) => {
                self.timers.insert((until, key.clone()));
            }
            State::Gated | State::Busy => {}
        }
        if let State::Unschedulable(plugins, _) = state {
            for plugin in Plugin::EACH.into_iter().filter(|plugin| plugins.has(*plugin)) {
                self.by_plugin.entry(plugin).or_default().insert(key.clone());
            }
        }
    }
}

fn rank(key: &Key, waiting: &Waiting) -> Rank {
    (Reverse(waiting.ask.priority()), waiting.since, key.clone())
}

fn backoff(attempts: u32) -> Duration {
    if attempts == 0 {
        return Duration::ZERO;
    }
    BACKOFF_MIN.saturating_mul(1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX)).min(BACKOFF_MAX)
}

/// The plugins whose verdict it can change.
fn cares(happened: &Happened) -> &'static [Plugin] {
    use Plugin::{InterPodAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, VolumeBinding, VolumeRestrictions};
    match happened {
        Happened::Node { .. } => &Plugin::EACH,
        Happened::NodeGone => &[PodTopologySpread],
        Happened::PodPlaced(_) => &[PodTopologySpread, InterPodAffinity],
        Happened::PodLeft { .. } => {
            &[NodeResourcesFit, NodePorts, VolumeRestrictions, PodTopologySpread, InterPodAffinity]
        }
        Happened::Volumes(_) => &[VolumeBinding, VolumeRestrictions],
        Happened::Namespace => &[InterPodAffinity],
    }
}

/// Whether what happened can make a pod that `plugin` rejected go somewhere.
fn helps(cache: &Cache, ask: &Ask, plugin: Plugin, happened: &Happened) -> bool {
    match happened {
        Happened::Node { node, is_new, labels, taints, room } => match plugin {
            Plugin::PodTopologySpread => *is_new || *labels || *taints,
            Plugin::NodeResourcesFit => (*is_new || *room) && has_room(cache, ask, *node),
            Plugin::TaintToleration | Plugin::NodeUnschedulable => *taints && is_open(cache, ask, *node),
            Plugin::NodePorts | Plugin::VolumeRestrictions => *is_new && is_open(cache, ask, *node),
            Plugin::NodeAffinity | Plugin::NodeName | Plugin::InterPodAffinity | Plugin::VolumeBinding => {
                *labels && is_open(cache, ask, *node)
            }
        },
        Happened::NodeGone | Happened::Namespace => true,
        Happened::PodPlaced(pod) => is_about(cache, ask, plugin, pod),
        Happened::PodLeft { pod, node } => match plugin {
            Plugin::NodeResourcesFit => node.is_some_and(|node| has_room(cache, ask, node)),
            Plugin::NodePorts => node.is_some_and(|node| is_open(cache, ask, node)) && !pod.wants.ports.is_empty(),
            Plugin::VolumeRestrictions => pod.wants.claims.iter().any(|claim| ask.wants.claims.contains(claim)),
            _ => is_about(cache, ask, plugin, pod),
        },
        Happened::Volumes(claim) => {
            claim.as_ref().is_none_or(|claim| crate::cache::claim_keys(ask).any(|own| *own == **claim))
        }
    }
}

/// Whether the pod may go to the node as far as the two alone decide.
fn is_open(cache: &Cache, ask: &Ask, node: NodeIx) -> bool {
    cache.node(node).is_some_and(|node| judge(ask, node).is_ok())
}

/// Whether there is room on the node, or more could be made.
fn has_room(cache: &Cache, ask: &Ask, node: NodeIx) -> bool {
    let Some(info) = cache.node(node) else { return false };
    (fits_alone(ask, info) || crate::preempt::is_allowed(ask) && ask.priority() > 0) && judge(ask, info).is_ok()
}

/// Whether spreading or affinity of the pod looks at the other one.
fn is_about(cache: &Cache, ask: &Ask, plugin: Plugin, other: &Ask) -> bool {
    let labels = cache.namespaces.get(other.namespace());
    let covers = |term: &crate::ask::Term, pod: &Ask| {
        term.scope.covers(pod.namespace(), cache.namespaces.get(pod.namespace())) && term.selector.matches(pod.labels())
    };
    match plugin {
        Plugin::PodTopologySpread => {
            let own = ask.wants.spread.iter();
            own.filter(|s| s.hard).any(|s| ask.namespace() == other.namespace() && s.selector.matches(other.labels()))
        }
        _ => {
            let own = ask.wants.affinity.iter().chain(&ask.wants.anti_affinity);
            own.into_iter().any(|t| t.scope.covers(other.namespace(), labels) && t.selector.matches(other.labels()))
                || other.wants.anti_affinity.iter().any(|term| covers(term, ask))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, cpu, key};
    use serde_json::json;

    fn at(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    fn name(ask: Option<Ask>) -> String {
        ask.map(|ask| ask.pod.name().to_owned()).unwrap_or_default()
    }

    #[test]
    fn important_pods_go_first_then_old_ones() {
        let mut queue = Queue::default();
        queue.put(ask("young", json!({})), at(2));
        queue.put(ask("old", json!({})), at(1));
        queue.put(ask("important", json!({"priority": 5})), at(3));
        let order: Vec<String> = std::iter::from_fn(|| queue.pop(at(3))).map(|ask| ask.pod.name().to_owned()).collect();
        assert_eq!(order, ["important", "old", "young"]);
    }

    #[test]
    fn gates_hold_a_pod_back() {
        let mut queue = Queue::default();
        queue.put(ask("p", json!({"schedulingGates": [{"name": "g"}]})), at(0));
        assert!(queue.pop(at(9_999)).is_none());
        queue.put(ask("p", json!({})), at(1));
        assert_eq!(name(queue.pop(at(1))), "p");
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        for (attempts, secs) in [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (64, 10)] {
            assert_eq!(backoff(attempts), Duration::from_secs(secs), "{attempts}");
        }
    }

    #[test]
    fn who_is_rejected_waits_for_what_helps() {
        let cache = Cache::new();
        let mut queue = Queue::default();
        queue.put(ask("p", cpu(100)), at(0));
        queue.pop(at(0));
        let mut plugins = Plugins::default();
        plugins.insert(Plugin::InterPodAffinity);
        queue.reject(&key("p"), plugins, at(0));
        queue.happened(&cache, &Happened::NodeGone, at(1));
        assert!(queue.pop(at(1)).is_none());
        queue.happened(&cache, &Happened::Namespace, at(1));
        assert_eq!(name(queue.pop(at(1))), "p");
        queue.reject(&key("p"), plugins, at(1));
        queue.happened(&cache, &Happened::Namespace, at(2));
        assert_eq!(queue.next_timer(), Some(at(3)), "the second attempt is followed by two seconds");
        assert_eq!(name(queue.pop(at(3))), "p");
        queue.reject(&key("p"), plugins, at(3));
        assert_eq!(queue.next_timer(), Some(at(303)));
    }
}
