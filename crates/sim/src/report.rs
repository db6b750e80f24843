//! What came of a run.

use std::collections::BTreeMap;

use crate::dice::fnv;

/// Something that must not happen, and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which oracle says so: `E1` to `E7`, `store`, `law`.
    pub oracle: &'static str,
    /// The rule, in a word: shrinking looks for the same one.
    pub rule: &'static str,
    /// When, from the beginning.
    pub at_ms: u64,
    /// What.
    pub text: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.at_ms as f64 / 1_000.0;
        write!(f, "{} {} at {seconds:.3} s: {}", self.oracle, self.rule, self.text)
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of everything that happened: two runs of one plan have the same.
    pub hash: u64,
    /// What happened, a line each, if asked for.
    pub lines: Vec<String>,
    /// What must not have happened.
    pub violations: Vec<Violation>,
    /// By controller that had something to do: when the last of its objects was wrong last, from the beginning of the
    /// quiet phase.
    pub converged_ms: BTreeMap<&'static str, u64>,
    /// How much virtual time passed.
    pub virtual_ms: u64,
    /// How many requests were answered.
    pub requests: u64,
    /// How many revisions were looked at.
    pub revisions: u64,
    /// Most conflicts of one key in the quiet phase.
    pub conflicts_max: u64,
    /// Durable writes in the quiet phase, by author.
    pub writes: BTreeMap<String, u64>,
    /// Refusals as stale in the quiet phase, by author.
    pub conflicts: BTreeMap<String, u64>,
    /// What happened at least once: faults that really struck, paths that were really taken.
    pub seen: BTreeMap<&'static str, u64>,
}

/// Takes down what happens.
pub struct Transcript {
    hash: u64,
    keep: bool,
    lines: Vec<String>,
}

/// Longest transcript kept: a run has some ten thousand lines.
const LINES_MAX: usize = 400_000;

impl Transcript {
    /// An empty one; `keep` says whether lines are kept or only hashed.
    pub fn new(keep: bool) -> Transcript {
        Transcript { hash: 0xcbf2_9ce4_8422_2325, keep, lines: Vec::new() }
    }

    /// Takes down a line.
    pub fn line(&mut self, at_micros: u64, who: &str, text: &str) {
        for part in [&at_micros.to_le_bytes()[..], who.as_bytes(), text.as_bytes()] {
            self.hash = fnv(self.hash, part);
        }
        if self.keep && self.lines.len() < LINES_MAX {
            self.lines.push(format!("{:>11.6} {who:<28} {text}", at_micros as f64 / 1e6));
        }
    }

    /// Hash and lines.
    pub fn finish(self) -> (u64, Vec<String>) {
        (self.hash, self.lines)
    }
}
