//! From files to a state: reads everything, changes nothing.
//!
//! The newest checkpoint, then the log from there, in order, every checksum, the chain and the state's hash
//! checked. What cannot be read at the very end of the log and was never acknowledged is a torn tail; anything
//! else that cannot be read is damage, and the start stops.

use std::collections::BTreeSet;
use std::io;

use store::{Collection, Core, Limits, Revision, Snapshot};

use crate::checkpoint::{self, StateFault, StateHeader, is_unfinished, state_name, state_revision};
use crate::error::{Damage, OpenError};
use crate::frame::{
    FRAME_HEADER, FrameFault, HeaderCrc, SEGMENT_HEADER, SegmentHeader, VERSION, frame_at, segment_name,
    segment_number, was_synced_beyond,
};
use crate::record::{Logged, Names, Records};
use crate::sum::{LogId, StateSum};
use crate::vfs::{Vfs, read_all};

/// A segment that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub number: u64,
    /// The last revision before it.
    pub revision: Revision,
    /// Its length in bytes, without a torn tail.
    pub bytes: u64,
}

/// What was found behind the last whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The file's name.
    pub file: String,
    /// Where the whole frames end.
    pub offset: u64,
    /// How many bytes were dropped.
    pub bytes: u64,
}

/// Everything that the files say.
pub struct Recovered {
    /// State and history.
    pub core: Core,
    /// Which log.
    pub id: LogId,
    /// The chain at its end.
    pub chain: u64,
    /// Up to where the last segment says of itself that it is durable.
    pub synced: u64,
    /// The last logged revision.
    pub logged: Revision,
    /// Revisions up to this may have been handed out.
    pub reserved: u64,
    /// Collections that have had volatile items.
    pub volatile: BTreeSet<Collection>,
    /// The sum over the durable items.
    pub sum: StateSum,
    /// The segments, in order; the last is the one to append to. Empty if there is no log yet.
    pub segments: Vec<Segment>,
    /// What a crash left at the end.
    pub torn: Option<TornTail>,
    /// Files that are no longer, or not yet, part of the log.
    pub leftovers: Vec<String>,
    /// The state file it started from.
    pub checkpoint: Option<String>,
    /// How many frames and transactions were read.
    pub frames: u64,
    /// How many transactions were read.
    pub txns: u64,
}

/// What is in the directory, by name.
struct Inventory {
    states: BTreeSet<Revision>,
    segments: BTreeSet<u64>,
    unfinished: Vec<String>,
}

struct Reader<'v> {
    vfs: &'v dyn Vfs,
    over: HeaderCrc,
    /// The checkpoint's header, if there is one.
    state: Option<StateHeader>,
    /// The last transaction read from the log.
    seen: Revision,
    names: Names,
    found: Recovered,
}

fn io_error(vfs: &dyn Vfs, attempt: String) -> impl FnOnce(io::Error) -> OpenError {
    let directory = vfs.describe();
    move |source| OpenError::Io { attempt, directory, source }
}

fn damage<T>(vfs: &dyn Vfs, name: &str, offset: u64, what: impl Into<String>) -> Result<T, OpenError> {
    let file = format!("{}/{name}", vfs.describe());
    Err(Damage { file, offset, what: what.into() }.into())
}

/// Reads a data directory.
///
/// # Errors
/// When it cannot be read, is damaged, or was written by a later version.
pub fn recover(vfs: &dyn Vfs, limits: Limits, over: HeaderCrc) -> Result<Recovered, OpenError> {
    let inventory = inventory(vfs)?;
    let (core, file) = load_state(vfs, limits, &inventory)?;
    let base = core.revision();
    let state = file.as_ref().map(|file| file.header);
    let mut found = Recovered {
        id: state.map_or(LogId::default(), |state| state.id),
        chain: 0,
        synced: 0,
        logged: Revision(0),
        reserved: state.map_or(0, |state| state.reserved),
        volatile: file.iter().flat_map(|file| file.volatile.iter().cloned()).collect(),
        sum: file.as_ref().map_or(StateSum::default(), |file| file.sum),
        core,
        segments: Vec::new(),
        torn: None,
        leftovers: inventory.unfinished,
        checkpoint: state.map(|state| state_name(state.revision)),
        frames: 0,
        txns: 0,
    };
    let first = state.map_or(1, |state| state.first_segment);
    found.leftovers.extend(inventory.states.iter().filter(|state| **state < base).map(|state| state_name(*state)));
    found.leftovers.extend(inventory.segments.range(..first).map(|number| segment_name(*number)));
    let segments: Vec<u64> = inventory.segments.range(first..).copied().collect();
    let mut reader = Reader { vfs, over, state, seen: Revision(0), names: Names::default(), found };
    reader.read_log(first, &segments)?;
    Ok(reader.found)
}

