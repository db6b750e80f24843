//! Which of the nodes that will do is best: upstream's plugins with upstream's weights.

mod near;
mod resources;
mod spread;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::filter::Prepared;
use crate::statics::Liking;
use crate::topology::NodeIx;

/// The best score of one plugin.
const SCORE_MAX: i64 = 100;
const TAINT_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// The best node; among equals the pod's uid decides, so that the same question has the same answer and different
/// pods go different ways.
pub fn best(cache: &mut Cache, _prepared: &Prepared, ask: &Ask, nodes: &[(NodeIx, Liking)]) -> Option<NodeIx> {
    if let [(only, _)] = nodes {
        return Some(*only);
    }
    let totals = totals(cache, ask, nodes);
    let best = *totals.iter().max()?;
    let equals = nodes.iter().zip(totals).filter(|(_, total)| *total == best).map(|((at, _), _)| *at);
    let luck = |at: &NodeIx| (luck(ask.pod.uid(), cache.node(*at).map_or("", |node| node.name())), *at);
    equals.max_by_key(luck)
}

/// The weighted sums, one a node.
fn totals(cache: &mut Cache, ask: &Ask, nodes: &[(NodeIx, Liking)]) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    add(&mut totals, TAINT_WEIGHT, reversed(nodes.iter().map(|(_, liking)| liking.intolerable).collect()));
    add(&mut totals, NODE_AFFINITY_WEIGHT, normal(nodes.iter().map(|(_, liking)| liking.affinity).collect()));
    resources::add_scores(cache, ask, nodes, &mut totals);
    if let Some(scores) = spread::scores(cache, ask, nodes) {
        add(&mut totals, SPREAD_WEIGHT, scores);
    }
    if let Some(scores) = near::scores(cache, ask, nodes) {
        add(&mut totals, POD_AFFINITY_WEIGHT, scores);
    }
    totals
}

fn add(totals: &mut [i64], weight: i64, scores: Vec<i64>) {
    totals.iter_mut().zip(scores).for_each(|(total, score)| *total += weight * score);
}

/// In proportion to the largest, which gets [`SCORE_MAX`]; all zero when the largest is.
fn normal(mut scores: Vec<i64>) -> Vec<i64> {
    let most = scores.iter().copied().max().unwrap_or(0);
    scores.iter_mut().for_each(|score| *score = if most == 0 { 0 } else { *score * SCORE_MAX / most });
    scores
}

/// The other way round: the smallest is best.
fn reversed(scores: Vec<i64>) -> Vec<i64> {
    normal(scores).into_iter().map(|score| SCORE_MAX - score).collect()
}

/// A number that follows from two texts and looks random.
pub(crate) fn luck(a: &str, b: &str) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in a.bytes().chain([0xff]).chain(b.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_scaled() {
        assert_eq!(normal(vec![1, 2, 4]), [25, 50, 100]);
        assert_eq!(normal(vec![0, 0]), [0, 0]);
        assert_eq!(reversed(vec![0, 2]), [100, 0]);
        assert_eq!(reversed(vec![0, 0]), [100, 100]);
    }
}
