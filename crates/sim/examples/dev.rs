use clap::Parser;
#[path = "../../xtask/src/sim.rs"]
mod chore;
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: chore::Args,
}
fn main() {
    if let Err(e) = chore::run(&Cli::parse().args) {
        eprintln!("error: {e}");
        std::process::exit(1)
    }
}