fn inventory(vfs: &dyn Vfs) -> Result<Inventory, OpenError> {
    let names = vfs.list().map_err(io_error(vfs, "list the files".into()))?;
    Ok(Inventory {
        states: names.iter().filter_map(|name| state_revision(name)).collect(),
        segments: names.iter().filter_map(|name| segment_number(name)).collect(),
        unfinished: names.into_iter().filter(|name| is_unfinished(name)).collect(),
    })
}

fn load_state(
    vfs: &dyn Vfs,
    limits: Limits,
    inventory: &Inventory,
) -> Result<(Core, Option<checkpoint::StateFile>), OpenError> {
    let Some(revision) = inventory.states.last() else { return Ok((Core::new(limits), None)) };
    let name = state_name(*revision);
    let file = vfs.open(&name).map_err(io_error(vfs, format!("open {name}")))?;
    let mut items = Vec::new();
    match checkpoint::read(&*file, &mut |key, entry| items.push((key, entry))) {
        Ok(file) if file.header.revision == *revision => {
            Ok((Core::from_snapshot(limits, Snapshot::build(*revision, items)), Some(file)))
        }
        Ok(_) => damage(vfs, &name, 0, "it is the state of another revision"),
        Err(StateFault::Damaged(offset, what)) => damage(vfs, &name, offset, what),
        Err(StateFault::Io(source)) => Err(io_error(vfs, format!("read {name}"))(source)),
        Err(StateFault::TooNew(version)) => Err(too_new(vfs, &name, version)),
    }
}

fn too_new(vfs: &dyn Vfs, name: &str, version: u32) -> OpenError {
    OpenError::TooNew { file: format!("{}/{name}", vfs.describe()), version, readable: VERSION }
}

/// How a segment ended.
enum Ending {
    /// With its last whole frame.
    Whole,
    /// With the word that the log goes on in the next.
    Continued,
}

