//! How long what failed waits before it is tried again.

use std::time::Duration;

use stdx::Time;

use super::memory::Failures;
use super::shown::{Container, Exit};

/// A crash loop's first wait, its longest, and after how long a life its next one starts anew: upstream's numbers.
const CRASH_FIRST: Duration = Duration::from_secs(10);
const CRASH_MAX: Duration = Duration::from_secs(300);
const CRASH_RESET: Duration = Duration::from_secs(600);
/// How long the reason of a failed pull is shown before the wait itself is.
pub(super) const PULL_ERROR_SHOWN: Duration = Duration::from_secs(3);

/// A rule for trying again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    first: Duration,
    most: Duration,
}

/// Images: upstream's numbers.
pub(super) const PULL: Retry = Retry::new(Duration::from_secs(10), CRASH_MAX);
/// Volumes: upstream's numbers.
pub(super) const VOLUMES: Retry = Retry::new(Duration::from_millis(500), Duration::from_secs(122));
/// What upstream does again at the pod's next look, which an error brings on after ten seconds; the first look comes
/// sooner, for most errors of this kind are over at once.
pub(super) const LOOK: Retry = Retry::new(Duration::from_secs(1), Duration::from_secs(10));

impl Retry {
    const fn new(first: Duration, most: Duration) -> Retry {
        Retry { first, most }
    }

    /// When the next attempt is due.
    pub(super) fn next(self, failures: &Failures) -> Time {
        failures.retry_at(self.first, self.most)
    }
}

/// What a crash loop asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crash {
    /// From the end of the last life to the start of the next.
    pub wait: Duration,
    /// What the one after that has to wait: written on the next life.
    pub next: Duration,
}

/// The wait after the end of `last`. The first restart is immediate; then the wait doubles, until a life was long.
pub(super) fn crash(last: &Container, exit: &Exit) -> Crash {
    let was_long = exit.finished.since(last.marks.created) > CRASH_RESET;
    if last.marks.backoff.is_zero() || was_long {
        return Crash { wait: Duration::ZERO, next: CRASH_FIRST };
    }
    Crash { wait: last.marks.backoff, next: (last.marks.backoff * 2).min(CRASH_MAX) }
}

#[cfg(test)]
mod tests {
    use super::super::shown::{Marks, State};
    use super::*;

    #[test]
    fn the_wait_doubles_and_starts_anew_after_a_long_life() {
        let check = |backoff: u64, lived: i64, wait: u64, next: u64| {
            let exit = Exit { finished: Time::from_secs(1000 + lived), ..Exit::default() };
            let marks =
                Marks { created: Time::from_secs(1000), backoff: Duration::from_secs(backoff), ..Marks::default() };
            let last = Container {
                id: "x".into(),
                sandbox: "s".into(),
                name: "c".into(),
                attempt: 1,
                state: State::Exited(exit.clone()),
                image_id: String::new(),
                marks,
            };
            let expected = Crash { wait: Duration::from_secs(wait), next: Duration::from_secs(next) };
            assert_eq!(crash(&last, &exit), expected, "{backoff} {lived}");
        };
        check(0, 1, 0, 10);
        check(10, 1, 10, 20);
        check(160, 1, 160, 300);
        check(300, 599, 300, 300);
        check(300, 601, 0, 10);
    }
}
