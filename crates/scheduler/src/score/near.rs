//! Preferred affinity and anti-affinity between pods, in both directions.

use std::collections::BTreeMap;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::filter::term_tally;
use crate::held::Hold;
use crate::statics::Liking;
use crate::topology::{Domain, NodeIx, TopologyIx};

use super::SCORE_MAX;

/// What being in a domain is worth.
type Worth = BTreeMap<TopologyIx, BTreeMap<Domain, i64>>;

/// The scores, one a node; `None` when nobody prefers anything.
pub fn scores(cache: &mut Cache, ask: &Ask, nodes: &[(NodeIx, Liking)]) -> Option<Vec<i64>> {
    let worth = worth(cache, ask);
    if worth.is_empty() {
        return None;
    }
    let of = |at: NodeIx| {
        let each = worth.iter().filter_map(|(topology, domains)| domains.get(&cache.topologies.domain(*topology, at)?));
        each.sum()
    };
    Some(normal(nodes.iter().map(|(at, _)| of(*at)).collect()))
}

fn worth(cache: &mut Cache, ask: &Ask) -> Worth {
    let mut worth = Worth::new();
    for (weight, term) in &ask.wants.preferred {
        let (tally, topology) = (term_tally(cache, term), cache.topology(&term.topology_key));
        let Some(counts) = cache.tally(tally) else { continue };
        counts.each_domain().for_each(|(domain, pods)| gain(&mut worth, topology, domain, weight * i64::from(pods)));
    }
    for (_, group) in cache.held.about(ask, &cache.namespaces) {
        let Hold::Weighs(weight) = group.hold else { continue };
        for (domain, pods) in group.counts.each_domain() {
            gain(&mut worth, group.counts.topology, domain, weight * i64::from(pods));
        }
    }
    worth
}

fn gain(worth: &mut Worth, topology: TopologyIx, domain: Domain, by: i64) {
    *worth.entry(topology).or_default().entry(domain).or_default() += by;
}

/// From the worst to the best.
fn normal(scores: Vec<i64>) -> Vec<i64> {
    let (worst, best) = (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0));
    let span = best - worst;
    let score =
        |score: i64| if span == 0 { 0 } else { (SCORE_MAX as f64 * (score - worst) as f64 / span as f64) as i64 };
    scores.into_iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_worst_to_the_best() {
        assert_eq!(normal(vec![-5, 0, 5]), [0, 50, 100]);
        assert_eq!(normal(vec![3, 3]), [0, 0]);
    }
}
