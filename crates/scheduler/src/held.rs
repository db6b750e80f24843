//! Terms that placed pods hold about others, grouped: pods of one workload hold the same ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ask::{Ask, Namespaces, Term};
use crate::counts::Counts;
use crate::slab::{ByNamespace, Slab};
use crate::topology::{NodeIx, Topologies, TopologyIx};

/// What a required affinity of a placed pod weighs when others are scored (upstream's hardPodAffinityWeight).
const REQUIRED_AFFINITY_WEIGHT: i64 = 1;

/// What a term means for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Keeps them away.
    Forbids,
    /// Makes its surroundings better or worse for them.
    Weighs(i64),
}

/// One term with where its holders are.
pub struct Group {
    /// What it means.
    pub hold: Hold,
    /// The term.
    pub term: Term,
    /// Where its holders are.
    pub counts: Counts,
}

impl Group {
    /// Whether it is about this pod.
    pub fn is_about(&self, pod: &Ask, namespaces: &Namespaces) -> bool {
        self.term.scope.covers(pod.namespace(), namespaces.get(pod.namespace()))
            && self.term.selector.matches(pod.labels())
    }
}

/// All groups.
#[derive(Default)]
pub struct Held {
    all: Slab<Group>,
    by_text: BTreeMap<(Hold, Arc<str>), usize>,
    by_namespace: ByNamespace,
}

impl Held {
    /// A pod with terms came to (1) or left (-1) a node.
    ///
    /// Its topology keys must be known.
    pub fn count(&mut self, pod: &Ask, node: NodeIx, by: i64, topologies: &Topologies) {
        for (hold, term) in holds(pod) {
            let Some(topology) = topologies.find(&term.topology_key) else { continue };
            let at = self.group(hold, term, topology);
            let Some(group) = self.all.get_mut(at) else { continue };
            group.counts.add(node, topologies.domain(group.counts.topology, node), by);
            if group.counts.is_empty() {
                self.forget(at);
            }
        }
    }

    fn group(&mut self, hold: Hold, term: &Term, topology: TopologyIx) -> usize {
        if let Some(at) = self.by_text.get(&(hold, Arc::clone(&term.text))) {
            return *at;
        }
        let counts = Counts::everywhere(topology);
        let at = self.all.insert(Group { hold, term: term.clone(), counts });
        self.by_text.insert((hold, Arc::clone(&term.text)), at);
        self.by_namespace.insert(&term.scope, at);
        at
    }

    fn forget(&mut self, at: usize) {
        let Some(group) = self.all.remove(at) else { return };
        self.by_namespace.remove(&group.term.scope, at);
        self.by_text.remove(&(group.hold, group.term.text));
    }

    /// The groups that are about a pod.
    pub fn about<'h>(&'h self, pod: &'h Ask, namespaces: &'h Namespaces) -> impl Iterator<Item = (usize, &'h Group)> {
        let concerned = self.by_namespace.concerned(pod.namespace());
        let groups = concerned.filter_map(|at| Some((at, self.all.get(at)?)));
        groups.filter(|(_, group)| group.is_about(pod, namespaces))
    }

    /// The group with this number.
    pub fn get(&self, at: usize) -> Option<&Group> {
        self.all.get(at)
    }

    /// A node is about to change or go.
    pub fn node_leaves(&mut self, node: NodeIx, topologies: &Topologies) {
        for (_, group) in self.all.iter_mut() {
            group.counts.leave(node, topologies.domain(group.counts.topology, node));
        }
    }

    /// A node came or has changed.
    pub fn node_enters(&mut self, node: NodeIx, topologies: &Topologies) {
        for (_, group) in self.all.iter_mut() {
            group.counts.enter(node, topologies.domain(group.counts.topology, node));
        }
    }

    /// Every group, for comparing.
    pub fn each(&self) -> impl Iterator<Item = &Group> {
        self.all.iter().map(|(_, group)| group)
    }
}

/// The terms that a pod holds.
fn holds(pod: &Ask) -> impl Iterator<Item = (Hold, &Term)> {
    let wants = &pod.wants;
    let forbidden = wants.anti_affinity.iter().map(|term| (Hold::Forbids, term));
    let required = wants.affinity.iter().map(|term| (Hold::Weighs(REQUIRED_AFFINITY_WEIGHT), term));
    let preferred = wants.preferred.iter().map(|(weight, term)| (Hold::Weighs(*weight), term));
    forbidden.chain(required).chain(preferred)
}
