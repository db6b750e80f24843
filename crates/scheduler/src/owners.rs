//! Where the pods of each controller are: what pods without constraints of their own are spread by.
//!
//! Upstream spreads them by the selectors of their Services and controllers. The controller alone says the same of
//! every pod that has one, and needs no look at Services.

use std::collections::BTreeMap;

use crate::ask::Ask;
use crate::counts::Counts;
use crate::topology::{NodeIx, Topologies, TopologyIx};

/// The label of a node's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Placed pods by the uid of their controller, by node and by zone.
#[derive(Default)]
pub struct Owners(BTreeMap<Box<str>, Counts>);

impl Owners {
    /// A pod came to (1) or left (-1) a node.
    pub fn count(&mut self, pod: &Ask, node: NodeIx, by: i64, zone: TopologyIx, topologies: &Topologies) {
        let Some(owner) = &pod.wants.owner else { return };
        let counts = self.0.entry(owner.clone()).or_insert_with(|| Counts::everywhere(zone));
        counts.add(node, topologies.domain(zone, node), by);
        if counts.is_empty() {
            self.0.remove(owner);
        }
    }

    /// Where a controller's pods are; `None` when they are nowhere.
    pub fn of(&self, owner: &str) -> Option<&Counts> {
        self.0.get(owner)
    }

    /// A node is about to change or go.
    pub fn node_leaves(&mut self, node: NodeIx, topologies: &Topologies) {
        for counts in self.0.values_mut() {
            counts.leave(node, topologies.domain(counts.topology, node));
        }
    }

    /// A node came or has changed.
    pub fn node_enters(&mut self, node: NodeIx, topologies: &Topologies) {
        for counts in self.0.values_mut() {
            counts.enter(node, topologies.domain(counts.topology, node));
        }
    }

    /// All of them, for comparing.
    pub fn each(&self) -> impl Iterator<Item = (&str, &Counts)> {
        self.0.iter().map(|(owner, counts)| (&**owner, counts))
    }
}
