//! The binary: parse, choose, run.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
