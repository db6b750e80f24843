//! Making room: which less important pods have to go so that a pod fits, where the fewest and least important do.

use std::cmp::Reverse;

use brain::facts::Pod;
use stdx::Time;
use store::Key;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::decide::Diagnosis;
use crate::filter::{Prepared, filter_with_nominated};
use crate::topology::NodeIx;

/// Why a pod whose policy forbids it makes no room.
pub const NEVER: &str = "not eligible due to preemptionPolicy=Never.";
const STILL_LEAVING: &str = "not eligible due to a terminating pod on the nominated node.";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// Why a pod is being disrupted, in its DisruptionTarget condition.
pub const DISRUPTION_REASON: &str = "PreemptionByScheduler";
/// At least so many nodes are tried (upstream's minCandidateNodesAbsolute), or a tenth of them.
const CANDIDATES_MIN: usize = 100;

/// Where room is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The node.
    pub node: Box<str>,
    /// Who has to go.
    pub victims: Vec<Key>,
}

/// One node with who would have to go there.
struct Candidate {
    at: NodeIx,
    victims: Vec<Ask>,
    breaks: usize,
}

/// Whether the pod may make room at all.
pub fn is_allowed(ask: &Ask) -> bool {
    &*ask.spec().preemption_policy != "Never"
}

/// Whether the sentence says that room is being made already.
pub fn is_waiting(message: &str) -> bool {
    message == STILL_LEAVING
}

/// The sentence for nodes none of which room can be made on.
pub fn not_helpful(nodes: usize) -> String {
    verdict(nodes, 0)
}

fn verdict(nodes: usize, tried: usize) -> String {
    let mut diagnosis = Diagnosis { nodes, ..Diagnosis::default() };
    diagnosis.count(NO_VICTIMS.to_owned(), tried);
    diagnosis.count(NOT_HELPFUL.to_owned(), nodes.saturating_sub(tried));
    diagnosis.message()
}

/// Finds room on the nodes where removing pods could help. The error is upstream's sentence. The cache is the same
/// afterwards.
pub fn preempt(cache: &mut Cache, ask: &Ask, resolvable: &[NodeIx]) -> Result<Plan, String> {
    if !is_allowed(ask) {
        return Err(NEVER.to_owned());
    }
    if waits_for_victims(cache, ask, resolvable) {
        return Err(STILL_LEAVING.to_owned());
    }
    let candidates = candidates(cache, ask, resolvable);
    let best = candidates.into_iter().min_by_key(rank);
    let best = best.ok_or_else(|| verdict(cache.node_count(), resolvable.len()))?;
    let node = cache.node(best.at).map(|node| node.name().into()).unwrap_or_default();
    Ok(Plan { node, victims: best.victims.iter().map(|victim| victim.key().clone()).collect() })
}

/// Whether pods that were asked to leave for this one are still leaving.
fn waits_for_victims(cache: &Cache, ask: &Ask, resolvable: &[NodeIx]) -> bool {
    let nominated = cache.nomination(ask.key()).and_then(|name| cache.find_node(name));
    let Some(at) = nominated.filter(|at| resolvable.contains(at)) else { return false };
    let is_leaving =
        |pod: &Ask| pod.priority() < ask.priority() && pod.pod.is_deleting() && is_disrupted(&pod.pod.facts);
    let pods = cache.node(at).into_iter().flat_map(|node| &node.pods);
    pods.filter_map(|key| cache.pod(key)).any(|placed| is_leaving(&placed.ask))
}

fn is_disrupted(pod: &Pod) -> bool {
    pod.condition("DisruptionTarget").is_some_and(|c| c.is_true() && &*c.reason == DISRUPTION_REASON)
}

