//! `cargo xtask fuzz`: builds the fuzzing program with coverage counters on stable Rust and runs its targets.
//!
//! A finding is written to `fuzz/regressions/TARGET/`, where the ordinary tests replay it until it is mended and ever
//! after. What was learnt (the corpus) stays in the target directory and is started from the next time.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo fuzz` passes, without the address sanitizer, which only nightly has and safe code hardly needs.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
    "-Clink-dead-code",
    // One unit is slower to build and no faster to run; many split what the counters are inlined into.
    "-Ccodegen-units=4",
];
/// Named, so that the flags do not reach build scripts, which have no counters' runtime.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Longest input: long enough for two objects, short enough for thousands a second.
const INPUT_BYTES_MAX: usize = 8_192;
/// An input that takes longer (on a busy machine) is a finding.
const INPUT_SECONDS_MAX: u32 = 10;
/// A process or one allocation beyond this is a finding.
const MEMORY_MB_MAX: u32 = 1_024;
const ALLOCATION_MB_MAX: u32 = 256;
/// The stack of a server's worker thread, in KiB: recursion that is fine on a big stack is not on theirs.
const STACK_KB: u32 = 2_048;

/// Which targets, and how long.
#[derive(clap::Args)]
pub struct Args {
    /// The target; all in turn when left out.
    target: Option<String>,
    /// How long each runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Only names the targets.
    #[arg(long)]
    list: bool,
}

/// Runs the chore.
pub fn run(args: &Args) -> Result<(), String> {
    let all = || fuzz_targets::TARGETS.iter().map(|target| target.name);
    if args.list {
        all().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let names: Vec<&str> = match &args.target {
        Some(name) => vec![fuzz_targets::target(name).ok_or_else(|| format!("no target {name}; see --list"))?.name],
        None => all().collect(),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = build(&root)?;
    let mut broken = Vec::new();
    for name in names {
        if !fuzz(&root, &program, name, args.seconds)? {
            broken.push(name);
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("findings, see fuzz/regressions: {}", broken.join(", "))) }
}

fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("fuzz")
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let directory = target_dir(root);
    let status = Command::new("cargo")
        .args(["build", "--release", "--locked", "--target", TRIPLE, "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &directory)
        .env("RUSTFLAGS", FLAGS.join(" "))
        .status();
    let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err("the fuzzing program does not build".to_owned());
    }
    Ok(directory.join(TRIPLE).join("release/fuzz"))
}

/// Runs one target; whether it found nothing.
fn fuzz(root: &Path, program: &Path, name: &str, seconds: u64) -> Result<bool, String> {
    let made = |path: PathBuf| std::fs::create_dir_all(&path).map(|()| path).map_err(|error| error.to_string());
    let corpus = made(target_dir(root).join("corpus").join(name))?;
    let seeds = made(target_dir(root).join("seeds").join(name))?;
    let findings = made(root.join("fuzz/regressions").join(name))?;
    println!("{name}: {seconds} s");
    let status = Command::new("sh")
        .args(["-c", &format!("ulimit -s {STACK_KB}; exec \"$0\" \"$@\"")])
        .arg(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MB_MAX}"))
        .arg(format!("-malloc_limit_mb={ALLOCATION_MB_MAX}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-print_final_stats=1", "-verbosity=1"])
        .args([&corpus, &seeds])
        .env("SETPOINT_FUZZ_TARGET", name)
        .env("SETPOINT_FUZZ_SEEDS", &seeds)
        .status();
    // A directory without findings says nothing.
    let _ = std::fs::remove_dir(&findings);
    status.map(|status| status.success()).map_err(|error| format!("cannot run {}: {error}", program.display()))
}
