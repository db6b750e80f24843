//! Pods counted by node and by topology domain, kept up to date one pod at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::topology::{Domain, NodeIx, TopologyIx};

/// How many pods of some sort are on each node and in each domain of one topology. Sparse: nodes and domains
/// without any cost nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Whose domains.
    pub topology: TopologyIx,
    nodes: BTreeMap<NodeIx, u32>,
    domains: BTreeMap<Domain, u32>,
    /// Which nodes count at all; `None` for all that have the label.
    spans: Option<Spans>,
}

/// The nodes that a spreading constraint looks at, and how even things are over their domains.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spans {
    included: BTreeSet<NodeIx>,
    /// How many included nodes each domain has.
    nodes: BTreeMap<Domain, u32>,
    /// How many domains have how many pods: the fewest are first.
    histogram: BTreeMap<u32, u32>,
}

impl Counts {
    /// Nothing counted yet, on every node that has the label.
    pub fn everywhere(topology: TopologyIx) -> Counts {
        Counts { topology, ..Counts::default() }
    }

    /// Nothing counted yet, on no node: see [`Counts::include`].
    pub fn over_included(topology: TopologyIx) -> Counts {
        Counts { topology, spans: Some(Spans::default()), ..Counts::default() }
    }

    /// A node is looked at from now on, in this domain.
    pub fn include(&mut self, node: NodeIx, domain: Domain) {
        let on_node = self.on_node(node);
        let in_domain = self.in_domain(domain);
        let Some(spans) = &mut self.spans else { return };
        spans.included.insert(node);
        let nodes = spans.nodes.entry(domain).or_default();
        *nodes += 1;
        if *nodes == 1 {
            *spans.histogram.entry(in_domain).or_default() += 1;
        }
        self.shift(domain, i64::from(on_node));
    }

    /// Counts pods that came to (or, negative, left) a node in this domain.
    pub fn add(&mut self, node: NodeIx, domain: Option<Domain>, pods: i64) {
        change(&mut self.nodes, node, pods);
        let Some(domain) = domain.filter(|_| self.looks_at(node)) else { return };
        self.shift(domain, pods);
    }

    /// The node loses its domain: its labels change, or it goes. What was counted on it stays known by node until
    /// [`Counts::add`] takes it away; the answer is how many those are.
    pub fn leave(&mut self, node: NodeIx, domain: Option<Domain>) -> u32 {
        let on_node = self.on_node(node);
        let Some(domain) = domain.filter(|_| self.looks_at(node)) else { return on_node };
        self.shift(domain, -i64::from(on_node));
        let in_domain = self.in_domain(domain);
        if let Some(spans) = &mut self.spans {
            spans.included.remove(&node);
            change(&mut spans.nodes, domain, -1);
            if !spans.nodes.contains_key(&domain) {
                change(&mut spans.histogram, in_domain, -1);
            }
        }
        on_node
    }

    /// The node has a domain again (for counts that look at every node).
    pub fn enter(&mut self, node: NodeIx, domain: Option<Domain>) {
        if self.spans.is_none()
            && let Some(domain) = domain
        {
            self.shift(domain, i64::from(self.on_node(node)));
        }
    }

    fn looks_at(&self, node: NodeIx) -> bool {
        self.spans.as_ref().is_none_or(|spans| spans.included.contains(&node))
    }

    fn shift(&mut self, domain: Domain, pods: i64) {
        let before = self.in_domain(domain);
        change(&mut self.domains, domain, pods);
        let after = self.in_domain(domain);
        if let Some(spans) = &mut self.spans
            && before != after
        {
            change(&mut spans.histogram, before, -1);
            change(&mut spans.histogram, after, 1);
        }
    }

    /// How many are on the node.
    pub fn on_node(&self, node: NodeIx) -> u32 {
        self.nodes.get(&node).copied().unwrap_or(0)
    }

    /// How many are in the domain.
    pub fn in_domain(&self, domain: Domain) -> u32 {
        self.domains.get(&domain).copied().unwrap_or(0)
    }

    /// Whether none is anywhere, on nodes with or without the label.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether none is in any domain.
    pub fn is_nowhere(&self) -> bool {
        self.domains.is_empty()
    }

    /// The fewest in any domain that is looked at; `None` when there is no domain.
    pub fn fewest(&self) -> Option<u32> {
        self.spans.as_ref()?.histogram.keys().next().copied()
    }

    /// How many domains are looked at.
    pub fn domains(&self) -> usize {
        self.spans.as_ref().map_or(self.domains.len(), |spans| spans.nodes.len())
    }

    /// Every domain that has any, with how many.
    pub fn each_domain(&self) -> impl Iterator<Item = (Domain, u32)> + '_ {
        self.domains.iter().map(|(domain, pods)| (*domain, *pods))
    }
}

/// Adds to a number that is not kept when it is zero.
fn change<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, by: i64) {
    let new = i64::from(counts.get(&key).copied().unwrap_or(0)).saturating_add(by);
    match u32::try_from(new) {
        Ok(new) if new > 0 => {
            counts.insert(key, new);
        }
        _ => {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_is_over_included_domains() {
        let mut counts = Counts::over_included(0);
        assert_eq!(counts.fewest(), None);
        counts.include(0, 7);
        counts.include(1, 8);
        counts.add(0, Some(7), 2);
        assert_eq!((counts.fewest(), counts.domains()), (Some(0), 2));
        counts.add(1, Some(8), 1);
        assert_eq!(counts.fewest(), Some(1));
        assert_eq!(counts.leave(1, Some(8)), 1);
        assert_eq!((counts.fewest(), counts.domains()), (Some(2), 1));
        counts.add(5, Some(9), 4);
        assert_eq!((counts.in_domain(9), counts.on_node(5)), (0, 4));
        counts.include(5, 9);
        assert_eq!(counts.in_domain(9), 4);
    }

    #[test]
    fn nothing_is_kept_of_what_left() {
        let mut counts = Counts::everywhere(0);
        counts.add(0, Some(1), 1);
        counts.add(0, Some(1), -1);
        assert_eq!(counts, Counts::everywhere(0));
    }
}
