//! The recent past: events for resuming watches, and sparse roots for reading old revisions.
//!
//! All events stand in one ring, in order of revision; each collection has an index into it. The ring is
//! bounded by count and bytes and gives up whole revisions, oldest first. What a collection has lost is
//! remembered per collection, so that a busy collection never makes a quiet one's watchers relist.
//!
//! A root is kept every so many events ([`Limits::roots_max`]); a revision between roots is reached from the
//! nearest root by doing or undoing events, which know the entry before and after. (The alternatives: a root
//! per revision makes inserts ten times slower and holds their paths; only events makes far reads slow.)

use std::collections::{BTreeMap, VecDeque};

use crate::{Change, Collection, Event, Limits, Mutant, ReadError, Revision, Snapshot};

/// What an event costs besides the values it holds: the event, its place in the index, an entry, its names.
const EVENT_OVERHEAD_BYTES: usize = 320;

/// Reads of one old revision come in bursts (the pages of one list), so the last few roots that were folded
/// are kept. They share most of their memory with the roots they were folded from.
const FOLDED_MAX: usize = 4;

/// Collections whose loss is remembered one by one. Kubernetes clusters have a few hundred resources; a client
/// that makes and drops resource definitions without end must not grow this map without end.
const TRACKS_MAX: usize = 4096;

/// What is known of one collection's past.
#[derive(Default)]
struct Track {
    /// Places in the ring, ascending.
    places: VecDeque<u64>,
    /// The newest revision of which an event was given up.
    lost: Revision,
}

/// A state and its place in the stream of events: all events before `place` are in it.
#[derive(Clone)]
struct Root {
    snapshot: Snapshot,
    place: u64,
}

/// The bounded past of one store.
pub(crate) struct History {
    limits: Limits,
    ring: VecDeque<Event>,
    /// Place of the ring's first event.
    first: u64,
    bytes: usize,
    tracks: BTreeMap<Collection, Track>,
    roots: VecDeque<Root>,
    folded: VecDeque<Root>,
    /// Nothing before this can be read.
    oldest: Revision,
    /// Nothing before this can be resumed, whatever the collection.
    floor: Revision,
}

/// The way from a kept root to a wanted revision. It is walked outside the store's lock.
pub struct Fold {
    from: Snapshot,
    to: Revision,
    place: u64,
    steps: Steps,
}

enum Steps {
    Do(Vec<Event>),
    Undo(Vec<Event>),
}

impl Fold {
    /// Walks it.
    pub fn run(self) -> Snapshot {
        self.walk().snapshot
    }

    fn walk(self) -> Root {
        let mut snapshot = self.from;
        match &self.steps {
            Steps::Do(events) => events.iter().for_each(|event| redo(&mut snapshot, event)),
            Steps::Undo(events) => events.iter().rev().for_each(|event| undo(&mut snapshot, event)),
        }
        snapshot.revision = self.to;
        Root { snapshot, place: self.place }
    }

    /// Walks it and returns also what [`crate::Core::keep`] wants.
    pub fn run_kept(self) -> (Snapshot, Folded) {
        let root = self.walk();
        (root.snapshot.clone(), Folded(root))
    }
}

/// A state reached by a [`Fold`], to be handed back to the history for the next page.
pub struct Folded(Root);

/// Applies an event to a state.
pub(crate) fn redo(snapshot: &mut Snapshot, event: &Event) {
    match event.change {
        Change::Deleted => snapshot.remove(&event.key),
        Change::Created | Change::Modified => snapshot.put(&event.key, event.entry.clone()),
    }
}

fn undo(snapshot: &mut Snapshot, event: &Event) {
    match &event.previous {
        Some(previous) => snapshot.put(&event.key, previous.clone()),
        None => snapshot.remove(&event.key),
    }
}

/// What the event alone holds: the value it superseded, and a deletion's own last value.
fn cost(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.size());
    let own = match (&event.previous, event.change) {
        (Some(previous), Change::Deleted) if previous.value.as_ptr() == event.entry.value.as_ptr() => 0,
        (_, Change::Deleted) => event.entry.value.len(),
        _ => 0,
    };
    previous + own + EVENT_OVERHEAD_BYTES
}

impl History {
    /// A past that begins at `snapshot`.
    pub(crate) fn new(limits: Limits, snapshot: &Snapshot) -> History {
        History {
            limits,
            ring: VecDeque::new(),
            first: 0,
            bytes: 0,
            tracks: BTreeMap::new(),
            roots: VecDeque::from([Root { snapshot: snapshot.clone(), place: 0 }]),
            folded: VecDeque::new(),
            oldest: snapshot.revision,
            floor: snapshot.revision,
        }
    }

    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    fn at(&self, place: u64) -> Option<&Event> {
        self.ring.get(usize::try_from(place.checked_sub(self.first)?).ok()?)
    }

    /// The oldest revision that can be read.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// The oldest revision from which `collection` can be resumed.
    pub(crate) fn floor(&self, collection: &str) -> Revision {
        self.tracks.get(collection).map_or(self.floor, |track| track.lost.max(self.floor))
    }

