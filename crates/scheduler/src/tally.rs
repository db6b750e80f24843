//! Counted once, then kept: pods that match what some pod asked about, by topology domain.
//!
//! Pods of one workload ask the same question; only the first one pays for the answer. A question that nobody has
//! asked for long is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use brain::facts::first_untolerated;

use crate::ask::{Ask, Namespaces, Scope};
use crate::counts::Counts;
use crate::node_info::NodeInfo;
use crate::slab::{ByNamespace, Slab};
use crate::topology::{NodeIx, Topologies};
use meta::labels::Selector;

/// How many questions are kept: each costs up to some 100 KB at 5,000 nodes, and a cluster with more different
/// questions than this under way at once only pays for counting again.
const TALLIES_MAX: usize = 512;

/// Which pods are counted: those that every part selects.
#[derive(Clone, Debug)]
pub struct Select {
    /// Namespaces and labels.
    pub parts: Vec<(Scope, Selector)>,
    /// Without those that are being deleted.
    pub only_living: bool,
}

impl Select {
    /// Whether the pod is counted.
    pub fn matches(&self, pod: &Ask, namespaces: &Namespaces) -> bool {
        let labels = namespaces.get(pod.namespace());
        (!self.only_living || !pod.pod.is_deleting())
            && self
                .parts
                .iter()
                .all(|(scope, selector)| scope.covers(pod.namespace(), labels) && selector.matches(pod.labels()))
    }

    /// The namespaces to look into: the first part's are as good as any.
    pub fn scope(&self) -> Option<&Scope> {
        self.parts.first().map(|(scope, _)| scope)
    }
}

/// Which nodes are looked at.
#[derive(Clone)]
pub struct Include {
    /// The pod that asks.
    pub ask: Ask,
    /// Its selector and affinity exclude nodes.
    pub honor_affinity: bool,
    /// Taints that it does not tolerate exclude nodes.
    pub honor_taints: bool,
    /// Labels that nodes need.
    pub keys: Vec<Box<str>>,
}

impl Include {
    /// Whether the node is looked at.
    pub fn covers(&self, node: &NodeInfo) -> bool {
        let effects = &["NoSchedule", "NoExecute"];
        let spec = self.ask.spec();
        self.keys.iter().all(|key| node.labels().contains_key(key))
            && (!self.honor_affinity || self.ask.selects_node(node.labels(), node.name()))
            && (!self.honor_taints || first_untolerated(node.taints(), &spec.tolerations, effects).is_none())
    }
}

/// One question with its answer.
pub struct Tally {
    text: Arc<str>,
    select: Select,
    include: Option<Include>,
    /// The answer.
    pub counts: Counts,
    used: u64,
}

/// All of them.
#[derive(Default)]
pub struct Tallies {
    all: Slab<Tally>,
    by_text: BTreeMap<Arc<str>, usize>,
    by_namespace: ByNamespace,
    clock: u64,
}

impl Tallies {
    /// The answer with this number.
    pub fn get(&self, at: usize) -> Option<&Counts> {
        self.all.get(at).map(|tally| &tally.counts)
    }

    /// A question that was asked before.
    pub fn find(&mut self, text: &str) -> Option<usize> {
        let at = *self.by_text.get(text)?;
        self.clock += 1;
        if let Some(tally) = self.all.get_mut(at) {
            tally.used = self.clock;
        }
        Some(at)
    }

    /// A question that was never asked, with its answer.
    pub fn insert(&mut self, text: &Arc<str>, select: Select, include: Option<Include>, counts: Counts) -> usize {
        if self.all.len() >= TALLIES_MAX {
            self.forget_oldest();
        }
        self.clock += 1;
        let scope = select.scope().cloned().unwrap_or_default();
        let at = self.all.insert(Tally { text: Arc::clone(text), select, include, counts, used: self.clock });
        self.by_text.insert(Arc::clone(text), at);
        self.by_namespace.insert(&scope, at);
        at
    }

    fn forget_oldest(&mut self) {
        if let Some((at, _)) = self.all.iter().min_by_key(|(_, tally)| tally.used) {
            self.forget(at);
        }
    }

    fn forget(&mut self, at: usize) {
        let Some(tally) = self.all.remove(at) else { return };
        self.by_text.remove(&tally.text);
        if let Some(scope) = tally.select.scope() {
            self.by_namespace.remove(scope, at);
        }
    }

    /// A namespace has other labels: what depends on them is counted anew when it is asked again.
    pub fn forget_open(&mut self) {
        let by_label = |tally: &Tally| tally.select.parts.iter().any(|(scope, _)| scope.selector.is_some());
        let open: Vec<usize> = self.all.iter().filter(|(_, tally)| by_label(tally)).map(|(at, _)| at).collect();
        open.into_iter().for_each(|at| self.forget(at));
    }

    /// A pod came to (1) or left (-1) a node.
    pub fn count(&mut self, pod: &Ask, node: NodeIx, by: i64, topologies: &Topologies, namespaces: &Namespaces) {
        for at in self.by_namespace.concerned(pod.namespace()) {
            let Some(tally) = self.all.get_mut(at) else { continue };
            if tally.select.matches(pod, namespaces) {
                let domain = topologies.domain(tally.counts.topology, node);
                tally.counts.add(node, domain, by);
            }
        }
    }

    /// A node is about to change or go.
    pub fn node_leaves(&mut self, node: NodeIx, topologies: &Topologies) {
        for (_, tally) in self.all.iter_mut() {
            tally.counts.leave(node, topologies.domain(tally.counts.topology, node));
        }
    }

    /// A node came or has changed.
    pub fn node_enters(&mut self, node: NodeIx, info: &NodeInfo, topologies: &Topologies) {
        for (_, tally) in self.all.iter_mut() {
            let domain = topologies.domain(tally.counts.topology, node);
            match (&tally.include, domain) {
                (Some(include), Some(domain)) if include.covers(info) => tally.counts.include(node, domain),
                (Some(_), _) => {}
                (None, domain) => tally.counts.enter(node, domain),
            }
        }
    }

    /// Every question, for comparing.
    pub fn each(&self) -> impl Iterator<Item = (&Arc<str>, &Select, Option<&Include>, &Counts)> {
        self.all.iter().map(|(_, t)| (&t.text, &t.select, t.include.as_ref(), &t.counts))
    }
}
