//! The pure half of the loop: which keys to look at, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stdx::Time;
use store::{Key, Revision};

use crate::Wake;

/// First delay after a failed turn; it doubles up to [`BACKOFF_MAX`].
pub const BACKOFF_MIN: Duration = Duration::from_millis(5);
/// Longest delay after failed turns. Upstream waits up to 1000 s, which looks dead to a person; the cost of one
/// turn in half a minute is nothing.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How performing a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Performed {
    /// All was done; the newest revision written, if anything was.
    Done {
        /// The newest revision written.
        wrote: Option<Revision>,
    },
    /// A step was refused because the world had moved on (conflict, exists, gone): look again at once when the
    /// view has moved, without being punished for it more than a moment.
    Stale {
        /// The newest revision written before that.
        wrote: Option<Revision>,
    },
    /// A step failed otherwise: try later, with growing delay.
    Failed {
        /// The newest revision written before that.
        wrote: Option<Revision>,
    },
}

/// The keys of one controller.
#[derive(Default)]
pub struct Loop {
    /// Due now, in order of key: deterministic, and no key waits for ever since a turn takes it out.
    ready: BTreeSet<Key>,
    /// Due at a time.
    timers: BTreeSet<(Time, Key)>,
    keys: BTreeMap<Key, State>,
}

#[derive(Default)]
struct State {
    timer: Option<Time>,
    failures: u32,
    /// The key is not looked at before the view has reached this revision: its own last write.
    seen_at_least: Revision,
    /// The key's turn is being performed.
    busy: bool,
    /// Something changed while busy.
    dirty: bool,
}

impl Loop {
    /// An empty loop.
    pub fn new() -> Loop {
        Loop::default()
    }

    /// Something changed that concerns `key`.
    pub fn wake(&mut self, key: Key) {
        let state = self.keys.entry(key.clone()).or_default();
        if state.busy {
            state.dirty = true;
        } else {
            self.ready.insert(key);
        }
    }

    /// The next key to look at, given the view's revision and the time; it is busy until [`Loop::done`].
    pub fn next(&mut self, seen: Revision, now: Time) -> Option<Key> {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(state) = self.keys.get_mut(&key) {
                state.timer = None;
            }
            self.wake(key);
        }
        let key = self.ready.iter().find(|key| self.keys.get(*key).is_none_or(|s| s.seen_at_least <= seen))?.clone();
        self.ready.remove(&key);
        self.keys.entry(key.clone()).or_default().busy = true;
        Some(key)
    }

    /// The turn of `key` has been performed.
    pub fn done(&mut self, key: &Key, performed: Performed, wake: Wake, now: Time) {
        let Some(state) = self.keys.get_mut(key) else { return };
        state.busy = false;
        let (Performed::Done { wrote } | Performed::Stale { wrote } | Performed::Failed { wrote }) = performed;
        state.seen_at_least = state.seen_at_least.max(wrote.unwrap_or_default());
        let again = match performed {
            Performed::Done { .. } => {
                state.failures = 0;
                match wake {
                    Wake::OnChange => None,
                    Wake::At(time) => Some(time),
                }
            }
            Performed::Stale { .. } | Performed::Failed { .. } => {
                state.failures = state.failures.saturating_add(1);
                Some(now.after(backoff(state.failures)))
            }
        };
        let dirty = std::mem::take(&mut state.dirty);
        if let Some(old) = state.timer.take() {
            self.timers.remove(&(old, key.clone()));
        }
        if let Some(time) = again {
            state.timer = Some(time);
            self.timers.insert((time, key.clone()));
        }
        if dirty {
            self.ready.insert(key.clone());
        }
        self.forget_if_idle(key);
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Whether nothing is due or being performed, now or later.
    pub fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.timers.is_empty() && self.keys.values().all(|state| !state.busy)
    }

    /// How many keys are due now.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// A key at rest costs nothing. Its last write need not be remembered: a wake-up comes from an event, and the
    /// gate matters only while the view is behind, which the caller's next `next` call shows.
    fn forget_if_idle(&mut self, key: &Key) {
        let idle = self.keys.get(key).is_some_and(|s| !s.busy && s.timer.is_none() && s.seen_at_least == Revision(0));
        if idle && !self.ready.contains(key) {
            self.keys.remove(key);
        }
    }

    /// Drops what is known about keys at rest whose last write the view has reached: call now and then.
    pub fn tidy(&mut self, seen: Revision) {
        let ready = &self.ready;
        self.keys.retain(|key, s| s.busy || s.timer.is_some() || s.seen_at_least > seen || ready.contains(key));
    }
}

fn backoff(failures: u32) -> Duration {
    BACKOFF_MIN.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("apps/replicasets", name)
    }

    #[test]
    fn a_change_during_a_turn_is_not_lost() {
        let mut keys = Loop::new();
        keys.wake(key("a"));
        let now = Time::from_secs(0);
        assert_eq!(keys.next(Revision(1), now), Some(key("a")));
        keys.wake(key("a"));
        assert_eq!(keys.next(Revision(1), now), None);
        keys.done(&key("a"), Performed::Done { wrote: None }, Wake::OnChange, now);
        assert_eq!(keys.next(Revision(1), now), Some(key("a")));
    }

    #[test]
    fn a_key_waits_for_its_own_write() {
        let mut keys = Loop::new();
        let now = Time::from_secs(0);
        keys.wake(key("a"));
        keys.next(Revision(1), now);
        keys.done(&key("a"), Performed::Done { wrote: Some(Revision(5)) }, Wake::OnChange, now);
        keys.wake(key("a"));
        assert_eq!(keys.next(Revision(4), now), None);
        assert_eq!(keys.next(Revision(5), now), Some(key("a")));
    }

    #[test]
    fn failures_back_off_and_wake_ups_fire() {
        let mut keys = Loop::new();
        let now = Time::from_secs(0);
        keys.wake(key("a"));
        keys.next(Revision(1), now);
        keys.done(&key("a"), Performed::Failed { wrote: None }, Wake::OnChange, now);
        assert_eq!(keys.next(Revision(1), now), None);
        let later = keys.next_timer().expect("a retry is planned");
        assert_eq!(keys.next(Revision(1), later), Some(key("a")));
        keys.done(&key("a"), Performed::Done { wrote: None }, Wake::OnChange, later);
        assert!(keys.is_idle());
        assert_eq!(backoff(40), BACKOFF_MAX);
    }
}
