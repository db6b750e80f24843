//! A point on the wall clock, as the Kubernetes API writes it.

use std::fmt;
use std::time::Duration;

/// Microseconds since the Unix epoch, UTC. A plain number: it is handed in, never asked for here
/// (only the crate `clock` reads a clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The epoch itself: what a zero `metav1.Time` means.
    pub const EPOCH: Time = Time(0);

    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// From whole seconds since the Unix epoch.
    pub const fn from_secs(secs: i64) -> Time {
        Time(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Reads RFC 3339 (`2026-11-30T02:25:50Z`, fractions and offsets allowed); `None` if it is not that.
    pub fn parse(text: &str) -> Option<Time> {
        let stamp: jiff::Timestamp = text.parse().ok()?;
        Some(Time(stamp.as_microsecond()))
    }

    /// RFC 3339 with whole seconds: the form of `metav1.Time`.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_second(self.as_secs()) {
            Ok(stamp) => stamp.to_string(),
            Err(_) => "0001-01-01T00:00:00Z".to_owned(),
        }
    }

    /// RFC 3339 with six digits of fraction: the form of `metav1.MicroTime`.
    pub fn to_rfc3339_micros(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(stamp) => format!("{stamp:.6}"),
            Err(_) => "0001-01-01T00:00:00.000000Z".to_owned(),
        }
    }

    /// The time from `earlier` to here; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This instant, `span` later (saturating).
    pub fn after(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_two_forms() {
        let time = Time::parse("2026-11-30T02:25:50.123456Z").expect("valid");
        assert_eq!(time.to_rfc3339(), "2026-11-30T02:25:50Z");
        assert_eq!(time.to_rfc3339_micros(), "2026-11-30T02:25:50.123456Z");
        assert_eq!(Time::parse("2026-11-30T03:25:50+01:00"), Some(Time::from_secs(time.as_secs())));
        assert_eq!(Time::parse("yesterday"), None);
    }

    #[test]
    fn spans_saturate() {
        let (early, late) = (Time::from_secs(10), Time::from_secs(12));
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.after(Duration::MAX).as_micros(), i64::MAX);
    }
}
