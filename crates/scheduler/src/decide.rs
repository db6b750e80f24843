//! The decision about one pod: a node, or why there is none.

use std::collections::BTreeMap;

use store::Key;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::filter::{Hopeless, Prepared, filter_with_nominated, named_nodes};
use crate::preempt;
use crate::reason::{Plugin, Plugins, Reason};
use crate::score;
use crate::statics::Liking;
use crate::topology::NodeIx;
use crate::volumes::Prepare;

/// Up to so many nodes every one is looked at (upstream's minFeasibleNodesToFind).
const FEASIBLE_MIN: usize = 100;
/// The smallest share of a large cluster that is looked at, in percent.
const PERCENT_MIN: usize = 5;

/// What is to be done with a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Its scheduling gates must be lifted first.
    Gated,
    /// It goes to this node.
    Bind {
        /// The node's name.
        node: Box<str>,
        /// What has to be done about its volumes first.
        prepare: Vec<Prepare>,
    },
    /// It goes nowhere yet, but it will when these pods have left.
    Preempt {
        /// Where it will go.
        node: Box<str>,
        /// The pods that make room, least important last.
        victims: Vec<Key>,
        /// Why it goes nowhere yet.
        diagnosis: Diagnosis,
    },
    /// It goes nowhere.
    Unschedulable(Diagnosis),
}

/// Why a pod goes nowhere, by class of node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// What no node can change, e.g. a claim that is not there.
    pub hopeless: Option<String>,
    /// On how many nodes each reason holds. A node may have several.
    pub by_reason: BTreeMap<String, usize>,
    /// Who objected: their events can help.
    pub plugins: Plugins,
    /// Why making room does not help.
    pub preemption: Option<String>,
}

impl Diagnosis {
    /// Upstream's sentence: `0/3 nodes are available: 1 Insufficient cpu, ... . preemption: ...`.
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut message = format!("0/{} nodes are available:", self.nodes);
        let reasons = self.hopeless.clone().unwrap_or_else(|| histogram(&self.by_reason));
        if !reasons.is_empty() {
            message.push_str(&format!(" {reasons}."));
        }
        if let Some(preemption) = &self.preemption {
            message.push_str(&format!(" preemption: {preemption}"));
        }
        message
    }

    pub(crate) fn count(&mut self, reason: String, nodes: usize) {
        if nodes > 0 {
            *self.by_reason.entry(reason).or_default() += nodes;
        }
    }
}

/// `1 Insufficient cpu, 2 Too many pods`, sorted as text as upstream does.
fn histogram(by_reason: &BTreeMap<String, usize>) -> String {
    let mut reasons: Vec<String> = by_reason.iter().map(|(reason, nodes)| format!("{nodes} {reason}")).collect();
    reasons.sort();
    reasons.join(", ")
}

/// Nodes that were looked at.
#[derive(Default)]
struct Search {
    feasible: Vec<(NodeIx, Liking)>,
    reasons: BTreeMap<Reason, usize>,
    /// How many nodes were rejected.
    rejected: usize,
    /// Those where removing pods could help.
    resolvable: Vec<NodeIx>,
}

/// Decides where a pod goes. The cache is the same afterwards, but for questions that are now answered and for
/// where the next search begins.
pub fn decide(cache: &mut Cache, ask: &Ask) -> Verdict {
    if !ask.spec().scheduling_gates.is_empty() {
        return Verdict::Gated;
    }
    let nodes = cache.node_count();
    if nodes == 0 {
        let plugins = Plugins::ALL;
        return Verdict::Unschedulable(Diagnosis { plugins, ..Diagnosis::default() });
    }
    let prepared = match Prepared::new(cache, ask) {
        Ok(prepared) => prepared,
        Err(hopeless) => return give_up(nodes, ask, hopeless),
    };
    let search = search(cache, &prepared, ask);
    match score::best(cache, &prepared, ask, &search.feasible) {
        Some(at) => bind(cache, &prepared, at),
        None => make_room(cache, ask, search),
    }
}

fn bind(cache: &Cache, prepared: &Prepared, at: NodeIx) -> Verdict {
    let (mut name, mut prepare) = (Box::from(""), Vec::new());
    if let Some(node) = cache.node(at) {
        name = node.name().into();
        prepare = if prepared.has_needs() { prepared.volumes_on(node) } else { Vec::new() };
    }
    Verdict::Bind { node: name, prepare }
}

fn give_up(nodes: usize, ask: &Ask, hopeless: Hopeless) -> Verdict {
    let mut plugins = Plugins::default();
    plugins.insert(hopeless.plugin);
    let mut diagnosis = Diagnosis { nodes, hopeless: Some(hopeless.message), plugins, ..Diagnosis::default() };
    diagnosis.preemption = Some(match preempt::is_allowed(ask) {
        true => preempt::not_helpful(nodes),
        false => preempt::NEVER.to_owned(),
    });
    Verdict::Unschedulable(diagnosis)
}

