//! Making room: which less important pods have to go so that a pod fits, where the fewest and least important do.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use brain::facts::Pod;
use stdx::Time;
use store::Key;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::decide::Diagnosis;
use crate::filter::{Prepared, filter_with_nominated};
use crate::reason::Reason;
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
    verdict(nodes, 0, BTreeMap::new())
}

/// `tried` nodes were tried in vain, each for some of the reasons.
fn verdict(nodes: usize, tried: usize, by_reason: BTreeMap<String, usize>) -> String {
    let mut diagnosis = Diagnosis { nodes, by_reason, ..Diagnosis::default() };
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
    let (candidates, by_reason) = candidates(cache, ask, resolvable);
    let best = candidates.into_iter().min_by_key(|candidate| rank(cache, ask, candidate));
    let best = best.ok_or_else(|| verdict(cache.node_count(), resolvable.len(), by_reason))?;
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

/// Tries nodes, beginning somewhere that follows from the pod, until enough will do; and why others do not.
fn candidates(cache: &mut Cache, ask: &Ask, resolvable: &[NodeIx]) -> (Vec<Candidate>, BTreeMap<String, usize>) {
    let enough = CANDIDATES_MIN.max(cache.node_count() / 10);
    let start = crate::score::luck(ask.pod.uid(), "") as usize % resolvable.len().max(1);
    let (later, earlier) = resolvable.split_at(start.min(resolvable.len()));
    let (mut found, mut by_reason) = (Vec::new(), BTreeMap::new());
    for at in earlier.iter().chain(later) {
        match candidate(cache, ask, *at) {
            Ok(candidate) => found.push(candidate),
            Err(reasons) => reasons.into_iter().for_each(|reason| *by_reason.entry(reason).or_default() += 1),
        }
        if found.len() >= enough {
            break;
        }
    }
    (found, by_reason)
}

/// Who would have to go from one node: everybody less important leaves, then as many as possible come back, those
/// first whose leaving would break a budget, then the more important ones. The error is why that does not help.
fn candidate(cache: &mut Cache, ask: &Ask, at: NodeIx) -> Result<Candidate, Vec<String>> {
    let mut lower = less_important(cache, ask, at);
    if lower.is_empty() {
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    lower.sort_by_key(|pod| Reverse(importance(pod)));
    lower.iter().for_each(|pod| cache.detach(pod, at));
    if let Err(reasons) = fits(cache, ask, at) {
        lower.iter().for_each(|pod| cache.attach(pod, at));
        return Err(reasons.iter().map(Reason::to_string).collect());
    }
    let victims = reprieve(cache, ask, at, lower);
    victims.iter().for_each(|(_, pod)| cache.attach(pod, at));
    let breaks = victims.iter().filter(|(breaks, _)| *breaks).count();
    let mut victims: Vec<Ask> = victims.into_iter().map(|(_, pod)| pod).collect();
    victims.sort_by_key(|pod| Reverse(importance(pod)));
    if victims.is_empty() { Err(vec![NO_VICTIMS.to_owned()]) } else { Ok(Candidate { at, victims, breaks }) }
}

/// Of pods that have left, lets those come back beside which the pod still fits; the others stay away, and are
/// returned with whether that breaks a budget.
fn reprieve(cache: &mut Cache, ask: &Ask, at: NodeIx, left: Vec<Ask>) -> Vec<(bool, Ask)> {
    let breaks = cache.budgets.broken_by(left.iter());
    let (broken, others): (Vec<_>, Vec<_>) = breaks.into_iter().zip(left).partition(|(breaks, _)| *breaks);
    let mut victims = Vec::new();
    for (breaks, pod) in broken.into_iter().chain(others) {
        cache.attach(&pod, at);
        if fits(cache, ask, at).is_err() {
            cache.detach(&pod, at);
            victims.push((breaks, pod));
        }
    }
    victims
}

fn fits(cache: &mut Cache, ask: &Ask, at: NodeIx) -> Result<(), Vec<Reason>> {
    let mut reasons = Vec::new();
    let Ok(prepared) = Prepared::new(cache, ask) else { return Err(reasons) };
    let passed = filter_with_nominated(cache, &prepared, ask, at, &mut reasons);
    passed.map(|_| ()).ok_or(reasons)
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
/// fewest victims, and then whose most important victims started last. Among equals the pod's uid decides.
fn rank(cache: &Cache, ask: &Ask, candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Time>, u64) {
    let priority = |pod: &Ask| i64::from(pod.priority());
    let highest = candidate.victims.iter().map(Ask::priority).max().unwrap_or(i32::MIN);
    // Shifted so that many negative priorities are not better than few.
    let sum = candidate.victims.iter().map(|pod| priority(pod) + i64::from(i32::MAX) + 1).sum();
    let of_highest = candidate.victims.iter().filter(|pod| pod.priority() == highest);
    let earliest = of_highest.map(started).min().unwrap_or(Time::EPOCH);
    let luck = crate::score::luck(ask.pod.uid(), cache.node(candidate.at).map_or("", |node| node.name()));
    (candidate.breaks, highest, sum, candidate.victims.len(), Reverse(earliest), luck)
}
