//! Required affinity and anti-affinity between pods, in both directions.

use std::sync::Arc;

use crate::ask::{Ask, Term};
use crate::cache::Cache;
use crate::held::Hold;
use crate::reason::Reason;
use crate::tally::Select;
use crate::topology::{NodeIx, TopologyIx};

/// A pod's terms, with where the pods they are about are counted.
pub struct Near {
    affinity: Vec<(usize, TopologyIx)>,
    /// Nobody matches the affinity yet and the pod would: the first of its kind may go anywhere.
    is_first: bool,
    anti_affinity: Vec<(usize, TopologyIx)>,
    /// Terms of placed pods that keep this one away.
    forbidding: Vec<usize>,
}

/// A pod's terms.
pub fn prepare(cache: &mut Cache, ask: &Ask) -> Near {
    let affinity = affinity_tallies(cache, ask);
    let is_nowhere = affinity.iter().all(|(tally, _)| cache.tally(*tally).is_none_or(|counts| counts.is_nowhere()));
    let own = |term: &Term| {
        term.scope.covers(ask.namespace(), cache.namespaces.get(ask.namespace())) && term.selector.matches(ask.labels())
    };
    let is_first = !affinity.is_empty() && is_nowhere && ask.wants.affinity.iter().all(own);
    let forbids = |(at, group): (usize, &crate::held::Group)| (group.hold == Hold::Forbids).then_some(at);
    let forbidding = cache.held.about(ask, &cache.namespaces).filter_map(forbids).collect();
    let mut count = |term: &Term| (term_tally(cache, term), cache.topology(&term.topology_key));
    let anti_affinity = ask.wants.anti_affinity.iter().map(&mut count).collect();
    Near { affinity, is_first, anti_affinity, forbidding }
}

/// Where the pods that one term is about are counted.
pub fn term_tally(cache: &mut Cache, term: &Term) -> usize {
    cache.ensure_tally(&term.text, &term.topology_key, || (select(std::slice::from_ref(term)), None))
}

/// Pods that match all terms, counted by the domains of each.
fn affinity_tallies(cache: &mut Cache, ask: &Ask) -> Vec<(usize, TopologyIx)> {
    let terms = &ask.wants.affinity;
    if let [term] = terms.as_slice() {
        return vec![(term_tally(cache, term), cache.topology(&term.topology_key))];
    }
    let all: String = terms.iter().map(|term| format!("{} & ", term.text)).collect();
    let count = |term: &Term| {
        let text: Arc<str> = format!("{all}{}", term.topology_key).into();
        let tally = cache.ensure_tally(&text, &term.topology_key, || (select(terms), None));
        (tally, cache.topology(&term.topology_key))
    };
    terms.iter().map(count).collect()
}

fn select(terms: &[Term]) -> Select {
    let parts = terms.iter().map(|term| (term.scope.clone(), term.selector.clone())).collect();
    Select { parts, only_living: false }
}

/// Why the node is out of the question.
pub fn filter(cache: &Cache, near: &Near, at: NodeIx) -> Option<Reason> {
    if !is_near_enough(cache, near, at) {
        return Some(Reason::PodAffinity);
    }
    if near.anti_affinity.iter().any(|(tally, topology)| has_any(cache, *tally, *topology, at)) {
        return Some(Reason::PodAntiAffinity);
    }
    let forbids = |group: &usize| {
        let Some(group) = cache.held.get(*group) else { return false };
        let domain = cache.topologies.domain(group.counts.topology, at);
        domain.is_some_and(|domain| group.counts.in_domain(domain) > 0)
    };
    near.forbidding.iter().any(forbids).then_some(Reason::ExistingAntiAffinity)
}

fn is_near_enough(cache: &Cache, near: &Near, at: NodeIx) -> bool {
    let has_label = |topology: TopologyIx| cache.topologies.domain(topology, at).is_some();
    near.affinity.iter().all(|(_, topology)| has_label(*topology))
        && (near.is_first || near.affinity.iter().all(|(tally, topology)| has_any(cache, *tally, *topology, at)))
}

fn has_any(cache: &Cache, tally: usize, topology: TopologyIx, at: NodeIx) -> bool {
    let domain = cache.topologies.domain(topology, at);
    let counts = domain.and_then(|domain| Some(cache.tally(tally)?.in_domain(domain)));
    counts.is_some_and(|pods| pods > 0)
}
