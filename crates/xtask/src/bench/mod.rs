//! `cargo xtask bench`: the figures of the targets, against a release server that it starts itself, over TLS.
//!
//! Load generator and server share the machine, so rates are what both together reach. Nothing here asserts a time.

mod brains;
pub(crate) mod client;
mod cluster;
mod figures;
mod node;
pub(crate) mod server;

use std::path::PathBuf;
use std::time::Duration;

/// Options of `bench`.
#[derive(clap::Args)]
pub struct Args {
    /// The server's binary; built in release mode when not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seconds of load for each rate.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only figures whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// Measures and prints a table.
pub fn run(args: &Args) -> Result<(), String> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string())?;
    let bench = figures::Bench { binary, span: Duration::from_secs(args.seconds), only: args.only.clone() };
    runtime.block_on(bench.run())
}
