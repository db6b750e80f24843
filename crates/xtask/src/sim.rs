//! `cargo xtask sim`: the whole control plane in virtual time, seed after seed; a failing seed is shrunk and kept.

use std::path::{Path, PathBuf};

use ::sim::mutant::Mutant;
use ::sim::plan::Plan;
use ::sim::{Campaign, Failure, How2Run};
use clock::{Clock, SystemClock};

/// Failures shown and kept of one search: more have the same causes.
const FAILURES_MAX: usize = 10;
/// Characters shown of what noticed a planted mistake.
const TEXT_MAX: usize = 160;
/// Seeds after which a line says how far a campaign is.
const PROGRESS_EVERY: u64 = 250;

#[derive(clap::Args)]
pub struct Args {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed: a campaign goes on where another ended.
    #[arg(long, visible_alias = "from", default_value_t = 1)]
    seed: u64,
    /// Run this kept plan instead, and print its transcript.
    #[arg(long)]
    plan: Option<PathBuf>,
    /// See which planted mistakes are noticed within the given number of seeds.
    #[arg(long)]
    mutants: bool,
    /// Plant this mistake.
    #[arg(long)]
    mutant: Option<String>,
    /// Where failing plans and transcripts go.
    #[arg(long, default_value = "target/sim")]
    out: PathBuf,
    /// Keep failing plans as they are.
    #[arg(long)]
    no_shrink: bool,
    /// Print what the seed's plan is, and do not run it.
    #[arg(long)]
    show: bool,
}

pub fn run(args: &Args) -> Result<(), String> {
    let mutant = match &args.mutant {
        Some(name) => Some(Mutant::named(name).ok_or_else(|| unknown(name))?),
        None => None,
    };
    let how = How2Run { transcript: false, mutant };
    if args.mutants {
        return mutants(args);
    }
    if args.show {
        println!("{}", ::sim::generate(args.seed, &::sim::rooms()).to_json());
        return Ok(());
    }
    match &args.plan {
        Some(file) => replay(file, how),
        None => search(args, how),
    }
}

fn unknown(name: &str) -> String {
    let all: Vec<String> = Mutant::all().into_iter().map(Mutant::name).collect();
    format!("there is no mistake called {name}; there are {}", all.join(", "))
}

fn replay(file: &Path, how: How2Run) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
    let report = ::sim::run(&Plan::parse(&text)?, How2Run { transcript: true, ..how });
    report.lines.iter().for_each(|line| println!("{line}"));
    verdict(&report.violations.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn verdict(violations: &[String]) -> Result<(), String> {
    if violations.is_empty() { Ok(()) } else { Err(violations.join("\n")) }
}

fn search(args: &Args, how: How2Run) -> Result<(), String> {
    let clock = SystemClock::new();
    let mut found = 0;
    let range = args.seed..args.seed.saturating_add(args.seeds);
    let campaign = ::sim::search(range, how, |seed, failure| {
        if seed % PROGRESS_EVERY == 0 {
            println!("seed {seed}: {found} failures, {:.0} s", clock.monotonic().as_secs_f64());
        }
        let Some(failure) = failure else { return true };
        found += 1;
        if let Err(error) = keep(args, how, failure) {
            eprintln!("error: {error}");
        }
        found < FAILURES_MAX
    });
    show(&campaign, clock.monotonic().as_secs_f64());
    match campaign.failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} of {} seeds failed", campaign.seeds)),
    }
}

