//! The commands: parse, choose, run; one printer for what goes wrong.

mod args;
mod report;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

/// Parses the command line and runs what it asks for.
pub fn main() -> ExitCode {
    let args = args::Args::parse();
    match run::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print(&error);
            ExitCode::FAILURE
        }
    }
}
