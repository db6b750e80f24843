//! The cache's indexes against ones worked out from scratch.

use std::collections::BTreeMap;

use brain::facts::Requests;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::counts::Counts;
use crate::held::Held;
use crate::owners::{Owners, ZONE};
use crate::topology::NodeIx;

pub(crate) fn verify(cache: &Cache) -> Result<(), String> {
    let mut used: BTreeMap<NodeIx, Vec<&Ask>> = BTreeMap::new();
    let (mut held, mut owners) = (Held::default(), Owners::default());
    for (key, placed) in cache.pods() {
        if placed.at != cache.find_node(&placed.node) {
            return Err(format!("{key} is not where its node is"));
        }
        let Some(at) = placed.at else { continue };
        used.entry(at).or_default().push(&placed.ask);
        held.count(&placed.ask, at, 1, &cache.topologies);
        if let Some(zone) = cache.topologies.find(ZONE) {
            owners.count(&placed.ask, at, 1, zone, &cache.topologies);
        }
    }
    for (at, info) in cache.nodes() {
        let pods = used.remove(&at).unwrap_or_default();
        if !info.pods.iter().eq(pods.iter().map(|pod| pod.key())) {
            return Err(format!("pods of {}", info.name()));
        }
        let mut sum = Requests::default();
        pods.iter().for_each(|pod| sum.add(&pod.wants.requests));
        sum.others.retain(|_, amount| *amount != 0);
        let scored = |of: usize| pods.iter().map(|pod| pod.wants.scored[of]).sum::<i64>();
        let ports = pods.iter().map(|pod| pod.wants.ports.len()).sum::<usize>();
        if sum != info.used || [scored(0), scored(1)] != info.scored || ports != info.ports.len() {
            return Err(format!("sums of {}", info.name()));
        }
    }
    same("held terms", groups(&cache.held), groups(&held))?;
    same("owners", cache.owners.each().collect(), owners.each().collect())
}

type ByText<'c> = BTreeMap<String, &'c Counts>;

fn groups(held: &Held) -> ByText<'_> {
    held.each().map(|group| (format!("{:?} {}", group.hold, group.term.text), &group.counts)).collect()
}

fn same<K: Ord + std::fmt::Debug>(
    what: &str,
    kept: BTreeMap<K, &Counts>,
    counted: BTreeMap<K, &Counts>,
) -> Result<(), String> {
    if kept == counted { Ok(()) } else { Err(format!("{what}: {kept:?} instead of {counted:?}")) }
}
