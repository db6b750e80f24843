//! A program that is nothing but the shim.

fn main() -> std::process::ExitCode {
    runtime::shim::main(std::env::args_os().skip(1))
}
