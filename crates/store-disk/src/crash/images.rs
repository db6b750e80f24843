//! The images of a recorded run, and what each must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use store::model::State;
use store::suite::{Dice, items};
use store::{Event, Key, Keyspace, Op, Revision, Store, Txn};

use super::workload::Run;
use super::{FAILURES_MAX, Failure, Report};
use crate::sum::mix;
use crate::vfs::{Medium, RecordVfs, SimVfs, Vfs};
use crate::{Disk, Options};

/// Up to so many unsynced pieces all subsets are tried: 256 of them, each with both lengths.
const UNITS_MAX: usize = 8;

/// How many subsets are drawn where there are too many.
const DRAWN: usize = 200;

/// The same for the moments of a recovery, which does little.
const UNITS_MAX_SECOND: usize = 4;

/// How many subsets are drawn at each such moment where there are more.
const DRAWN_SECOND: usize = 8;

/// From how many revisions watches are resumed after each recovery.
const RESUMED: usize = 3;

/// What must hold at one moment of a run.
struct Promise<'r> {
    run: &'r Run,
    /// The newest acknowledged revision.
    acked: Revision,
    /// The first of the states in which the store may be found.
    from: usize,
}

/// Checks every image of a run, until the budget is spent or too much is wrong; `twice` with a second crash during
/// the recovery from the first.
pub fn check(seed: u64, run: &Run, budget: u64, twice: bool, report: &mut Report) {
    let mut medium = Medium::default();
    let mut known = Known { twice, ..Known::default() };
    let mut dice = Dice::new(seed ^ 0xc4a5);
    for calls in 0..=run.calls.len() {
        if let Some(call) = calls.checked_sub(1).and_then(|index| run.calls.get(index))
            && let Err(error) = medium.apply(call)
        {
            report.failures.push(Failure { seed, calls, what: format!("the record cannot be replayed: {error}") });
            return;
        }
        moment(seed, calls, run, &medium, &mut known, &mut dice, report);
        if report.images >= budget || report.failures.len() >= FAILURES_MAX {
            return;
        }
    }
}

fn moment(
    seed: u64,
    calls: usize,
    run: &Run,
    medium: &Medium,
    known: &mut Known,
    dice: &mut Dice,
    report: &mut Report,
) {
    let promise = promise(run, calls);
    let units = medium.units();
    let all = units <= UNITS_MAX;
    *(if all { &mut report.exhausted } else { &mut report.sampled }) += 1;
    let subsets: Vec<u64> = match all {
        true => (0..1u64 << units).collect(),
        // Nothing and everything always belong to the sample.
        false => [0, u64::MAX].into_iter().chain((0..DRAWN).map(|_| dice.roll())).collect(),
    };
    for subset in subsets {
        for full_length in [false, true] {
            let image = crashed(medium, subset, full_length);
            report.images += 1;
            if !known.kept.insert((fingerprint(&image), promise.from)) {
                continue;
            }
            report.distinct += 1;
            if let Err(what) = examine(&image, &promise, known, dice, report) {
                let what = format!("{what} (subset {subset:x}, full length {full_length})");
                report.failures.push(Failure { seed, calls, what });
                return;
            }
        }
    }
}

/// The image in which the units of `subset` were written; its bits repeat when there are more than 64 units.
fn crashed(medium: &Medium, subset: u64, full_length: bool) -> Medium {
    let mut index = 0u32;
    let mut pick = || {
        let picked = subset.rotate_right(index % 64) & 1 == 1;
        // A plain repetition would tie units 64 apart together.
        index += if index % 64 == 63 { 8 } else { 1 };
        picked
    };
    medium.crashed(&mut pick, full_length)
}

fn fingerprint(medium: &Medium) -> u64 {
    let bytes = |sum: u64, bytes: &[u8]| {
        let chunks = bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        chunks.fold(mix(sum, bytes.len() as u64), mix)
    };
    medium.files().fold(0, |sum, (name, content)| bytes(bytes(sum, name.as_bytes()), content))
}

fn promise(run: &Run, calls: usize) -> Promise<'_> {
    let acked = run.acked.iter().filter(|acked| acked.calls <= calls).map(|acked| acked.revision).max();
    let acked = acked.unwrap_or(Revision::FIRST);
    let from = run.states.iter().rposition(|(revision, _)| *revision <= acked).unwrap_or(0);
    Promise { run, acked, from }
}

/// An opened image.
struct Found {
    state: State,
    revision: Revision,
}

/// What is known of an image: whether it kept which promise, and what it recovers to. Recovery is a function of
/// the image, so equal ones are opened once.
#[derive(Default)]
pub struct Known {
    kept: BTreeSet<(u64, usize)>,
    recovered: BTreeMap<u64, Recovered>,
    /// Whether a second crash is tried.
    twice: bool,
    /// Those of which all second crashes were tried.
    examined: BTreeSet<u64>,
}

type Recovered = Arc<Found>;

fn open(vfs: Arc<dyn Vfs>, options: &Options) -> Result<Disk, String> {
    Disk::open_on(vfs, options.clone()).map_err(|error| format!("it does not open: {error}"))
}

fn found(disk: &Disk) -> Found {
    let snapshot = disk.snapshot();
    Found { state: items(&snapshot), revision: snapshot.revision() }
}

