//! Clocks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use stdx::Time;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Wall-clock time; may jump either way.
    fn now(&self) -> Time;
    /// Time since an arbitrary start; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[allow(clippy::disallowed_methods, reason = "this is the place that asks the time")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the place that asks the time")]
    fn now(&self) -> Time {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Time::EPOCH.after(since),
            Err(before) => Time::from_micros(-i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX)),
        }
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that stands still until it is moved: for simulation, plans and tests.
pub struct ManualClock {
    micros: AtomicI64,
    elapsed_micros: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn at(start: Time) -> ManualClock {
        ManualClock { micros: AtomicI64::new(start.as_micros()), elapsed_micros: AtomicI64::new(0) }
    }

    /// Moves both the wall and the monotonic time forward.
    pub fn advance(&self, span: Duration) {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        self.micros.fetch_add(micros, Ordering::SeqCst);
        self.elapsed_micros.fetch_add(micros, Ordering::SeqCst);
    }

    /// Makes the wall clock jump, either way; the monotonic time does not notice.
    pub fn jump_to(&self, time: Time) {
        self.micros.store(time.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_micros(self.micros.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.elapsed_micros.load(Ordering::SeqCst)).unwrap_or(0))
    }
}
