//! `cargo xtask crash`: the store's crash enumerator at length. (Its tests run a short one.)

use store_disk::crash::{Report, enumerate};

#[derive(clap::Args)]
pub struct Args {
    /// The first run. A failure names its run, and the search stops there: `--seed N` shows it again.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many images of the medium to check at least. A million take about two minutes of one core.
    #[arg(long, default_value_t = 1_000_000)]
    images: u64,
}

pub fn run(args: &Args) -> Result<(), String> {
    let report = enumerate(args.seed, args.images);
    println!("{report}");
    verdict(&report)
}

fn verdict(report: &Report) -> Result<(), String> {
    match report.failures.len() {
        0 => Ok(()),
        count => Err(format!("{count} images broke a promise")),
    }
}