    /// Takes in an event that just became visible; its revision is not older than the last one's.
    pub(crate) fn push(&mut self, event: Event) {
        let place = self.end();
        self.bytes += cost(&event);
        match self.tracks.get_mut(&*event.key.collection) {
            Some(track) => track.places.push_back(place),
            None => {
                let track = Track { places: VecDeque::from([place]), lost: Revision(0) };
                self.tracks.insert(event.key.collection.clone(), track);
                self.bound_tracks();
            }
        }
        self.ring.push_back(event);
    }

    fn bound_tracks(&mut self) {
        if self.tracks.len() <= TRACKS_MAX {
            return;
        }
        let empty = self.tracks.values().filter(|track| track.places.is_empty());
        self.floor = empty.map(|track| track.lost).max().unwrap_or(self.floor).max(self.floor);
        self.tracks.retain(|_, track| !track.places.is_empty());
    }

    /// After a transaction's events are in: keeps a root if one is due and gives up what is over the bounds.
    pub(crate) fn settle(&mut self, state: &Snapshot) {
        let interval = (self.limits.history_events_max / self.limits.roots_max.max(1)).max(1) as u64;
        let last = self.roots.back().map_or(0, |root| root.place);
        if self.end() - last >= interval {
            self.roots.push_back(Root { snapshot: state.clone(), place: self.end() });
        }
        while self.ring.len() > self.limits.history_events_max || self.bytes > self.limits.history_bytes_max {
            let Some(oldest) = self.ring.front().map(|event| event.revision) else { break };
            self.give_up_to(oldest);
        }
    }

    /// Forgets, on request, everything up to `through`: also the quiet collections' watchers start anew.
    pub(crate) fn compact(&mut self, through: Revision) {
        if through > self.oldest {
            self.give_up_to(through);
            self.take_along();
            self.floor = self.floor.max(through);
        }
    }

    /// Makes `revision` the oldest that can be resumed, without an event: what was before is another life.
    pub(crate) fn lose(&mut self, collection: &Collection, revision: Revision) {
        let track = self.tracks.entry(collection.clone()).or_default();
        track.lost = track.lost.max(revision);
        self.bound_tracks();
    }

    /// Makes `revision` the oldest that can be read; events stay.
    pub(crate) fn unread_before(&mut self, state: &Snapshot) {
        self.roots = VecDeque::from([Root { snapshot: state.clone(), place: self.end() }]);
        self.folded.clear();
        self.oldest = self.oldest.max(state.revision);
    }

    fn give_up_to(&mut self, through: Revision) {
        while self.ring.front().is_some_and(|event| event.revision <= through) {
            let Some(event) = self.ring.pop_front() else { break };
            self.first += 1;
            self.bytes = self.bytes.saturating_sub(cost(&event));
            if let Some(track) = self.tracks.get_mut(&*event.key.collection) {
                track.places.pop_front();
                track.lost =
                    if self.limits.has(Mutant::ForgetLoss) { track.lost } else { event.revision.max(track.lost) };
            }
        }
        self.oldest = self.oldest.max(through);
        let oldest = self.oldest;
        self.roots.retain(|root| root.snapshot.revision >= oldest);
        self.folded.retain(|root| root.snapshot.revision >= oldest);
    }

    /// A planted mistake; nothing otherwise.
    fn take_along(&mut self) {
        let is_deletion = self.ring.front().is_some_and(|event| event.change == Change::Deleted);
        if self.limits.has(Mutant::CompactDeletion)
            && is_deletion
            && let Some(event) = self.ring.pop_front()
        {
            self.first += 1;
            self.bytes = self.bytes.saturating_sub(cost(&event));
            self.tracks.entry(event.key.collection).and_modify(|track| drop(track.places.drain(..1)));
        }
    }

    fn track(&self, collection: &str) -> Option<&Track> {
        match self.tracks.get(collection) {
            None if self.limits.has(Mutant::Neighbour) => self.tracks.values().next(),
            own => own,
        }
    }

    /// The way to the state at `to`, given the newest state.
    pub(crate) fn way_to(&self, to: Revision, newest: &Snapshot) -> Result<Fold, ReadError> {
        if to > newest.revision {
            return Err(ReadError::Future { newest: newest.revision });
        }
        if to < self.oldest && !self.limits.has(Mutant::ReadCompacted) {
            return Err(ReadError::Compacted { oldest: self.oldest });
        }
        let place = self.first + self.ring.partition_point(|event| event.revision <= to) as u64;
        let mut near = (newest, self.end());
        for root in self.roots.iter().chain(&self.folded) {
            if root.place >= self.first && root.place.abs_diff(place) < near.1.abs_diff(place) {
                near = (&root.snapshot, root.place);
            }
        }
        let between = |a: u64, b: u64| (a..b).filter_map(|place| self.at(place).cloned()).collect();
        let steps = match near.1 <= place {
            true => Steps::Do(between(near.1, place)),
            false => Steps::Undo(between(place, near.1)),
        };
        Ok(Fold { from: near.0.clone(), to, place, steps })
    }