fn search(cache: &mut Cache, prepared: &Prepared, ask: &Ask) -> Search {
    let mut search = Search::default();
    if let Some(names) = &ask.wants.named_nodes {
        for at in named_nodes(cache, names) {
            search.look(cache, prepared, ask, at);
        }
        return search;
    }
    // Room was made for it there: if it is enough, the other nodes need no look.
    if let Some(at) = cache.nomination(ask.key()).and_then(|node| cache.find_node(node)) {
        search.look(cache, prepared, ask, at);
        if !search.feasible.is_empty() {
            return search;
        }
        search = Search::default();
    }
    search.look_around(cache, prepared, ask);
    search
}

impl Search {
    fn look_around(&mut self, cache: &mut Cache, prepared: &Prepared, ask: &Ask) {
        let (bound, enough) = (cache.node_bound(), feasible_enough(cache.node_count()));
        let (start, stride) = (cache.next_start % bound.max(1), stride(bound));
        let mut at = start;
        for _ in 0..bound {
            let is_there = cache.node(at as NodeIx).is_some();
            if is_there {
                self.look(cache, prepared, ask, at as NodeIx);
            }
            at = (at + stride) % bound;
            if self.feasible.len() >= enough {
                break;
            }
        }
        cache.next_start = at;
    }

    fn look(&mut self, cache: &mut Cache, prepared: &Prepared, ask: &Ask, at: NodeIx) {
        let mut reasons = Vec::new();
        if let Some(liking) = filter_with_nominated(cache, prepared, ask, at, &mut reasons) {
            self.feasible.push((at, liking));
            return;
        }
        self.rejected += 1;
        if reasons.iter().all(Reason::is_resolvable) {
            self.resolvable.push(at);
        }
        for reason in reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }
}

/// How many nodes that will do are enough: all of a small cluster, a smaller share the larger it is.
fn feasible_enough(nodes: usize) -> usize {
    if nodes < FEASIBLE_MIN {
        return nodes.max(1);
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(PERCENT_MIN);
    (nodes * percent / 100).max(FEASIBLE_MIN)
}

/// A step that visits every place once and neighbours far apart: nodes that came together are often of one zone,
/// and a sample is to have something of all.
fn stride(places: usize) -> usize {
    let golden = (places as f64 * 0.618) as usize;
    (golden.max(1)..).find(|step| gcd(*step, places) == 1).unwrap_or(1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn make_room(cache: &mut Cache, ask: &Ask, search: Search) -> Verdict {
    let nodes = cache.node_count();
    let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
    for (reason, count) in &search.reasons {
        diagnosis.plugins.insert(reason.plugin());
        diagnosis.count(reason.to_string(), *count);
    }
    if ask.wants.named_nodes.is_some() {
        diagnosis.plugins.insert(Plugin::NodeAffinity);
        let others = nodes.saturating_sub(search.rejected);
        diagnosis.count("node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned(), others);
    }
    match preempt::preempt(cache, ask, &search.resolvable) {
        Ok(preempt::Plan { node, victims }) => Verdict::Preempt { node, victims, diagnosis },
        Err(message) => {
            diagnosis.preemption = Some(message);
            Verdict::Unschedulable(diagnosis)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_shrinks_as_the_cluster_grows() {
        for (nodes, expected) in [(1, 1), (99, 99), (100, 100), (1_000, 420), (5_000, 500), (10_000, 500)] {
            assert_eq!(feasible_enough(nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn a_stride_visits_every_place() {
        for places in [1, 2, 3, 10, 97, 5_000] {
            let step = stride(places);
            let visited: std::collections::BTreeSet<usize> = (0..places).map(|i| i * step % places).collect();
            assert_eq!(visited.len(), places);
        }
    }

    #[test]
    fn messages_are_upstreams() {
        let by_reason = BTreeMap::from([
            ("node(s) had untolerated taint {key: value}".to_owned(), 2),
            ("Insufficient cpu".to_owned(), 1),
        ]);
        let preemption = "0/3 nodes are available: 3 No preemption victims found for incoming pod.";
        let preemption = Some(preemption.to_owned());
        let diagnosis = Diagnosis { nodes: 3, by_reason, preemption, ..Diagnosis::default() };
        assert_eq!(
            diagnosis.message(),
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {key: value}. \
             preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
        );
        assert_eq!(Diagnosis::default().message(), "no nodes available to schedule pods");
    }
}
