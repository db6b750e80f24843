//! Measures the engine on a real directory.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, SystemClock};
use store::{Key, Keyspace, Op, Store, Txn};

use crate::{Disk, OpenError, Options};

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Acknowledged writes.
    pub writes: u64,
    /// How long they took together.
    pub elapsed: Duration,
    /// Writes a second.
    pub per_second: f64,
    /// The median and the 99th percentile of a write's time to its acknowledgement.
    pub p50: Duration,
    /// See `p50`.
    pub p99: Duration,
}

/// The size of an ordinary object.
const VALUE_BYTES: usize = 2048;

fn put(item: String, value: &Bytes) -> Txn {
    let key = Key::new("bench", item);
    let (value, annex) = (value.clone(), Bytes::new());
    Txn {
        preconditions: Vec::new(),
        ops: vec![Op::Put { key, value, annex, stamp_at: None, keyspace: Keyspace::Durable }],
    }
}

/// Writes `count` new items of 2 KB, with `clients` writes under way at a time.
///
/// # Errors
/// When the store cannot be opened.
pub fn writes(directory: &Path, count: u64, clients: u64) -> Result<Stats, OpenError> {
    let disk = Disk::open(directory, Options::default())?;
    let clock = Arc::new(SystemClock::new());
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let (sender, receiver) = mpsc::channel();
    let submit = |index: u64| {
        let (sender, clock) = (sender.clone(), clock.clone());
        let begun = clock.monotonic();
        let ack = move |outcome: Result<_, _>| {
            let took = clock.monotonic().saturating_sub(begun);
            let _ = sender.send((outcome.is_ok(), took));
        };
        disk.submit(put(format!("item-{index:012}"), &value), Box::new(ack));
    };
    let begun = clock.monotonic();
    let clients = clients.clamp(1, count.max(1));
    (0..clients.min(count)).for_each(submit);
    let mut times = Vec::new();
    for index in clients..count.saturating_add(clients) {
        let Ok((true, took)) = receiver.recv() else { break };
        times.push(took);
        if index < count {
            submit(index);
        }
        if times.len() as u64 == count {
            break;
        }
    }
    Ok(stats(times, clock.monotonic().saturating_sub(begun)))
}

fn stats(mut times: Vec<Duration>, elapsed: Duration) -> Stats {
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    let per_second = times.len() as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
    Stats { writes: times.len() as u64, elapsed, per_second, p50: at(50), p99: at(99) }
}

/// Opens a directory and says how long that took.
///
/// # Errors
/// When the store cannot be opened.
pub fn open(directory: &Path) -> Result<Duration, OpenError> {
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let disk = Disk::open(directory, Options::default())?;
    let took = clock.monotonic().saturating_sub(begun);
    drop(disk);
    Ok(took)
}
