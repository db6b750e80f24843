//! The binary: parse, choose, run.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The hidden command of a sandbox's shim: before anything else, for it must have no thread and little memory.
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|word| word == "shim") {
        return runtime::shim::main(args);
    }
    cli::main()
}
