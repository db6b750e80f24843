//! Mistakes planted on purpose, to see whether the suite notices: each is one that a store with one node really had.
//! Outside tests none can be planted: [`Limits::has`] is then `false` for good.

use std::sync::Arc;

use crate::{Change, Event, Limits, Revision};

macro_rules! mutants {
    ($($(#[doc = $doc:expr])+ $name:ident,)+) => {
        /// One mistake. Numbers are those of etcd's issues, where it is theirs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name,)+];
        }
    };
}

mutants! {
    /// A watcher is told that it is up to date before it has got the events (15220).
    EarlyBookmark,
    /// A resumed watch goes back in time (15271).
    BackInTime,
    /// A resumed watch gets the last event again (17247).
    RepeatEvent,
    /// A watcher that is slow misses an event (17529).
    SlowMisses,
    /// Compaction takes along the deletion that follows it, and says nothing (18089).
    CompactDeletion,
    /// A compacted revision is read, as something it never was (18667).
    ReadCompacted,
    /// A watch that begins just before the compacted revision begins after it (19179).
    ResumeCompacted,
    /// A watch that begins in the future is told of now (20221).
    WatchFuture,
    /// What is given up for want of room is not remembered: who is behind misses it.
    ForgetLoss,
    /// The events of a transaction come in two deliveries.
    SplitTxn,
    /// A watch of a collection that was always empty gets its neighbour's events.
    Neighbour,
    /// The value before is not known where it is older than the history.
    PreviousCompacted,
    /// A deletion that says something is told as a change.
    DeletionIsChange,
    /// Only the first precondition is looked at.
    FirstPrecondition,
    /// Preconditions are compared with what readers see, not with what waits before them.
    StalePreconditions,
    /// Listeners are told of the first collection of a transaction only.
    FirstCollection,
}

impl Limits {
    /// Whether this mistake is planted; never, outside tests.
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        #[cfg(any(test, feature = "suite"))]
        return self.mutant == Some(mutant);
        #[cfg(not(any(test, feature = "suite")))]
        {
            let _ = mutant;
            false
        }
    }

    /// An event as a watcher gets it.
    pub(crate) fn delivered(&self, event: &Event, oldest: Revision) -> Event {
        let mut event = event.clone();
        if self.has(Mutant::PreviousCompacted) {
            event.previous = event.previous.filter(|previous| previous.modified >= oldest);
        }
        let says = |event: &Event| event.previous.as_ref().is_some_and(|was| !Arc::ptr_eq(was, &event.entry));
        if self.has(Mutant::DeletionIsChange) && event.change == Change::Deleted && says(&event) {
            event.change = Change::Modified;
        }
        event
    }
}
