//! The update: a few nodes at a time, with the old pod gone first or, with a surge, after the new one.

use brain::facts::{Pod, Seen};
use meta::int_or_string::scaled_value;
use serde_json::Value;

use super::act::Turn;
use super::facts::{Desired, Observed, Strategy};

/// The limits as numbers of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub max_surge: i64,
    pub max_unavailable: i64,
}

impl Limits {
    /// For the nodes that the daemon is meant for. Both zero would stand still: then one node may be without.
    pub fn of(desired: &Desired, observed: &Observed) -> Limits {
        let Strategy::Rolling { max_surge, max_unavailable } = &desired.strategy else { return Limits::default() };
        let nodes = observed.nodes.iter().filter(|node| node.verdict.runs).count();
        let scaled = |limit: &Value| scaled_value(limit, i64::try_from(nodes).unwrap_or(i64::MAX), true).unwrap_or(0);
        let (max_surge, max_unavailable) = (scaled(max_surge).max(0), scaled(max_unavailable).max(0));
        let max_unavailable = if max_surge == 0 && max_unavailable == 0 { 1 } else { max_unavailable };
        Limits { max_surge, max_unavailable }
    }
}

/// The pods of one node that are not on their way out.
struct Pair<'a> {
    new: Option<&'a Seen<Pod>>,
    old: Option<&'a Seen<Pod>>,
}

/// Goes on with the update.
pub(super) fn roll(turn: &mut Turn<'_>) {
    if turn.limits.max_surge == 0 { roll_in_place(turn) } else { roll_with_surge(turn) }
}

/// Every node that has, or should have, a pod; `None` where there are several of one template, which the placing
/// clears up first.
fn pairs<'a>(turn: &Turn<'a>) -> Vec<(&'a str, Option<Pair<'a>>)> {
    let wanted = turn.observed.nodes.iter().filter(|node| node.verdict.runs).map(|node| &*node.name);
    let mut nodes: Vec<&'a str> = wanted.chain(turn.by_node.keys().copied()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into_iter().map(|node| (node, pair(turn, node))).collect()
}

fn pair<'a>(turn: &Turn<'a>, node: &str) -> Option<Pair<'a>> {
    let mut pair = Pair { new: None, old: None };
    for pod in turn.on(node).iter().filter(|pod| !pod.is_deleting()) {
        let slot = if turn.is_updated(pod) { &mut pair.new } else { &mut pair.old };
        if slot.replace(pod).is_some() {
            return None;
        }
    }
    Some(pair)
}

/// Old pods that are not available go at once: they cost nothing. Others go as far as the limit lets.
fn roll_in_place(turn: &mut Turn<'_>) {
    let mut unavailable = 0;
    let mut candidates = Vec::new();
    let mut replaced = Vec::new();
    for (_, pair) in pairs(turn) {
        match pair {
            Some(Pair { new: Some(new), .. }) => unavailable += i64::from(!turn.is_available(new)),
            Some(Pair { new: None, old: Some(old) }) if turn.is_available(old) => candidates.push(old),
            Some(Pair { new: None, old: Some(old) }) => {
                unavailable += 1;
                replaced.push(old);
            }
            _ => unavailable += 1,
        }
    }
    let room = usize::try_from(turn.limits.max_unavailable - unavailable).unwrap_or(0);
    replaced.into_iter().chain(candidates.into_iter().take(room)).for_each(|pod| turn.delete(pod));
}

/// A node whose old pod is not available gets its new one at once, others as far as the limit lets. An old pod goes
/// when it does no good any more or the new one does.
fn roll_with_surge(turn: &mut Turn<'_>) {
    let mut surging = 0;
    let mut candidates = Vec::new();
    let mut replaced = Vec::new();
    let mut over = Vec::new();
    for (node, pair) in pairs(turn) {
        match pair {
            None => surging += 1,
            Some(Pair { old: None, .. }) => {}
            Some(Pair { new: None, old: Some(old) }) if turn.is_available(old) => candidates.push(node),
            Some(Pair { new: None, .. }) => replaced.push(node),
            Some(Pair { new: Some(new), old: Some(old) }) => {
                if turn.is_available(old) && !turn.is_available(new) {
                    surging += 1;
                } else {
                    over.push(old);
                }
            }
        }
    }
    let room = usize::try_from(turn.limits.max_surge - surging).unwrap_or(0);
    over.into_iter().for_each(|pod| turn.delete(pod));
    let meant = |node: &&str| turn.observed.nodes.iter().any(|seen| seen.name == **node && seen.verdict.runs);
    let fresh: Vec<&str> =
        replaced.into_iter().filter(meant).chain(candidates.into_iter().filter(meant).take(room)).collect();
    turn.create.extend(fresh);
}