impl Reader<'_> {
    fn damage<T>(&self, name: &str, offset: u64, what: impl Into<String>) -> Result<T, OpenError> {
        damage(self.vfs, name, offset, what)
    }

    fn read_log(&mut self, first: u64, numbers: &[u64]) -> Result<(), OpenError> {
        let mut bytes = Vec::new();
        let mut ending = Ending::Continued;
        let mut expected = first;
        for number in numbers {
            let name = segment_name(*number);
            if *number != expected {
                return self.damage(&segment_name(expected), 0, "the segment is missing");
            }
            self.load(&name, &mut bytes)?;
            let is_last = numbers.last() == Some(number);
            if is_last && self.was_never_used(*number, &bytes, &ending) {
                self.found.leftovers.push(name);
                return Ok(());
            }
            self.must_continue(&ending)?;
            ending = self.read_segment(*number, &name, &bytes)?;
            expected = number.saturating_add(1);
        }
        let wants_more = matches!(ending, Ending::Continued) && (self.state.is_some() || !numbers.is_empty());
        if wants_more {
            return self.damage(&segment_name(expected), 0, "the segment is missing");
        }
        self.must_reach_the_state()
    }

    fn load(&self, name: &str, bytes: &mut Vec<u8>) -> Result<(), OpenError> {
        let file = self.vfs.open(name).map_err(io_error(self.vfs, format!("open {name}")))?;
        read_all(&*file, bytes).map_err(io_error(self.vfs, format!("read {name}")))
    }

    /// A last segment without a frame, into which the log had not moved when the crash came: it is begun anew.
    /// (The header is synced, then the segment before says that it continues, and only then frames are written.)
    fn was_never_used(&self, number: u64, bytes: &[u8], before: &Ending) -> bool {
        let is_first_ever = number == 1 && self.state.is_none();
        let could_be_torn = is_first_ever && SegmentHeader::decode(bytes).is_none();
        bytes.len() <= SEGMENT_HEADER && (matches!(before, Ending::Whole) || could_be_torn)
    }

    /// Another segment has frames, so the one before must have said so.
    fn must_continue(&self, before: &Ending) -> Result<(), OpenError> {
        match (before, self.found.segments.last()) {
            (Ending::Whole, Some(segment)) => {
                self.damage(&segment_name(segment.number), segment.bytes, "the log breaks off here")
            }
            _ => Ok(()),
        }
    }

    /// The log must reach as far as it did when the checkpoint was made.
    fn must_reach_the_state(&self) -> Result<(), OpenError> {
        match (self.state, self.found.segments.last()) {
            (Some(state), Some(segment)) if self.found.logged.0 < state.logged => {
                let what = format!("the log ends at revision {}, before {}", self.found.logged, state.logged);
                self.damage(&segment_name(segment.number), segment.bytes, what)
            }
            _ => Ok(()),
        }
    }

    fn read_segment(&mut self, number: u64, name: &str, bytes: &[u8]) -> Result<Ending, OpenError> {
        self.begin_segment(number, name, bytes)?;
        let mut at = SEGMENT_HEADER;
        while at < bytes.len() {
            match frame_at(bytes, at, self.found.id, self.found.chain, self.over) {
                Ok((header, payload)) => {
                    let next = self.read_payload(name, at, payload)?;
                    self.found.chain = header.next_chain();
                    self.found.synced = header.synced;
                    self.found.frames += 1;
                    at += FRAME_HEADER + payload.len();
                    self.set_length(at);
                    if let Some(next) = next {
                        return self.end_segment(number, name, at, bytes.len(), next);
                    }
                }
                Err(fault) => {
                    self.tear(name, bytes, at, fault)?;
                    break;
                }
            }
        }
        Ok(Ending::Whole)
    }

    fn begin_segment(&mut self, number: u64, name: &str, bytes: &[u8]) -> Result<(), OpenError> {
        let Some((header, version)) = SegmentHeader::decode(bytes) else {
            return self.damage(name, 0, "the header is not whole");
        };
        if version > VERSION {
            return Err(too_new(self.vfs, name, version));
        }
        let is_first = self.found.segments.is_empty();
        if is_first && self.state.is_none() {
            self.found.id = header.id;
        }
        if header.id != self.found.id || header.number != number {
            return self.damage(name, 0, "it is a segment of another log or place");
        }
        if is_first && header.revision > self.found.core.revision().0 {
            return self.damage(name, 0, "the log before it is missing");
        }
        if !is_first && header.chain != self.found.chain {
            return self.damage(name, 0, "it does not follow the segment before");
        }
        self.found.chain = header.chain;
        self.found.logged = self.found.logged.max(Revision(header.revision));
        self.seen = self.found.logged;
        let revision = Revision(header.revision);
        self.found.synced = 0;
        self.found.segments.push(Segment { number, revision, bytes: SEGMENT_HEADER as u64 });
        Ok(())
    }

    fn set_length(&mut self, at: usize) {
        if let Some(segment) = self.found.segments.last_mut() {
            segment.bytes = at as u64;
        }
    }

    fn end_segment(&self, number: u64, name: &str, at: usize, length: usize, next: u64) -> Result<Ending, OpenError> {
        if at != length || next != number.saturating_add(1) {
            return self.damage(name, at as u64, "something follows the end of the segment");
        }
        Ok(Ending::Continued)
    }

    /// The frame at `at` cannot be read: a torn tail, unless it is known to have been synced.
    fn tear(&mut self, name: &str, bytes: &[u8], at: usize, fault: FrameFault) -> Result<(), OpenError> {
        let what = match fault {
            FrameFault::Short => "a frame is cut off",
            FrameFault::Header => "the header of a frame is not whole",
            FrameFault::Payload => "the content of a frame is not whole",
            FrameFault::Order => "a frame is out of order",
        };
        // A whole frame in the wrong place was not torn by a crash.
        if fault == FrameFault::Order || was_synced_beyond(bytes, at, self.found.id, self.over) {
            return self.damage(name, at as u64, what);
        }
        let (offset, bytes) = (at as u64, (bytes.len() - at) as u64);
        self.found.torn = Some(TornTail { file: name.to_owned(), offset, bytes });
        Ok(())
    }

    fn read_payload(&mut self, name: &str, at: usize, payload: &[u8]) -> Result<Option<u64>, OpenError> {
        let mut names = std::mem::take(&mut self.names);
        let mut records = Records::new(payload, &mut names);
        let mut next = None;
        while !records.is_done() {
            let Some(logged) = records.logged() else {
                return self.damage(name, at as u64, "a record makes no sense");
            };
            if let Logged::Continues(segment) = logged {
                next = Some(segment);
            } else if let Err(what) = self.take(logged) {
                return self.damage(name, at as u64, what);
            }
        }
        self.names = names;
        Ok(next)
    }

    fn take(&mut self, logged: Logged) -> Result<(), String> {
        let base = self.state.map_or(Revision::FIRST, |state| state.revision);
        match logged {
            Logged::Txn(revision, changes) => {
                self.found.txns += 1;
                self.found.logged = revision;
                self.seen = revision;
                // Older ones are in the checkpoint already.
                if revision > base {
                    let events = self.found.core.replay(revision, changes).map_err(|error| format!("{error:?}"))?;
                    events.iter().for_each(|event| self.found.sum.follow(event));
                }
            }
            Logged::Reserve(through) => self.found.reserved = through,
            Logged::Volatile(collection) => drop(self.found.volatile.insert(collection)),
            Logged::StateSum(hash) if self.seen > base && hash != self.found.sum.hash => {
                return Err(format!("the state at revision {} is not the one that was written", self.seen));
            }
            Logged::StateSum(_) | Logged::Continues(_) => (),
        }
        Ok(())
    }
}
