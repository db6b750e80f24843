//! From a plan that fails to a small one that fails the same way (delta debugging).

use crate::plan::{Entry, Fate, Plan};
use crate::world::{How2Run, run};

/// Runs after which the smallest plan so far is good enough.
pub const RUNS_MAX: usize = 400;

/// The smallest plan found that breaks the same rule, and how many runs it took.
pub fn shrink(plan: &Plan, how: How2Run) -> (Plan, usize) {
    shrink_within(plan, how, RUNS_MAX)
}

/// The same in at most about `runs_max` runs.
pub fn shrink_within(plan: &Plan, how: How2Run, runs_max: usize) -> (Plan, usize) {
    let how = How2Run { transcript: false, ..how };
    let Some(rule) = run(plan, how).violations.first().map(|violation| violation.rule) else {
        return (plan.clone(), 1);
    };
    let mut shrinking = Shrinking { how, rule, runs: 1, runs_max };
    let mut best = plan.clone();
    shrinking.entries(&mut best);
    shrinking.rest(&mut best);
    (best, shrinking.runs)
}

struct Shrinking {
    how: How2Run,
    rule: &'static str,
    runs: usize,
    runs_max: usize,
}

impl Shrinking {
    fn fails(&mut self, plan: &Plan) -> bool {
        self.runs += 1;
        run(plan, self.how).violations.first().is_some_and(|violation| violation.rule == self.rule)
    }

    /// Takes away as many entries as can go: halves first, then smaller pieces.
    fn entries(&mut self, best: &mut Plan) {
        let mut pieces = 2;
        while best.entries.len() >= 2 && self.runs < self.runs_max {
            let size = best.entries.len().div_ceil(pieces);
            let without = |at: usize| -> Vec<Entry> {
                let keep = |(index, entry): (usize, &Entry)| (index / size != at).then(|| entry.clone());
                best.entries.iter().enumerate().filter_map(keep).collect()
            };
            let smaller = (0..best.entries.len().div_ceil(size)).map(without);
            let candidates: Vec<Plan> = smaller.map(|entries| Plan { entries, ..best.clone() }).collect();
            match candidates.into_iter().find(|candidate| self.runs < self.runs_max && self.fails(candidate)) {
                Some(found) => {
                    *best = found;
                    pieces = (pieces - 1).max(2);
                }
                None if size == 1 => break,
                None => pieces = (pieces * 2).min(best.entries.len()),
            }
        }
    }

    /// A quiet phase that begins earlier, fewer nodes, a simpler store, one process.
    fn rest(&mut self, best: &mut Plan) {
        let last = best.entries.last().map_or(0, |entry| entry.at_ms);
        let simpler: [fn(&mut Plan, u64); 5] = [
            |plan, last| plan.quiet_at_ms = plan.quiet_at_ms.min(last + 30_000),
            |plan, _| plan.last_node = Fate::Stays,
            |plan, _| plan.nodes = if plan.last_node == Fate::Stays { 1 } else { plan.nodes.min(2) },
            |plan, _| plan.medium = crate::plan::Medium::Memory,
            |plan, _| plan.apart = false,
        ];
        for change in simpler {
            let mut candidate = best.clone();
            change(&mut candidate, last);
            if candidate != *best && self.fails(&candidate) {
                *best = candidate;
            }
        }
    }
}
