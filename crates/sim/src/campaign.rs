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
    /// By controller.
    pub controllers: BTreeMap<String, Figures>,
    /// Most conflicts of one key in a quiet phase.
    pub conflicts_max: u64,
    /// What happened at least once.
    pub seen: BTreeMap<&'static str, u64>,
    /// What failed.
    pub failures: Vec<Failure>,
}

/// What a campaign says of one controller.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// For each seed in which it had something to do: how long after the faults ended anything of its was wrong last.
    pub converged_ms: Vec<u64>,
    /// Its durable writes in quiet phases.
    pub writes: u64,
    /// How often it was refused as stale in quiet phases.
    pub conflicts: u64,
}

impl Campaign {
    /// The figures of whoever writes under this name: rooms of one controller count together.
    fn of(&mut self, who: &str) -> &mut Figures {
        let name = who.split(['#', ' ']).next().unwrap_or_default();
        let name = if name.starts_with("simulated-node") { "simulated-node" } else { name };
        self.controllers.entry(name.to_owned()).or_default()
    }

    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.virtual_ms += report.virtual_ms;
        self.requests += report.requests;
        self.revisions += report.revisions;
        self.conflicts_max = self.conflicts_max.max(report.conflicts_max);
        for (controller, ms) in &report.converged_ms {
            self.of(controller).converged_ms.push(*ms);
        }
        report.writes.iter().for_each(|(who, count)| self.of(who).writes += count);
        report.conflicts.iter().for_each(|(who, count)| self.of(who).conflicts += count);
        for (what, count) in &report.seen {
            *self.seen.entry(what).or_default() += count;
        }
    }
}

/// Runs the plans of seeds. `progress` is told of every seed, with the failure if it has one, and may stop the search.
pub fn search(
    seeds: std::ops::Range<u64>,
    how: How2Run,
    mut progress: impl FnMut(u64, Option<&Failure>) -> bool,
) -> Campaign {
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
        let failure = violation.map(|violation| Failure { seed, plan, violation });
        let goes_on = progress(seed, failure.as_ref());
        campaign.failures.extend(failure);
        if !goes_on {
            break;
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
    /// How much virtual time was played for it.
    pub virtual_ms: u64,
}

/// Looks for a mistake with up to `seeds_max` seeds. A seed that fails without the mistake proves nothing.
pub fn hunt(mutant: Mutant, seeds: std::ops::Range<u64>) -> Caught {
    let rooms = crate::rooms();
    let how = How2Run { transcript: false, mutant: Some(mutant) };
    let first = seeds.start;
    let mut virtual_ms = 0;
    for seed in seeds {
        let plan = generate(seed, &rooms);
        let report = run(&plan, how);
        virtual_ms += report.virtual_ms;
        let found = report.violations.into_iter().next();
        if let Some(violation) = found
            && run(&plan, How2Run::default()).violations.is_empty()
        {
            return Caught { mutant, by: Some((seed - first + 1, violation)), virtual_ms };
        }
    }
    Caught { mutant, by: None, virtual_ms }
}
