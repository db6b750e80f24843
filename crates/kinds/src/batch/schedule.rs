//! Schedules of CronJobs: five fields, or a word like `@daily`, as the `cron` of Kubernetes reads them.

use std::num::IntErrorKind;

use jiff::civil::{Date, Time as Clock};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp};
use meta::Time;

/// How far ahead a next time is looked for: schedules like 30 February never come, others within a leap-year cycle.
const DAYS_MAX: usize = 366 * 5;
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something happens again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    rule: Rule,
    zone: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Fields(Box<Fields>),
    Every(SignedDuration),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: Field,
    hours: Field,
    days_of_month: Field,
    months: Field,
    days_of_week: Field,
}

/// The numbers that fit, as bits; `any` remembers a star, which days treat apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    bits: u64,
    any: bool,
}

struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOUR: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAY_OF_MONTH: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTH: Bounds = Bounds { min: 1, max: 12, names: MONTHS };
const DAY_OF_WEEK: Bounds = Bounds { min: 0, max: 6, names: DAYS };

impl Schedule {
    /// Reads a schedule. The error is upstream's sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (zone, rest) = split_zone(text)?;
        let rule = if rest.starts_with('@') { descriptor(rest)? } else { Rule::Fields(Box::new(fields(rest)?)) };
        Ok(Self { rule, zone: zone.map(str::to_owned) })
    }

    /// The first time after `after`, on the clock of `zone` unless the schedule names its own; `None` when there is
    /// none within five years or the zone is unknown.
    pub fn next(&self, after: Time, zone: Option<&str>) -> Option<Time> {
        let zone = match self.zone.as_deref().or(zone) {
            Some(name) => TimeZone::get(name).ok()?,
            None => TimeZone::UTC,
        };
        match &self.rule {
            Rule::Every(span) => {
                let micros = i64::try_from(span.as_micros()).ok()?;
                Some(Time::from_secs(Time::from_micros(after.as_micros().checked_add(micros)?).as_secs()))
            }
            Rule::Fields(fields) => fields.next(after, &zone),
        }
    }
}

/// A zone written before the schedule itself.
fn split_zone(text: &str) -> Result<(Option<&str>, &str), String> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let Some((zone, rest)) = rest.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    if !zone.is_empty() && TimeZone::get(zone).is_err() {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok((Some(zone).filter(|zone| !zone.is_empty()), rest.trim()))
}

fn descriptor(text: &str) -> Result<Rule, String> {
    let five = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return every(text),
    };
    fields(five).map(|fields| Rule::Fields(Box::new(fields)))
}

fn every(text: &str) -> Result<Rule, String> {
    let Some(span) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let parsed =
        go_duration(span).ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {span:?}"))?;
    // Anything finer than a second is not kept.
    Ok(Rule::Every(SignedDuration::from_secs(parsed.as_secs().max(1))))
}

/// Reads `1h30m`, `90s`, `1.5h`.
fn go_duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        let unit_end = rest.get(digits..)?.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = rest.get(digits..)?.split_at(unit_end.unwrap_or(rest.len() - digits));
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number * scale;
        rest = after;
    }
    let fits = !text.is_empty() && seconds < 9e9;
    fits.then(|| SignedDuration::from_secs_f64(seconds))
}

fn fields(text: &str) -> Result<Fields, String> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minutes, hours, days_of_month, months, days_of_week] = parts[..] else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    };
    Ok(Fields {
        minutes: field(minutes, &MINUTE)?,
        hours: field(hours, &HOUR)?,
        days_of_month: field(days_of_month, &DAY_OF_MONTH)?,
        months: field(months, &MONTH)?,
        days_of_week: field(days_of_week, &DAY_OF_WEEK)?,
    })
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    text.split(',').filter(|part| !part.is_empty()).try_fold(Field::default(), |sum, part| {
        let range = range(part, bounds)?;
        Ok(Field { bits: sum.bits | range.bits, any: sum.any || range.any })
    })
}

/// `*`, `5`, `1-5`, `*/15`, `3-20/2`, `mon-fri`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let slashes: Vec<&str> = text.split('/').collect();
    let hyphens: Vec<&str> = slashes.first().unwrap_or(&"").split('-').collect();
    let (start, mut end, mut any) = match hyphens[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max, true),
        [one] => (number(one, bounds)?, number(one, bounds)?, false),
        [low, high] => (number(low, bounds)?, number(high, bounds)?, false),
        _ => {
            number(hyphens.first().unwrap_or(&""), bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let step = match slashes[..] {
        [_] => 1,
        [_, step] => {
            let step = plain_number(step)?;
            if hyphens.len() == 1 {
                end = bounds.max;
            }
            any = any && step <= 1;
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    check_range(start, end, step, bounds, text)?;
    let bits = (start..=end).step_by(step as usize).fold(0, |bits, number| bits | 1 << number);
    Ok(Field { bits, any })
}

fn check_range(start: u32, end: u32, step: u32, bounds: &Bounds, text: &str) -> Result<(), String> {
    let Bounds { min, max, .. } = bounds;
    if start < *min {
        Err(format!("beginning of range ({start}) below minimum ({min}): {text}"))
    } else if end > *max {
        Err(format!("end of range ({end}) above maximum ({max}): {text}"))
    } else if start > end {
        Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"))
    } else if step == 0 {
        Err(format!("step of range should be a positive number: {text}"))
    } else {
        Ok(())
    }
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let named = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match named.and_then(|index| u32::try_from(index).ok()) {
        Some(index) => Ok(index + bounds.min),
        None => plain_number(text),
    }
}

fn plain_number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number @ ..=-1) => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(fault) => {
            let reason = match fault.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {reason}"))
        }
    }
}