/// Tries nodes, beginning somewhere that follows from the pod, until enough will do.
fn candidates(cache: &mut Cache, ask: &Ask, resolvable: &[NodeIx]) -> Vec<Candidate> {
    let enough = CANDIDATES_MIN.max(cache.node_count() / 10);
    let start = crate::score::luck(ask.pod.uid(), "") as usize % resolvable.len().max(1);
    let (later, earlier) = resolvable.split_at(start.min(resolvable.len()));
    let mut found = Vec::new();
    for at in earlier.iter().chain(later) {
        found.extend(candidate(cache, ask, *at));
        if found.len() >= enough {
            break;
        }
    }
    found
}

/// Who would have to go from one node: everybody less important leaves, then as many as possible come back, those
/// first whose leaving would break a budget, then the more important ones.
fn candidate(cache: &mut Cache, ask: &Ask, at: NodeIx) -> Option<Candidate> {
    let mut lower = less_important(cache, ask, at);
    if lower.is_empty() {
        return None;
    }
    lower.sort_by_key(|pod| Reverse(importance(pod)));
    lower.iter().for_each(|pod| cache.detach(pod, at));
    let mut victims: Vec<(bool, Ask)> = Vec::new();
    let fits = fits(cache, ask, at);
    if fits {
        let breaks = cache.budgets.broken_by(lower.iter());
        let marked: Vec<(bool, Ask)> = breaks.into_iter().zip(lower.iter().cloned()).collect();
        let (broken, others): (Vec<_>, Vec<_>) = marked.into_iter().partition(|(breaks, _)| *breaks);
        for (breaks, pod) in broken.into_iter().chain(others) {
            cache.attach(&pod, at);
            if !self::fits(cache, ask, at) {
                cache.detach(&pod, at);
                victims.push((breaks, pod));
            }
        }
    }
    let gone: Vec<&Ask> = if fits { victims.iter().map(|(_, pod)| pod).collect() } else { lower.iter().collect() };
    gone.into_iter().for_each(|pod| cache.attach(pod, at));
    let breaks = victims.iter().filter(|(breaks, _)| *breaks).count();
    let mut victims: Vec<Ask> = victims.into_iter().map(|(_, pod)| pod).collect();
    victims.sort_by_key(|pod| Reverse(importance(pod)));
    (!victims.is_empty()).then_some(Candidate { at, victims, breaks })
}

fn fits(cache: &mut Cache, ask: &Ask, at: NodeIx) -> bool {
    let Ok(prepared) = Prepared::new(cache, ask) else { return false };
    filter_with_nominated(cache, &prepared, ask, at, &mut Vec::new()).is_some()
}

fn less_important(cache: &Cache, ask: &Ask, at: NodeIx) -> Vec<Ask> {
    let pods = cache.node(at).into_iter().flat_map(|node| &node.pods);
    let placed = pods.filter_map(|key| cache.pod(key)).map(|placed| &placed.ask);
    placed.filter(|pod| pod.priority() < ask.priority()).cloned().collect()
}

/// A pod is more important with a higher priority, then the longer it runs.
fn importance(pod: &Ask) -> (i32, Reverse<Time>, Reverse<Key>) {
    (pod.priority(), Reverse(started(pod)), Reverse(pod.key().clone()))
}

fn started(pod: &Ask) -> Time {
    pod.pod.facts.status.start_time.unwrap_or(Time::from_micros(i64::MAX))
}

/// The smallest is best: fewest broken budgets, least important most important victim, smallest sum of priorities,
/// fewest victims, and then whose most important victims started last.
fn rank(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Time>, NodeIx) {
    let priority = |pod: &Ask| i64::from(pod.priority());
    let highest = candidate.victims.iter().map(Ask::priority).max().unwrap_or(i32::MIN);
    // Shifted so that many negative priorities are not better than few.
    let sum = candidate.victims.iter().map(|pod| priority(pod) + i64::from(i32::MAX) + 1).sum();
    let of_highest = candidate.victims.iter().filter(|pod| pod.priority() == highest);
    let earliest = of_highest.map(started).min().unwrap_or(Time::EPOCH);
    (candidate.breaks, highest, sum, candidate.victims.len(), Reverse(earliest), candidate.at)
}
