//! Every input that ever broke something, the seeds, and a few random inputs, without libFuzzer.

use std::path::{Path, PathBuf};

use fuzz_targets::{Dice, TARGETS, Target};

/// Broken seeds a target; all targets together stay within seconds.
const RANDOM_INPUTS: usize = 300;

fn regressions(target: &Target) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target.name);
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn run(target: &Target) {
    for path in regressions(target) {
        // Said first: what ends the process cannot be said afterwards.
        eprintln!("{}", path.display());
        (target.run)(&std::fs::read(path).expect("a file"));
    }
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has seeds", target.name);
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut dice = Dice::new(7);
    for _ in 0..RANDOM_INPUTS {
        let input = dice.broken(&seeds);
        let shown = String::from_utf8_lossy(&input).into_owned();
        let judged = std::panic::catch_unwind(|| (target.run)(&input));
        assert!(judged.is_ok(), "{} on {shown:?}", target.name);
    }
}

#[test]
fn targets_are_sorted_and_regressions_belong_to_one() {
    assert!(TARGETS.is_sorted_by(|a, b| a.name < b.name));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    for entry in std::fs::read_dir(root).expect("the directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(name.ends_with(".md") || fuzz_targets::target(&name).is_some(), "{name} is no target");
    }
}

#[test]
fn no_target_is_broken() {
    let running = TARGETS.iter().map(|target| (target.name, std::thread::spawn(|| run(target))));
    let running: Vec<_> = running.collect();
    let broken: Vec<&str> =
        running.into_iter().filter_map(|(name, thread)| thread.join().err().map(|_| name)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
