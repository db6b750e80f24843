//! Spreading over topology domains.

use crate::ask::{Ask, Scope, Spread};
use crate::cache::Cache;
use crate::reason::Reason;
use crate::tally::{Include, Select};
use crate::topology::{NodeIx, TopologyIx};

/// A constraint that must hold, with where its pods are counted.
pub struct Hard {
    tally: usize,
    topology: TopologyIx,
    skew_max: i64,
    domains_min: usize,
    /// 1 if the pod itself is counted.
    own: i64,
}

/// The constraints that must hold.
pub fn prepare(cache: &mut Cache, ask: &Ask) -> Vec<Hard> {
    let hard = ask.wants.spread.iter().filter(|spread| spread.hard);
    let read = |spread: &Spread| Hard {
        tally: tally(cache, ask, spread),
        topology: cache.topology(&spread.topology_key),
        skew_max: spread.skew_max,
        domains_min: spread.domains_min,
        own: i64::from(spread.counts_itself),
    };
    hard.map(read).collect()
}

/// Where the pods of a constraint are counted.
pub fn tally(cache: &mut Cache, ask: &Ask, spread: &Spread) -> usize {
    cache.ensure_tally(&spread.text, &spread.topology_key, || {
        let scope = Scope { names: [ask.namespace().into()].into(), selector: None };
        let select = Select { parts: vec![(scope, spread.selector.clone())], only_living: true };
        let (honor_affinity, honor_taints) = (spread.honor_affinity, spread.honor_taints);
        let include = Include { ask: ask.clone(), honor_affinity, honor_taints, keys: spread.keys.clone() };
        (select, Some(include))
    })
}

/// The first constraint that would be broken.
pub fn filter(cache: &Cache, hard: &[Hard], at: NodeIx) -> Option<Reason> {
    hard.iter().find_map(|constraint| {
        let Some(domain) = cache.topologies.domain(constraint.topology, at) else { return Some(Reason::SpreadLabel) };
        let counts = cache.tally(constraint.tally)?;
        // Domains that are wanted but not there yet would have no pods.
        let fewest = if counts.domains() < constraint.domains_min { Some(0) } else { counts.fewest() };
        let fewest = i64::from(fewest.unwrap_or(u32::MAX));
        let skew = i64::from(counts.in_domain(domain)) + constraint.own - fewest;
        (skew > constraint.skew_max).then_some(Reason::Spread)
    })
}
