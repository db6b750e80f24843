//! The commands: parse, choose, run; one printer for what goes wrong.

mod api;
mod args;
mod boxtool;
mod image;
mod inventory;
mod manifest;
mod node_args;
mod plan_file;
mod planning;
mod reach;
mod report;
mod reports;
mod run;
mod token;
mod undo;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

/// Parses the command line and runs what it asks for.
pub fn main() -> ExitCode {
    // Called by that name, or by that first word, the program is what runs in the built-in image.
    if let Some(words) = boxtool::words(std::env::args()) {
        return boxtool::run(&words);
    }
    let args = args::Args::parse();
    match run::run(args) {
        Ok(ended) => ended.into(),
        Err(error) => {
            report::print(&error);
            report::Ended::Failed.into()
        }
    }
}
