//! A node with the sums of its pods.

use std::collections::BTreeSet;

use brain::Object;
use brain::facts::{Node, Requests, Seen, Taint};
use store::Key;

use crate::ask::{Ask, Port};
use crate::topology::Labels;

/// A node.
pub struct NodeInfo {
    /// The node itself.
    pub node: Seen<Node>,
    /// Another number whenever labels, taints or the cordon change: what was decided about it alone is stale.
    pub version: u64,
    /// What pods may have.
    pub allocatable: Requests,
    /// How many pods it may have.
    pub pods_max: i64,
    /// What its pods request.
    pub used: Requests,
    /// What its pods are taken to use, for scoring: cpu (thousandths) and memory (bytes).
    pub scored: [i64; 2],
    /// Its pods.
    pub pods: BTreeSet<Key>,
    /// Host ports in use, each as often as it is used.
    pub ports: Vec<Port>,
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(object: Object, version: u64) -> NodeInfo {
        let mut info = NodeInfo {
            node: Seen::from(object),
            version,
            allocatable: Requests::default(),
            pods_max: 0,
            used: Requests::default(),
            scored: [0; 2],
            pods: BTreeSet::new(),
            ports: Vec::new(),
        };
        info.read_allocatable();
        info
    }

    /// The node has changed.
    pub fn update(&mut self, object: Object) {
        self.node = Seen::from(object);
        self.read_allocatable();
    }

    fn read_allocatable(&mut self) {
        self.allocatable = self.node.facts.status.allocatable.whole();
        self.pods_max = self.allocatable.others.remove("pods").unwrap_or(0);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.node.meta().labels
    }

    /// Its taints.
    pub fn taints(&self) -> &[Taint] {
        &self.node.facts.spec.taints
    }

    /// A pod comes.
    pub fn add(&mut self, pod: &Ask) {
        if self.pods.insert(pod.key().clone()) {
            self.used.add(&pod.wants.requests);
            for (sum, own) in self.scored.iter_mut().zip(pod.wants.scored) {
                *sum = sum.saturating_add(own);
            }
            self.ports.extend(pod.wants.ports.iter().cloned());
        }
    }

    /// A pod leaves.
    pub fn remove(&mut self, pod: &Ask) {
        if !self.pods.remove(pod.key()) {
            return;
        }
        let used = &mut self.used;
        pod.wants.requests.each(|name, amount| used.set(name, used.get(name).saturating_sub(amount)));
        used.others.retain(|_, amount| *amount != 0);
        for (sum, own) in self.scored.iter_mut().zip(pod.wants.scored) {
            *sum = sum.saturating_sub(own);
        }
        for port in &pod.wants.ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}
