//! The pod security standards: `baseline` and `restricted`, at each version, as checks of one pod.

mod checks;
mod policy;

use std::collections::BTreeSet;

use serde_json::Value;

use checks::{CHECKS, Check};
pub use policy::{Level, LevelVersion, Policy, Version};

/// Why one check refuses a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In a word or two.
    pub reason: String,
    /// Who sets what; may be empty.
    pub detail: String,
}

/// Every refusal of a pod (anything with `metadata` and `spec` of one) under a standard; empty when it fits.
pub fn evaluate(standard: LevelVersion, pod: &Value) -> Vec<Refusal> {
    if standard.level == Level::Privileged {
        return Vec::new();
    }
    let minor = standard.version.minor();
    let applies = |check: &&Check| minor >= check.since && check.level <= standard.level;
    let overridden: BTreeSet<&str> = CHECKS.iter().filter(applies).filter_map(|check| check.overrides).collect();
    let wanted = CHECKS.iter().filter(applies).filter(|check| !overridden.contains(check.id));
    wanted.filter_map(|check| (check.run)(pod, minor)).collect()
}

/// `reason (detail), reason`: all refusals as one text.
pub fn details(refusals: &[Refusal]) -> String {
    let one = |refusal: &Refusal| match refusal.detail.as_str() {
        "" => refusal.reason.clone(),
        detail => format!("{} ({detail})", refusal.reason),
    };
    refusals.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The reasons alone.
pub fn reasons(refusals: &[Refusal]) -> String {
    refusals.iter().map(|refusal| refusal.reason.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
