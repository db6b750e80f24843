//! Which nodes are near one another: for every topology key in use, the domain of each node.
//!
//! Domains are numbered, so that counting by domain costs no comparison of names. A number is used again once no
//! node has its value any more.

use std::collections::BTreeMap;

/// A node's place in the cache.
pub type NodeIx = u32;
/// A topology key's place.
pub type TopologyIx = usize;
/// One value of a topology key.
pub type Domain = u32;
/// Labels of an object.
pub use meta::labels::LabelMap as Labels;

/// Every topology key that any pod has asked for. Keys are few (a cluster uses a handful), so none is forgotten.
#[derive(Default)]
pub struct Topologies {
    all: Vec<Topology>,
    by_key: BTreeMap<Box<str>, TopologyIx>,
}

#[derive(Default)]
struct Topology {
    key: Box<str>,
    of_node: Vec<Option<Domain>>,
    domains: BTreeMap<Box<str>, Domain>,
    /// By domain: its value and how many nodes have it.
    values: Vec<(Box<str>, u32)>,
    free: Vec<Domain>,
}

impl Topologies {
    /// The place of `key`; the first time every node is looked at.
    pub fn ensure<'n>(&mut self, key: &str, nodes: impl Iterator<Item = (NodeIx, &'n Labels)>) -> TopologyIx {
        if let Some(at) = self.by_key.get(key) {
            return *at;
        }
        let mut topology = Topology { key: key.into(), ..Topology::default() };
        nodes.for_each(|(node, labels)| topology.place(node, labels.get(key).map(|value| &**value)));
        self.all.push(topology);
        self.by_key.insert(key.into(), self.all.len() - 1);
        self.all.len() - 1
    }

    /// The place of a key that is known.
    pub fn find(&self, key: &str) -> Option<TopologyIx> {
        self.by_key.get(key).copied()
    }

    /// A node's labels are now these; `None` when it is gone.
    pub fn place(&mut self, node: NodeIx, labels: Option<&Labels>) {
        for topology in &mut self.all {
            let value = labels.and_then(|labels| labels.get(&topology.key)).map(|value| &**value);
            topology.place(node, value);
        }
    }

    /// The node's domain; `None` when it has no such label.
    pub fn domain(&self, topology: TopologyIx, node: NodeIx) -> Option<Domain> {
        self.all[topology].of_node.get(node as usize).copied().flatten()
    }

    /// The label's value that a domain stands for.
    #[cfg(test)]
    pub fn value(&self, topology: TopologyIx, domain: Domain) -> &str {
        self.all[topology].values.get(domain as usize).map_or("", |(value, _)| value)
    }
}

impl Topology {
    fn place(&mut self, node: NodeIx, value: Option<&str>) {
        let at = node as usize;
        if self.of_node.len() <= at {
            self.of_node.resize(at + 1, None);
        }
        if let Some(old) = self.of_node[at].take() {
            self.leave(old);
        }
        self.of_node[at] = value.map(|value| self.enter(value));
    }

    fn enter(&mut self, value: &str) -> Domain {
        if let Some(domain) = self.domains.get(value) {
            self.values[*domain as usize].1 += 1;
            return *domain;
        }
        let domain = self.free.pop().unwrap_or(self.values.len() as Domain);
        if domain as usize == self.values.len() {
            self.values.push((value.into(), 1));
        } else {
            self.values[domain as usize] = (value.into(), 1);
        }
        self.domains.insert(value.into(), domain);
        domain
    }

    fn leave(&mut self, domain: Domain) {
        let (value, nodes) = &mut self.values[domain as usize];
        *nodes -= 1;
        if *nodes == 0 {
            self.domains.remove(value);
            self.free.push(domain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Labels {
        Labels::from_iter([("zone", value.into())])
    }

    #[test]
    fn domains_follow_the_labels() {
        let (a, b) = (labels("a"), labels("b"));
        let mut topologies = Topologies::default();
        let zone = topologies.ensure("zone", [(0, &a), (1, &a), (2, &b)].into_iter());
        assert_eq!(topologies.domain(zone, 0), topologies.domain(zone, 1));
        assert_ne!(topologies.domain(zone, 0), topologies.domain(zone, 2));
        topologies.place(2, None);
        assert_eq!(topologies.domain(zone, 2), None);
        topologies.place(3, Some(&labels("c")));
        let reused = topologies.domain(zone, 3).expect("has a zone");
        assert_eq!(topologies.value(zone, reused), "c");
        assert_eq!(topologies.domain(zone, 9), None);
    }
}
