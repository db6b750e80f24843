//! Chores of the project: `cargo xtask <chore>`. This file only dispatches; each chore is a module.

mod bench;
mod conformance;
mod crash;
mod floors;
mod fuzz;
mod kill;
mod schema;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the project")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Measure the figures of the targets on a server of its own.
    Bench(bench::Args),
    /// Run upstream's conformance tests against a server of its own.
    Conformance(conformance::Args),
    /// Open every state in which a power loss can leave the store's files, and check what was promised.
    Crash(crash::Args),
    /// Check that crates use only what stands on lower floors.
    Floors,
    /// Drive the decoders, patches and selectors with inputs that libFuzzer makes.
    Fuzz(fuzz::Args),
    /// Kill a server under load again and again, and check that nothing acknowledged is lost.
    Kill(kill::Args),
    /// Write the facts file of the built-in types from the published definitions.
    Schema(schema::Args),
    /// Run the whole control plane in virtual time, with faults, and judge it.
    Sim(sim::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Bench(args) => bench::run(&args),
        Chore::Conformance(args) => conformance::run(&args),
        Chore::Crash(args) => crash::run(&args),
        Chore::Floors => floors::run(),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Kill(args) => kill::run(&args),
        Chore::Schema(args) => schema::run(&args),
        Chore::Sim(args) => sim::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
