//! Every planted mistake of this engine is noticed: by the crash enumerator, by the suite, or by a case of its own.
//! `cargo test -p store-disk mutants -- --nocapture` prints the table that docs/design/storage.md shows.

use store::Limits;
use store::suite::{self, Rig};

use super::crash::told_of_a_wrong_length;
use super::durable::{after_a_start_that_failed, after_trouble};
use super::suite::OnMedium;
use crate::Mutant;
use crate::crash::{Report, enumerate_mutant};
use crate::vfs::Trouble;

/// No mutant that the enumerator can find needs more, from the run that it is given.
const IMAGES_MAX: u64 = 300_000;

fn told(mutant: &dyn std::fmt::Debug, by: &str, cases: &str, said: &str) {
    println!("| {mutant:?} | {by} | {cases} | {said} |");
}

fn must_be_found(mutant: &dyn std::fmt::Debug, report: &Report) {
    let said = report.failures.first().map(|failure| failure.what.split(" (subset").next().unwrap_or_default());
    assert!(said.is_some(), "{mutant:?} was not found: {report}");
    let cases = format!("{} images of {} runs", report.images, report.runs);
    told(mutant, "crash enumerator", &cases, said.unwrap_or_default());
}

#[test]
fn the_enumerator_finds_what_power_loss_shows() {
    // Each with a run that shows it soon; from another one it only takes longer.
    for (mutant, seed) in [
        (Mutant::SkipSync, 1),
        (Mutant::SkipDirSync, 125),
        (Mutant::AckBeforeSync, 79),
        (Mutant::RetrySync, 79),
        (Mutant::CheckpointBeforeSync, 110),
        (Mutant::CheckpointUnsynced, 1),
        (Mutant::CheckpointReserve, 1),
        (Mutant::ForgetReserve, 1),
        (Mutant::RollEarly, 1),
    ] {
        must_be_found(&mutant, &enumerate_mutant(seed, IMAGES_MAX, Some(mutant)));
    }
}

#[test]
fn the_suite_finds_what_a_restart_shows() {
    let mutant = Mutant::ForgetReserve;
    let make = |limits| Box::new(OnMedium::with(limits, |options| options.mutant = Some(mutant))) as Box<dyn Rig>;
    let caught = suite::hunt(&make, 0..20);
    assert!(caught.is_caught(), "{mutant:?} was not noticed");
    println!("| {mutant:?} | suite: {caught} |");
}

/// Several transactions wait at a time in this engine, so it finds what the engine in memory cannot show.
#[test]
fn what_waits_is_what_the_next_is_compared_with() {
    let limits = Limits { mutant: Some(store::Mutant::StalePreconditions), ..Limits::default() };
    let report = crate::crash::enumerate_core(1, IMAGES_MAX, limits.mutant);
    must_be_found(&store::Mutant::StalePreconditions, &report);
}

/// The other checksums stand behind this one, so the mutant is told by what is said, not by what is lost.
#[test]
fn a_length_is_never_believed_unchecked() {
    let right = "the header of a frame is not whole";
    assert_eq!(told_of_a_wrong_length(None), right);
    let wrong = told_of_a_wrong_length(Some(Mutant::LengthUnchecked));
    assert_ne!(wrong, right, "the mutant was not found");
    told(&Mutant::LengthUnchecked, "a shortened length", "1", &wrong);
}

/// These need two processes and then a power loss, which the enumerator does not do.
#[test]
fn what_only_memory_has_is_never_built_upon() {
    let failed_sync = Trouble { sync_fails_in: Some(1), ..Trouble::default() };
    let (shown, found) = after_trouble(failed_sync, Some(Mutant::KeepUnsynced));
    assert_ne!(found.ok(), Some(shown), "the mutant was not found");
    told(&Mutant::KeepUnsynced, "a failed sync, a second process, a power loss", "1", "what was shown is gone");
    let (shown, found) = after_a_start_that_failed(Some(Mutant::TrustCache));
    assert_ne!(found.ok(), Some(shown), "the mutant was not found");
    told(&Mutant::TrustCache, "a failed start, a third process, a power loss", "1", "what was shown is gone");
}
