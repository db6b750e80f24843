//! Many seeds, and what they say together.

use std::collections::BTreeMap;

use crate::generate::generate;
use crate::mutant::Mutant;
use crate::plan::Plan;
use crate::report::{Report, Violation};
use crate::world::{How2Run, run};

/// One seed in so many is run twice, to see whether it does the same.
const TWICE_EVERY: u64 = 100;

/// A plan that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Its plan.
    pub plan: Plan,
    /// What was wrong first.
    pub violation: Violation,
}

/// What many seeds say together.
#[derive(Clone, Debug, Default)]
pub struct Campaign {
    /// How many were run.
    pub seeds: u64,
    /// How many of them twice.
    pub twice: u64,
    /// Virtual time, all together.
    pub virtual_ms: u64,
    /// Requests answered.
    pub requests: u64,
    /// Revisions looked at.
    pub revisions: u64,
    /// By kind: how long after the faults ended each seed saw it wrong last.
    pub converged_ms: BTreeMap<&'static str, Vec<u64>>,
    /// Most conflicts of one key in a quiet phase.
    pub conflicts_max: u64,
    /// What happened at least once.
    pub seen: BTreeMap<&'static str, u64>,
    /// What failed.
    pub failures: Vec<Failure>,
}

impl Campaign {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.virtual_ms += report.virtual_ms;
        self.requests += report.requests;
        self.revisions += report.revisions;
        self.conflicts_max = self.conflicts_max.max(report.conflicts_max);
        for (kind, ms) in &report.converged_ms {
            self.converged_ms.entry(kind).or_default().push(*ms);
        }
        for (what, count) in &report.seen {
            *self.seen.entry(what).or_default() += count;
        }
    }
}

/// Runs the plans of seeds. `progress` is told of every failure as it is found, and may stop the search.
pub fn search(seeds: std::ops::Range<u64>, how: How2Run, mut progress: impl FnMut(&Failure) -> bool) -> Campaign {
    let rooms = crate::rooms();
    let mut campaign = Campaign::default();
    for seed in seeds {
        let plan = generate(seed, &rooms);
        let report = run(&plan, how);
        campaign.add(&report);
        let mut violation = report.violations.first().cloned();
        if seed % TWICE_EVERY == 0 {
            campaign.twice += 1;
            if run(&plan, how).hash != report.hash {
                let text = "the same plan gave two transcripts".to_owned();
                violation = Some(Violation { oracle: "law", rule: "determinism", at_ms: 0, text });
            }
        }
        if let Some(violation) = violation {
            let failure = Failure { seed, plan, violation };
            let goes_on = progress(&failure);
            campaign.failures.push(failure);
            if !goes_on {
                break;
            }
        }
    }
    campaign
}

/// Whether a mistake was noticed.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The mistake.
    pub mutant: Mutant,
    /// How many seeds it took, and what was noticed; `None`: not in the seeds given.
    pub by: Option<(u64, Violation)>,
}

/// Looks for a mistake with up to `seeds_max` seeds. A seed that fails without the mistake proves nothing.
pub fn hunt(mutant: Mutant, seeds: std::ops::Range<u64>) -> Caught {
    let rooms = crate::rooms();
    let how = How2Run { transcript: false, mutant: Some(mutant) };
    let first = seeds.start;
    for seed in seeds {
        let plan = generate(seed, &rooms);
        let found = run(&plan, how).violations.into_iter().next();
        if let Some(violation) = found
            && run(&plan, How2Run::default()).violations.is_empty()
        {
            return Caught { mutant, by: Some((seed - first + 1, violation)) };
        }
    }
    Caught { mutant, by: None }
}
