//! A few seeds, every kept plan, whether runs repeat, and some planted mistakes, at least one for each oracle. All of
//! them are hunted by `cargo xtask sim --mutants`, which takes too long here.

use std::path::Path;

use sim::mutant::Mutant;
use sim::plan::Plan;
use sim::{How2Run, generate, hunt, rooms, run, search};

#[test]
fn seeds_keep_every_promise() {
    let campaign = search(1..11, How2Run::default(), |_, _| true);
    let failures: Vec<String> = campaign.failures.iter().map(|f| format!("seed {}: {}", f.seed, f.violation)).collect();
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!(campaign.seeds, 10);
    assert!(campaign.requests > 1_000 && campaign.revisions > 1_000, "the runs did nothing");
}

#[test]
fn kept_plans_keep_every_promise() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = std::fs::read_dir(directory).expect("the corpus");
    let mut files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let plan = Plan::parse(&std::fs::read_to_string(&file).expect("a plan")).expect("a plan");
        assert_eq!(run(&plan, How2Run::default()).violations, [], "{}", file.display());
    }
}

#[test]
fn the_same_plan_gives_the_same_transcript() {
    let plan = generate(5, &rooms());
    let how = How2Run { transcript: true, mutant: None };
    let (first, second) = (run(&plan, how), run(&plan, how));
    assert_eq!(first.lines, second.lines);
    assert_eq!(first.hash, second.hash);
    assert!(first.lines.len() > 100);
}

/// The oracle that notices a planted mistake in the plan of a seed, which is fine without it.
fn noticed(mutant: &str, seed: u64, by: &str) {
    let planted = Mutant::named(mutant).expect("a mistake of this name");
    let found = hunt(planted, seed..seed + 1).by.map(|(_, violation)| violation.to_string());
    assert!(found.as_ref().is_some_and(|text| text.starts_with(by)), "{mutant}, seed {seed}: {found:?}");
}

#[test]
fn planted_mistakes_are_noticed() {
    noticed("drop-events", 1, "E1");
    noticed("restless-status", 2, "E5");
    noticed("one-too-many", 2, "E6");
    noticed("force-delete", 1, "E6");
    noticed("collect-living", 1, "E6");
    noticed("meddle-with-spec", 1, "E7");
    noticed("no-owner", 1, "E7");
    noticed("slow-misses", 1, "store watch");
    // Noticed only because the quiet phase leaves these controllers something to do.
    noticed("deaf:cronjob", 2, "E1");
    noticed("asleep:pod-garbage-collector", 11, "E1");
    noticed("deaf:taint-eviction", 12, "E1");
}