impl Field {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits.checked_shr(number).unwrap_or(0) & 1 == 1)
    }
}

impl Fields {
    fn next(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        let first = zone.to_datetime(Timestamp::from_microsecond(after.as_micros()).ok()?).date();
        let day = Span::new().days(1);
        let days = std::iter::successors(Some(first), |date| date.checked_add(day).ok()).take(DAYS_MAX);
        days.filter(|date| self.has_date(*date)).find_map(|date| self.next_on(date, after, zone))
    }

    /// When both kinds of days are limited, either will do.
    fn has_date(&self, date: Date) -> bool {
        let of_month = self.days_of_month.has(date.day());
        let of_week = self.days_of_week.has(date.weekday().to_sunday_zero_offset());
        let either = !self.days_of_month.any && !self.days_of_week.any;
        self.months.has(date.month()) && if either { of_month || of_week } else { of_month && of_week }
    }

    /// The earliest fitting time of that day after `after`. What the clock skips does not happen, what it repeats
    /// happens twice.
    fn next_on(&self, date: Date, after: Time, zone: &TimeZone) -> Option<Time> {
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        let clocks = hours.flat_map(|hour| {
            let minutes = (0..60).filter(|minute| self.minutes.has(*minute));
            minutes.map(move |minute| Clock::constant(hour, minute, 0, 0))
        });
        clocks.flat_map(|clock| instants(date.to_datetime(clock), zone)).filter(|time| *time > after).min()
    }
}

fn instants(clock: jiff::civil::DateTime, zone: &TimeZone) -> Vec<Time> {
    let at = |offset: jiff::tz::Offset| offset.to_timestamp(clock).ok().map(|stamp| Time::from_secs(stamp.as_second()));
    match zone.to_ambiguous_timestamp(clock).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(offset).into_iter().collect(),
        AmbiguousOffset::Gap { .. } => Vec::new(),
        AmbiguousOffset::Fold { before, after } => [at(before), at(after)].into_iter().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_like_upstream() {
        let check = |text: &str, fault: &str| assert_eq!(Schedule::parse(text).unwrap_err(), fault, "{text}");
        check("error", "expected exactly 5 fields, found 1: [error]");
        check("* * * *", "expected exactly 5 fields, found 4: [* * * *]");
        check("60 * * * *", "end of range (60) above maximum (59): 60");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1");
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax");
        check(
            "9999999999999999999 * * * *",
            "failed to parse int from 9999999999999999999: strconv.Atoi: parsing \"9999999999999999999\": value out of \
             range",
        );
        check("* * * * 7", "end of range (7) above maximum (6): 7");
        check("@unknown", "unrecognized descriptor: @unknown");
        check("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]");
        check("TZ=No/Where * * * * *", "provided bad location No/Where: unknown time zone No/Where");
    }

    #[test]
    fn the_next_time() {
        let check = |text: &str, zone: Option<&str>, after: &str, expected: Option<&str>| {
            let schedule = Schedule::parse(text).expect("valid");
            let next = schedule.next(Time::parse(after).expect("valid"), zone);
            assert_eq!(next.map(Time::to_rfc3339).as_deref(), expected, "{text} after {after}");
        };
        check("*/15 * * * *", None, "2026-01-01T00:07:30Z", Some("2026-01-01T00:15:00Z"));
        check("*/15 * * * *", None, "2026-01-01T00:15:00Z", Some("2026-01-01T00:30:00Z"));
        check("0 0 1 * *", None, "2026-01-01T00:00:00Z", Some("2026-02-01T00:00:00Z"));
        check("@weekly", None, "2026-01-01T00:00:00Z", Some("2026-01-04T00:00:00Z"));
        check("0 9 * * mon-fri", None, "2026-01-02T09:00:00Z", Some("2026-01-05T09:00:00Z"));
        check("0 0 13 * fri", None, "2026-01-03T00:00:00Z", Some("2026-01-09T00:00:00Z"));
        check("0 0 30 feb *", None, "2026-01-01T00:00:00Z", None);
        check("0 0 29 2 *", None, "2026-01-01T00:00:00Z", Some("2028-02-29T00:00:00Z"));
        check("0/20 5 * * *", None, "2026-01-01T05:20:00Z", Some("2026-01-01T05:40:00Z"));
        check("@every 1h30m", None, "2026-01-01T00:00:00Z", Some("2026-01-01T01:30:00Z"));
        check("0 12 * * *", Some("America/New_York"), "2026-01-01T00:00:00Z", Some("2026-01-01T17:00:00Z"));
        check("CRON_TZ=Asia/Tokyo 0 9 * * *", None, "2026-01-01T00:00:00Z", Some("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn clocks_that_are_set() {
        let check = |text: &str, after: &str, expected: &str| {
            let schedule = Schedule::parse(text).expect("valid");
            let next = schedule.next(Time::parse(after).expect("valid"), Some("America/New_York"));
            assert_eq!(next.map(Time::to_rfc3339).as_deref(), Some(expected));
        };
        // 02:30 does not exist on 8 March 2026.
        check("30 2 * * *", "2026-03-08T05:00:00Z", "2026-03-09T06:30:00Z");
        // 01:30 comes twice on 1 November 2026.
        check("30 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z");
        check("30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z");
    }
}
