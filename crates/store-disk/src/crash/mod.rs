//! The crash enumerator: every state in which a power loss can leave the medium, at every moment of a recorded
//! run, opened and compared with what was promised.
//!
//! For each prefix of the recorded calls, every subset of the unsynced 512-byte pieces and unsynced names is
//! either there or not (all subsets up to eight of them, beyond that a sample), each with and without the full
//! length of the files. Every such image must open; hold what was acknowledged and nothing that was not
//! submitted; be a state the store was in; not go back in revision; and give the same result when the power fails
//! again during the recovery.

mod images;
mod workload;

use std::fmt;

use crate::Mutant;

/// What an enumeration did and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Images of the medium that were checked.
    pub images: u64,
    /// Different ones among them.
    pub distinct: u64,
    /// Images of a second crash, during the recovery from a first.
    pub second_crashes: u64,
    /// Recorded runs.
    pub runs: u64,
    /// Calls in the recorded runs.
    pub calls: u64,
    /// Moments at which all subsets were tried.
    pub exhausted: u64,
    /// Moments with so much unsynced that subsets were drawn.
    pub sampled: u64,
    /// What went wrong; at most [`FAILURES_MAX`].
    pub failures: Vec<Failure>,
}

/// A broken promise, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The run.
    pub seed: u64,
    /// After how many calls the power failed.
    pub calls: usize,
    /// What was broken.
    pub what: String,
}

/// More are not needed to understand a fault.
pub const FAILURES_MAX: usize = 16;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} calls, {} moments exhausted, {} sampled",
            self.runs, self.calls, self.exhausted, self.sampled
        )?;
        writeln!(f, "{} images ({} distinct), {} second crashes", self.images, self.distinct, self.second_crashes)?;
        write!(f, "{} failures", self.failures.len())?;
        for failure in &self.failures {
            write!(f, "\n  seed {}, after {} calls: {}", failure.seed, failure.calls, failure.what)?;
        }
        Ok(())
    }
}

/// Runs from `seed` on until `budget` images were checked.
pub fn enumerate(seed: u64, budget: u64) -> Report {
    enumerate_mutant(seed, budget, None)
}

/// The same with a planted fault; a good enumerator finds it. Stops at the first failing run.
pub fn enumerate_mutant(seed: u64, budget: u64, mutant: Option<Mutant>) -> Report {
    search(seed, budget, Planted { disk: mutant, core: None })
}

/// The same with a fault planted in the heart that all engines share.
pub fn enumerate_core(seed: u64, budget: u64, mutant: Option<store::Mutant>) -> Report {
    search(seed, budget, Planted { disk: None, core: mutant })
}

/// The faults of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Planted {
    disk: Option<Mutant>,
    core: Option<store::Mutant>,
}

fn search(seed: u64, budget: u64, planted: Planted) -> Report {
    let mut report = Report::default();
    let mut next = seed;
    while report.images < budget && report.failures.is_empty() {
        one_run(next, planted, budget, &mut report);
        next = next.wrapping_add(1);
    }
    report
}

/// One recorded run and all its images.
fn one_run(seed: u64, planted: Planted, budget: u64, report: &mut Report) {
    report.runs += 1;
    match workload::run(seed, planted) {
        Ok(run) => {
            report.calls += run.calls.len() as u64;
            // Planted faults show at the first crash; the second would only take time.
            images::check(seed, &run, budget, planted.disk.is_none(), report);
        }
        Err(what) => report.failures.push(Failure { seed, calls: 0, what }),
    }
}