fn examine(
    image: &Medium,
    promise: &Promise<'_>,
    known: &mut Known,
    dice: &mut Dice,
    report: &mut Report,
) -> Result<(), String> {
    let print = fingerprint(image);
    if !known.examined.insert(print)
        && let Some(first) = known.recovered.get(&print)
    {
        return must_hold(first, promise);
    }
    let record = Arc::new(RecordVfs::new(Arc::new(SimVfs::new(image.clone()))));
    let disk = open(record.clone(), &promise.run.options)?;
    let first = Arc::new(found(&disk));
    must_hold(&first, promise)?;
    must_remember(&disk, promise, &first, dice)?;
    must_forget(&disk, promise, &first)?;
    let goes_on = disk.torn_tail().is_some() || dice.chance(20);
    disk.abandon();
    if goes_on {
        must_go_on(image, promise, &first)?;
    }
    known.recovered.insert(print, first.clone());
    if !known.twice {
        return Ok(());
    }
    let mut medium = image.clone();
    for call in record.calls() {
        second(&medium, promise, &first, known, dice, report)?;
        medium.apply(&call).map_err(|error| format!("the recovery cannot be replayed: {error}"))?;
    }
    second(&medium, promise, &first, known, dice, report)
}

/// Acknowledged is in it, it is a state the store was in, and its revision did not go back.
fn must_hold(found: &Found, promise: &Promise<'_>) -> Result<(), String> {
    if found.revision < promise.acked {
        return Err(format!("revision {} after {} was acknowledged", found.revision, promise.acked));
    }
    let allowed = &promise.run.states[promise.from..];
    if allowed.iter().any(|(_, state)| *state == found.state) {
        return Ok(());
    }
    let earlier = promise.run.states.iter().rev().find(|(_, state)| *state == found.state);
    Err(match earlier {
        Some((revision, _)) => format!("the state is that of {revision}, but {} was acknowledged", promise.acked),
        None => format!("the state at {} is none the store was in", found.revision),
    })
}

/// Watches that can be resumed get what happened, no more and no less.
fn must_remember(disk: &Disk, promise: &Promise<'_>, found: &Found, dice: &mut Dice) -> Result<(), String> {
    let collection = "p".into();
    let newest_item = found.state.values().map(|entry| entry.modified).max().unwrap_or(Revision::FIRST);
    for _ in 0..RESUMED {
        let (after, _) = promise.run.states[dice.index(promise.run.states.len())];
        if after > newest_item {
            continue;
        }
        let Ok((events, _)) = disk.events(&collection, after, usize::MAX) else { continue };
        let through = events.last().map_or(after, |event| event.revision);
        let happened =
            promise.run.model.history().iter().filter(|event| {
                event.key.collection == collection && event.revision > after && event.revision <= through
            });
        if !events.iter().eq(happened) {
            return Err(format!("events of {collection} after {after} are not what happened"));
        }
    }
    Ok(())
}

/// Where volatile items went without a word, watches must start anew.
fn must_forget(disk: &Disk, promise: &Promise<'_>, found: &Found) -> Result<(), String> {
    let volatile = |event: &&Event| !event.entry.is_durable() && event.revision <= promise.acked;
    for event in promise.run.model.history().iter().filter(volatile) {
        let before = Revision(found.revision.0 - 1);
        if disk.events(&event.key.collection, before, 1).is_ok() {
            return Err(format!("{} had volatile items, but is resumed after {before}", event.key.collection));
        }
    }
    Ok(())
}

/// The store takes writes again, and does not lose them.
fn must_go_on(image: &Medium, promise: &Promise<'_>, first: &Found) -> Result<(), String> {
    let sim = Arc::new(SimVfs::new(image.clone()));
    let disk = open(sim.clone(), &promise.run.options)?;
    let key = Key::new("p", "goes on");
    // Longer than what may have been torn, and shorter.
    for value in [Bytes::from(vec![b'x'; 1200]), Bytes::new()] {
        let (key, annex, keyspace) = (key.clone(), Bytes::new(), Keyspace::Durable);
        let ops = vec![Op::Put { key, value, annex, stamp_at: None, keyspace }];
        disk.submit(Txn { preconditions: Vec::new(), ops }, Box::new(|_| ()));
        while disk.flush() {}
    }
    let snapshot = disk.snapshot();
    disk.abandon();
    let disk = open(Arc::new(SimVfs::new(sim.medium().crashed(&mut || false, false))), &promise.run.options)
        .map_err(|what| format!("when it had gone on {what}"))?;
    let mut state = first.state.clone();
    state.extend(snapshot.get_key(&key).map(|entry| (key, entry.clone())));
    let kept = items(&disk.snapshot());
    disk.abandon();
    match kept == state && kept.len() > first.state.len() {
        true => Ok(()),
        false => Err("what was written after the recovery is lost".to_owned()),
    }
}

/// The power fails again, at this moment of the recovery.
fn second(
    medium: &Medium,
    promise: &Promise<'_>,
    first: &Found,
    known: &mut Known,
    dice: &mut Dice,
    report: &mut Report,
) -> Result<(), String> {
    let units = medium.units();
    let subsets: BTreeSet<u64> = match units {
        0..=UNITS_MAX_SECOND => (0..1 << units).collect(),
        _ => [0, u64::MAX].into_iter().chain((0..DRAWN_SECOND).map(|_| dice.roll())).collect(),
    };
    for subset in subsets {
        report.second_crashes += 1;
        let again = recovered(crashed(medium, subset, dice.chance(50)), promise, known)?;
        if again.state != first.state || again.revision != first.revision {
            return Err(format!("revision {} became {} by a second crash", first.revision, again.revision));
        }
    }
    Ok(())
}

fn recovered(image: Medium, promise: &Promise<'_>, known: &mut Known) -> Result<Recovered, String> {
    let print = fingerprint(&image);
    if let Some(found) = known.recovered.get(&print) {
        return Ok(found.clone());
    }
    let disk = open(Arc::new(SimVfs::new(image)), &promise.run.options);
    let disk = disk.map_err(|what| format!("after a second crash {what}"))?;
    let again = Arc::new(found(&disk));
    disk.abandon();
    known.recovered.insert(print, again.clone());
    Ok(again)
}
