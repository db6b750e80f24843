//! `cargo xtask conformance`: upstream's conformance tests, unmodified, against a server that it starts itself.
//!
//! `conformance/tests.tsv` knows every test and what it needs; `conformance/results` holds the committed results, which
//! a run is compared with. Tests that are not run are listed with the reason.

mod report;
mod suite;
mod table;
mod tests;

use std::path::{Path, PathBuf};

use tests::{Selection, Stage};

/// Options of `conformance`.
#[derive(clap::Args)]
pub struct Args {
    /// Which tests; each stage includes those before it. `all` also lists the tests of stages that cannot run here.
    #[arg(long, value_enum, default_value_t = Stage::S1)]
    stage: Stage,
    /// Only tests whose name contains one of these texts.
    #[arg(long)]
    focus: Vec<String>,
    /// No tests whose name contains one of these texts.
    #[arg(long)]
    skip: Vec<String>,
    /// Tests at a time; those marked serial run alone at the end.
    #[arg(long, default_value_t = 3)]
    procs: usize,
    /// The server's binary; built in release mode when not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where logs, reports and the table go.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Write the results of the tests that ran into the committed tables.
    #[arg(long)]
    write: bool,
}

/// Runs the tests of a stage, prints the table and what differs from the committed results.
///
/// # Errors
/// When the suite cannot run, or when a test failed that passed in the committed results.
pub fn run(args: &Args) -> Result<(), String> {
    let root = Path::new("conformance");
    let all = tests::read(&root.join("tests.tsv"))?;
    let committed = table::read_committed(&root.join("results"))?;
    let chosen = tests::select(&all, &Selection { stage: args.stage, focus: &args.focus, skip: &args.skip });
    let to_run = chosen.iter().filter(|c| c.reason.is_none()).count();
    if chosen.is_empty() {
        return Err("no test matches".to_owned());
    }
    let out = args.out.clone().unwrap_or_else(|| target().join("conformance"));
    std::fs::create_dir_all(&out).map_err(|e| format!("cannot create {}: {e}", out.display()))?;
    let out = std::path::absolute(out).map_err(|e| e.to_string())?;
    let outcomes = if to_run == 0 { Default::default() } else { suite::run(&chosen, args, &out)? };
    let rows = table::rows(&chosen, &outcomes);
    table::write(&out.join("results.tsv"), &rows)?;
    print!("{}", table::render(&rows));
    let differences = table::compare(&committed, &rows);
    print!("{}", differences.render());
    println!("{}", table::summary(&rows));
    if args.write {
        table::write_committed(&root.join("results"), &committed, &rows)?;
    }
    match differences.regressions.len() {
        0 => Ok(()),
        n => Err(format!("{n} passed in the committed results and did not now")),
    }
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}
