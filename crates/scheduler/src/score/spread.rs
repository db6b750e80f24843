//! Spreading where it need not be perfect: the pod's own wishes, or by default over zones and nodes the pods of one
//! controller.

use std::collections::BTreeSet;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::counts::Counts;
use crate::filter::spread_tally;
use crate::owners::ZONE;
use crate::statics::Liking;
use crate::topology::{NodeIx, TopologyIx};

use super::SCORE_MAX;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// Upstream's defaults for pods without constraints: (key, skew).
const DEFAULT_ZONE_SKEW: i64 = 5;
const DEFAULT_NODE_SKEW: i64 = 3;

/// One wish.
struct Soft<'c> {
    counts: Option<&'c Counts>,
    topology: TopologyIx,
    /// Every node is a domain of its own.
    by_node: bool,
    skew_max: i64,
}

/// The scores, one a node; `None` when there is nothing to spread by.
pub fn scores(cache: &mut Cache, ask: &Ask, nodes: &[(NodeIx, Liking)]) -> Option<Vec<i64>> {
    let own = !ask.wants.spread.is_empty();
    let tallies = tallies(cache, ask);
    let hosts = cache.topology(HOSTNAME);
    let zones = cache.topology(ZONE);
    let cache = &*cache;
    let soft: Vec<Soft<'_>> = if own {
        let soft = |(tally, topology, skew_max): (usize, TopologyIx, i64)| Soft {
            counts: cache.tally(tally),
            topology,
            by_node: topology == hosts,
            skew_max,
        };
        tallies.into_iter().map(soft).collect()
    } else {
        let counts = Some(cache.owners.of(ask.wants.owner.as_deref()?)?);
        vec![
            Soft { counts, topology: zones, by_node: false, skew_max: DEFAULT_ZONE_SKEW },
            Soft { counts, topology: hosts, by_node: true, skew_max: DEFAULT_NODE_SKEW },
        ]
    };
    (!soft.is_empty()).then(|| normal(raw(cache, &soft, nodes, own)))
}

fn tallies(cache: &mut Cache, ask: &Ask) -> Vec<(usize, TopologyIx, i64)> {
    let soft = ask.wants.spread.iter().filter(|spread| !spread.hard);
    let tally = |spread| (spread_tally(cache, ask, spread), cache.topology(&spread.topology_key), spread.skew_max);
    soft.map(tally).collect()
}

/// How crowded each node's surroundings are; `None` for nodes that lack a label.
fn raw(cache: &Cache, soft: &[Soft<'_>], nodes: &[(NodeIx, Liking)], needs_all: bool) -> Vec<Option<i64>> {
    let domain = |soft: &Soft<'_>, at: NodeIx| cache.topologies.domain(soft.topology, at);
    let is_rated = |at: NodeIx| !needs_all || soft.iter().all(|soft| domain(soft, at).is_some());
    let rated = || nodes.iter().map(|(at, _)| *at).filter(|at| is_rated(*at));
    let weight = |soft: &Soft<'_>| {
        let domains = if soft.by_node {
            rated().count()
        } else {
            rated().map(|at| domain(soft, at)).collect::<BTreeSet<_>>().len()
        };
        // Many small domains must not drown few large ones.
        ((domains + 2) as f64).ln()
    };
    let weights: Vec<f64> = soft.iter().map(weight).collect();
    let crowd = |at: NodeIx| {
        let each = soft.iter().zip(&weights).filter_map(|(soft, weight)| {
            let domain = domain(soft, at)?;
            let pods = soft.counts.map_or(0, |c| if soft.by_node { c.on_node(at) } else { c.in_domain(domain) });
            Some(f64::from(pods) * weight + (soft.skew_max - 1) as f64)
        });
        each.sum::<f64>().round() as i64
    };
    nodes.iter().map(|(at, _)| is_rated(*at).then(|| crowd(*at))).collect()
}

/// The least crowded is best; what was not rated is worst.
fn normal(raw: Vec<Option<i64>>) -> Vec<i64> {
    let rated = || raw.iter().flatten().copied();
    let (least, most) = (rated().min().unwrap_or(0), rated().max().unwrap_or(0));
    let score = |crowd: &Option<i64>| match crowd {
        None => 0,
        Some(_) if most == 0 => SCORE_MAX,
        Some(crowd) => SCORE_MAX * (most + least - crowd) / most,
    };
    raw.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_crowded_is_best() {
        assert_eq!(normal(vec![Some(2), Some(4), None]), [100, 50, 0]);
        assert_eq!(normal(vec![Some(0), Some(0)]), [100, 100]);
    }
}
