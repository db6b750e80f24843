//! Schedules of CronJobs, as upstream's parser reads them: five fields, names, `@daily` and its like, `@every 1h`.
//!
//! Times are those of a zone. As upstream does, an hour that the clock skips is not made up for and a day field and a
//! weekday field that are both given match when either does.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};
use meta::Time;

/// How far ahead a time is looked for; `0 0 30 2 *` never comes.
const YEARS_MAX: i16 = 5;

/// A schedule in a zone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    Fields(Box<Fields>),
    /// Whole seconds, at least one.
    Every(i64),
}

/// Bit sets of matching values.
#[derive(Clone, Debug, PartialEq, Default)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The day field was `*` or `?`, with or without a step.
    any_day: bool,
    any_weekday: bool,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a schedule, with `TZ=zone` or `CRON_TZ=zone` in front if need be; `zone` is used otherwise (empty: UTC).
    pub fn parse(text: &str, zone: &str) -> Result<Schedule, String> {
        let text = text.trim();
        let (zone, text) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
            Some(rest) => rest.split_once(' ').ok_or("a zone without a schedule")?,
            None => (zone, text),
        };
        let zone = match zone {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| format!("unknown time zone {name}"))?,
        };
        Ok(Schedule { times: Times::parse(text.trim())?, zone })
    }

    /// The first time after `from`.
    pub fn next(&self, from: Time) -> Option<Time> {
        match &self.times {
            Times::Every(seconds) => Some(Time::from_secs(from.as_secs().saturating_add(*seconds))),
            Times::Fields(fields) => {
                let start = Timestamp::from_second(from.as_secs().checked_add(1)?).ok()?;
                let found = fields.next(&start.to_zoned_datetime(self.zone.clone()))?;
                Some(Time::from_secs(found.timestamp().as_second()))
            }
        }
    }
}

impl Times {
    fn parse(text: &str) -> Result<Times, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => match text.strip_prefix("@every ") {
                Some(span) => {
                    let nanos = meta::duration::parse(span)?;
                    return Ok(Times::Every((nanos / 1_000_000_000).max(1)));
                }
                None => text,
            },
        };
        Fields::parse(fields).map(|fields| Times::Fields(Box::new(fields)))
    }
}

impl Fields {
    fn parse(text: &str) -> Result<Fields, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            return Err(format!("expected exactly 5 fields, found {}: {text}", parts.len()));
        };
        let (weekday_bits, any_weekday) = field(weekdays, 0, 7, &WEEKDAYS, 0)?;
        let (days, any_day) = field(days, 1, 31, &[], 0)?;
        Ok(Fields {
            minutes: field(minutes, 0, 59, &[], 0)?.0,
            hours: field(hours, 0, 23, &[], 0)?.0,
            months: field(months, 1, 12, &MONTHS, 1)?.0,
            // Sunday is 0 and 7.
            weekdays: (weekday_bits | (weekday_bits >> 7)) & 0x7f,
            days,
            any_day,
            any_weekday,
        })
    }

    /// The first matching minute from `start` on.
    fn next(&self, start: &ZonedDateTime) -> Option<ZonedDateTime> {
        let zone = start.time_zone();
        let mut at = start.datetime();
        if at.second() > 0 || at.subsec_nanosecond() > 0 {
            at = next_minute(at)?;
        }
        let last_year = start.year().checked_add(YEARS_MAX)?;
        while at.year() <= last_year {
            if !has(self.months, at.month()) {
                at = at.date().first_of_month().checked_add(jiff::Span::new().months(1)).ok()?.at(0, 0, 0, 0);
            } else if !self.has_day(at) {
                at = at.date().tomorrow().ok()?.at(0, 0, 0, 0);
            } else if !has(self.hours, at.hour()) {
                at = at.date().at(at.hour(), 0, 0, 0).checked_add(jiff::Span::new().hours(1)).ok()?;
            } else if !has(self.minutes, at.minute()) {
                at = next_minute(at)?;
            } else {
                match self.occurrence(at, zone, start) {
                    Some(found) => return Some(found),
                    None => at = next_minute(at)?,
                }
            }
        }
        None
    }

    /// The instant of a wall-clock time, if there is one and it is not before `start`.
    fn occurrence(&self, at: DateTime, zone: &TimeZone, start: &ZonedDateTime) -> Option<ZonedDateTime> {
        let ambiguous = zone.to_ambiguous_zoned_datetime(at);
        let exists = !matches!(ambiguous.offset(), jiff::tz::AmbiguousOffset::Gap { .. });
        let found = ambiguous.compatible().ok().filter(|found| exists && found >= start);
        found.or_else(|| zone.to_ambiguous_zoned_datetime(at).later().ok().filter(|found| exists && found >= start))
    }

    fn has_day(&self, at: DateTime) -> bool {
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.date().weekday().to_sunday_zero_offset());
        if self.any_day || self.any_weekday { day && weekday } else { day || weekday }
    }
}

