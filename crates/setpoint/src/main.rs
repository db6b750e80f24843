//! The binary: parse, choose, run.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The hidden command of a sandbox's shim, and the names of CNI plugins: before anything else, for they must have no
    // thread and little memory.
    let mut args = std::env::args_os();
    if runtime::cni::is_called(args.next().as_deref()) {
        return runtime::cni::main();
    }
    if args.next().is_some_and(|word| word == "shim") {
        return runtime::shim::main(args);
    }
    cli::main()
}