    /// Keeps a folded state for the next read of the same revision.
    pub(crate) fn keep(&mut self, Folded(root): Folded) {
        let known = |kept: &Root| kept.place == root.place;
        if root.snapshot.revision < self.oldest || self.roots.iter().chain(&self.folded).any(known) {
            return;
        }
        if self.folded.len() >= FOLDED_MAX {
            self.folded.pop_front();
        }
        self.folded.push_back(root);
    }

    /// Events of a collection after a revision. `limit` may be exceeded by the events of one transaction: these
    /// are never separated.
    pub(crate) fn events(
        &self,
        collection: &str,
        after: Revision,
        limit: usize,
        newest: Revision,
    ) -> Result<(Vec<Event>, Revision), ReadError> {
        let has = |mutant| self.limits.has(mutant);
        if after > newest && !has(Mutant::WatchFuture) {
            return Err(ReadError::Future { newest });
        }
        let floor = self.floor(collection);
        let begun = if has(Mutant::ResumeCompacted) { after.next() } else { after };
        if begun < floor {
            return Err(ReadError::Compacted { oldest: floor });
        }
        let Some(track) = self.track(collection) else { return Ok((Vec::new(), newest)) };
        let revision = |place: &u64| self.at(*place).map_or(newest, |event| event.revision);
        let seen = |place: &u64| revision(place) < after || (revision(place) == after && !has(Mutant::RepeatEvent));
        let start = track.places.partition_point(seen);
        let cut = start.saturating_add(limit.max(1));
        let Some(beyond) = track.places.get(cut).map(revision) else {
            let back = has(Mutant::BackInTime) && start == track.places.len();
            let through = if back { Revision(after.0.saturating_sub(1)) } else { newest };
            return Ok((self.collect(track, start, track.places.len()), through));
        };
        let whole = whole(start, cut, beyond, |index| track.places.get(index).map(revision));
        let end = if has(Mutant::SplitTxn) { cut } else { whole };
        let through = track.places.get(end - 1).map_or(newest, revision);
        let start = if has(Mutant::SlowMisses) { start + 1 } else { start };
        Ok((self.collect(track, start, end), if has(Mutant::EarlyBookmark) { newest } else { through }))
    }

    fn collect(&self, track: &Track, start: usize, end: usize) -> Vec<Event> {
        let events = track.places.range(start..end).filter_map(|place| self.at(*place));
        events.map(|event| self.limits.delivered(event, self.oldest)).collect()
    }

    /// The newest change at or below `prefix` in what is kept.
    pub(crate) fn last_change(&self, collection: &str, prefix: &str, after: Revision) -> Option<Revision> {
        let track = self.tracks.get(collection)?;
        let recent = track.places.iter().rev().filter_map(|place| self.at(*place));
        recent
            .take_while(|event| event.revision > after)
            .find(|event| event.key.item.starts_with(prefix))
            .map(|e| e.revision)
    }
}

/// Where to cut `start..cut` so that the transaction of the event just beyond the cut stays whole: before it, or
/// after it if it is the only one.
fn whole(start: usize, cut: usize, beyond: Revision, revision: impl Fn(usize) -> Option<Revision>) -> usize {
    let mut end = cut;
    while end > start && revision(end - 1) == Some(beyond) {
        end -= 1;
    }
    if end > start {
        return end;
    }
    end = cut;
    while revision(end) == Some(beyond) {
        end += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Core, Key, Keyspace, Op, Txn};

    fn filled(writes: u32) -> Core {
        let mut core = Core::new(Limits { history_events_max: 400, roots_max: 4, ..Limits::default() });
        for round in 0..writes {
            let (key, value) = (Key::new("c", (round % 10).to_string()), "v".into());
            let put = Op::Put { key, value, annex: "".into(), stamp_at: None, keyspace: Keyspace::Durable };
            let made = core.apply(Txn { preconditions: Vec::new(), ops: vec![put] }).expect("committed");
            core.publish(made.revision());
        }
        core
    }

    #[test]
    fn the_way_to_a_revision_is_short() {
        let core = filled(1000);
        let newest = core.revision().0;
        for revision in core.oldest().0..=newest {
            let way = core.way_to(Revision(revision)).expect("kept");
            let steps = match &way.steps {
                Steps::Do(events) | Steps::Undo(events) => events.len(),
            };
            // Half the interval between two roots, and the whole of the one that reaches out of the history.
            assert!(steps <= 100, "{steps} steps to {revision} of {newest}");
        }
    }

    #[test]
    fn roots_do_not_outlive_their_history() {
        let mut core = filled(1050);
        assert!((2..=5).contains(&core.history.roots.len()), "{} roots", core.history.roots.len());
        let newest = core.revision();
        let (_, folded) = core.way_to(Revision(newest.0 - 30)).expect("kept").run_kept();
        core.keep(folded);
        core.compact(newest);
        assert!(core.history.roots.is_empty() && core.history.folded.is_empty() && core.history.ring.is_empty());
        assert!(core.way_to(newest).is_ok());
    }
}