fn next_minute(at: DateTime) -> Option<DateTime> {
    at.date().at(at.hour(), at.minute(), 0, 0).checked_add(jiff::Span::new().minutes(1)).ok()
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits & 1_u64.checked_shl(value).unwrap_or(0) != 0)
}

/// Bits of a comma-separated field, and whether it is a star.
fn field(text: &str, min: u32, max: u32, names: &[&str], first_name: u32) -> Result<(u64, bool), String> {
    let (mut bits, mut any) = (0, false);
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let value = |text: &str| value(text, names, first_name);
        let is_star = range == "*" || range == "?";
        let (low, high) = match range.split_once('-') {
            _ if is_star => (min, max),
            Some((low, high)) => (value(low)?, value(high)?),
            None => {
                let low = value(range)?;
                (low, if step.is_some() { max } else { low })
            }
        };
        let step = step.map_or(Ok(1), |step| step.parse::<u32>().map_err(|_| format!("bad step in {part:?}")))?;
        any |= is_star && step <= 1;
        if low < min || high > max || low > high || step == 0 {
            return Err(format!("{part:?} is out of range {min}-{max}"));
        }
        let mut at = low;
        while at <= high {
            bits |= 1_u64 << at;
            at = at.saturating_add(step);
        }
    }
    Ok((bits, any))
}

fn value(text: &str, names: &[&str], first_name: u32) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    let named = names.iter().position(|name| *name == lower).and_then(|place| u32::try_from(place).ok());
    match named {
        Some(place) => Ok(place + first_name),
        None => text.parse().map_err(|_| format!("{text:?} is no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schedule: &str, zone: &str, from: &str, expected: &[&str]) {
        let schedule = Schedule::parse(schedule, zone).unwrap();
        let mut at = Time::parse(from).unwrap();
        for next in expected {
            at = schedule.next(at).unwrap();
            assert_eq!(at.to_rfc3339(), *next, "{schedule:?} in {zone}");
        }
    }

    #[test]
    fn times_follow_the_fields() {
        check("*/15 * * * *", "", "2026-11-30T02:25:50Z", &["2026-11-30T02:30:00Z", "2026-11-30T02:45:00Z"]);
        check("0 0 * * *", "", "2026-11-30T00:00:00Z", &["2026-12-01T00:00:00Z"]);
        check("5 4 * * sun", "", "2026-11-30T00:00:00Z", &["2026-12-06T04:05:00Z", "2026-12-13T04:05:00Z"]);
        check("0 0 * * 7", "", "2026-11-30T00:00:00Z", &["2026-12-06T00:00:00Z"]);
        check(
            "0 12 13 * fri",
            "",
            "2026-11-30T00:00:00Z",
            &["2026-12-04T12:00:00Z", "2026-12-11T12:00:00Z", "2026-12-13T12:00:00Z"],
        );
        check("0 0 29 feb *", "", "2026-11-30T00:00:00Z", &["2028-02-29T00:00:00Z"]);
        check("@hourly", "", "2026-11-30T23:59:59Z", &["2026-12-01T00:00:00Z"]);
        check("@every 90s", "", "2026-11-30T00:00:10Z", &["2026-11-30T00:01:40Z"]);
        check(
            "10-12/2 1 * * *",
            "",
            "2026-11-30T00:00:00Z",
            &["2026-11-30T01:10:00Z", "2026-11-30T01:12:00Z", "2026-12-01T01:10:00Z"],
        );
        assert_eq!(Schedule::parse("0 0 30 2 *", "").unwrap().next(Time::from_secs(0)), None);
    }

    #[test]
    fn zones_count() {
        check("0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z", &["2026-07-01T07:00:00Z"]);
        check("CRON_TZ=Asia/Tokyo 0 9 * * *", "", "2026-07-01T00:00:00Z", &["2026-07-02T00:00:00Z"]);
        // 02:30 does not exist on 29 March 2026 there.
        check("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-30T00:30:00Z"]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "x * * * *", "@never"] {
            assert!(Schedule::parse(text, "").is_err(), "{text}");
        }
        assert!(Schedule::parse("* * * * *", "Mars/Phobos").is_err());
    }
}
