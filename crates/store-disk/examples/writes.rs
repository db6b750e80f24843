//! `cargo run --release -p store-disk --example writes -- DIRECTORY [COUNT] [CLIENTS]`: durable writes of 2 KB a
//! second, then the time to open the store again.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(directory) = arguments.first().map(PathBuf::from) else {
        eprintln!("usage: writes DIRECTORY [COUNT] [CLIENTS]");
        return ExitCode::from(2);
    };
    let number =
        |index: usize, default: u64| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default);
    let measured = store_disk::bench::writes(&directory, number(1, 100_000), number(2, 64));
    let opened = store_disk::bench::open(&directory);
    match (measured, opened) {
        (Ok(stats), Ok(took)) => {
            println!("{stats:?}\nopened again in {took:?}");
            ExitCode::SUCCESS
        }
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