/// Shrinks a failing plan, and writes it and its transcript.
fn keep(args: &Args, how: How2Run, failure: &Failure) -> Result<(), String> {
    println!("seed {}: {}", failure.seed, failure.violation);
    println!("  replay: cargo xtask sim --seed {}", failure.seed);
    let (plan, runs) = if args.no_shrink { (failure.plan.clone(), 0) } else { ::sim::shrink(&failure.plan, how) };
    let write = |name: String, text: String| {
        let path = args.out.join(name);
        std::fs::create_dir_all(&args.out)
            .and_then(|()| std::fs::write(&path, text))
            .map(|()| path.clone())
            .map_err(|error| format!("write {}: {error}", path.display()))
    };
    let report = ::sim::run(&plan, How2Run { transcript: true, ..how });
    let kept = write(format!("seed-{}.json", failure.seed), plan.to_json())?;
    let transcript = write(format!("seed-{}.txt", failure.seed), report.lines.join("\n"))?;
    println!(
        "  plan: {} ({} of {} entries after {runs} runs)",
        kept.display(),
        plan.entries.len(),
        failure.plan.entries.len()
    );
    println!("  transcript: {}", transcript.display());
    if let Some(violation) = report.violations.first() {
        println!("  there: {violation}");
    }
    Ok(())
}

fn show(campaign: &Campaign, seconds: f64) {
    let per_second = |count: u64| count as f64 / seconds.max(0.001);
    println!(
        "{} seeds in {seconds:.1} s ({:.1} a second), {} of them twice; {:.1} virtual hours, {:.0} times real time",
        campaign.seeds,
        per_second(campaign.seeds),
        campaign.twice,
        campaign.virtual_ms as f64 / 3_600_000.0,
        per_second(campaign.virtual_ms) / 1_000.0,
    );
    println!(
        "{} requests, {} revisions looked at, at most {} conflicts of one key after the faults",
        campaign.requests, campaign.revisions, campaign.conflicts_max
    );
    show_controllers(campaign);
    let seen: Vec<String> = campaign.seen.iter().map(|(what, count)| format!("{what} {count}")).collect();
    println!("met: {}", seen.join(", "));
    println!("never met: {}", none_or(&::sim::never(&campaign.seen)));
}

fn none_or(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A line for each controller: when it had converged, and what that took.
fn show_controllers(campaign: &Campaign) {
    println!("seconds from the end of the faults until nothing was wrong any more; writes and conflicts after it:");
    println!("  {:<34} {:>6} {:>6} {:>6} {:>6} {:>7} {:>9}", "", "seeds", "p50", "p99", "max", "writes", "conflicts");
    for (name, figures) in &campaign.controllers {
        let mut times = figures.converged_ms.clone();
        times.sort_unstable();
        let at = |percent: usize| match times.len() {
            0 => "-".to_owned(),
            count => format!("{:.1}", times[(count - 1) * percent / 100] as f64 / 1_000.0),
        };
        let (p50, p99, max) = (at(50), at(99), at(100));
        let (writes, conflicts) = (figures.writes, figures.conflicts);
        println!("  {name:<34} {:>6} {p50:>6} {p99:>6} {max:>6} {writes:>7} {conflicts:>9}", times.len());
    }
    println!("not measured, for want of a rule: {}", none_or(&::sim::unmeasured()));
}

fn mutants(args: &Args) -> Result<(), String> {
    let seeds = args.seeds.max(100);
    let all = Mutant::all();
    let (mut caught, mut seeds_total, clock) = (0, 0, SystemClock::new());
    for mutant in &all {
        let began = clock.monotonic().as_secs_f64();
        let result = ::sim::hunt(*mutant, args.seed..args.seed + seeds);
        let (name, seconds) = (mutant.name(), clock.monotonic().as_secs_f64() - began);
        seeds_total += result.by.as_ref().map_or(seeds, |(count, _)| *count);
        match &result.by {
            Some((count, violation)) => {
                caught += 1;
                let text: String = violation.to_string().chars().take(TEXT_MAX).collect();
                println!("caught  {name:<40} {count:>4} seeds {seconds:>7.1} s: {text}");
            }
            None => println!("missed  {name:<40} {seeds:>4} seeds {seconds:>7.1} s"),
        }
    }
    let seconds = clock.monotonic().as_secs_f64();
    println!("{caught} of {} mistakes noticed, {seeds_total} seeds, {seconds:.0} s", all.len());
    if caught == all.len() { Ok(()) } else { Err("a planted mistake was not noticed".to_owned()) }
}
