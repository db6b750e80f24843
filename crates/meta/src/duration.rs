//! Go's duration text, the form of `metav1.Duration`: `1h2m3s`, `1.5s`, `-250ms`.

use std::fmt::Write;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// The magnitude of the most negative duration; one more than that of the largest.
const LIMIT: u64 = 1 << 63;

/// Reads a duration in nanoseconds. The error is Go's sentence.
pub fn parse(text: &str) -> Result<i64, String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(0);
    }
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (mut rest, mut sum) = (unsigned, 0_u64);
    loop {
        let (number, after) = Number::read(rest).ok_or_else(invalid)?;
        let (unit, after) = after.split_at(after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len()));
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let nanos = unit_nanos(unit)
            .ok_or_else(|| format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)))?;
        let part = number.times(nanos).ok_or_else(invalid)?;
        sum = sum.checked_add(part).filter(|sum| *sum <= LIMIT).ok_or_else(invalid)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    if text.starts_with('-') {
        return Ok(0_i64.wrapping_sub_unsigned(sum));
    }
    i64::try_from(sum).map_err(|_| invalid())
}

/// Writes nanoseconds as Go does: `1h2m3s`, `1.5s`, `250ms`, `0s`.
pub fn format(nanos: i64) -> String {
    let magnitude = nanos.unsigned_abs();
    let mut out = String::new();
    if nanos < 0 {
        out.push('-');
    }
    let (unit, name) = match magnitude {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..SECOND => (1_000_000, "ms"),
        _ => (SECOND, "s"),
    };
    let (hours, minutes) = (magnitude / SECOND / 3600, magnitude / SECOND / 60 % 60);
    let rest = magnitude % (60 * SECOND);
    if hours > 0 {
        push(&mut out, hours, "h");
    }
    if hours > 0 || minutes > 0 {
        push(&mut out, minutes, "m");
    }
    push(&mut out, rest / unit, "");
    push_fraction(&mut out, rest % unit, unit);
    out.push_str(name);
    out
}

fn push(out: &mut String, number: u64, unit: &str) {
    // Writing to text cannot fail.
    let _ = write!(out, "{number}{unit}");
}

/// The digits after the point without trailing zeros; nothing when there are none.
fn push_fraction(out: &mut String, mut part: u64, mut unit: u64) {
    if part > 0 {
        out.push('.');
    }
    while part > 0 {
        unit /= 10;
        push(out, part / unit, "");
        part %= unit;
    }
}

/// A number with a fraction, as Go reads it: `whole + fraction / scale`.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    /// The number at the start of the text and what follows it.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (digits, rest) = leading_digits(text);
        let (fraction, after) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
        if digits.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole = digits.bytes().try_fold(0_u64, appended)?;
        let (fraction, scale) = kept_fraction(fraction);
        Some((Self { whole, fraction, scale }, after))
    }

    fn times(&self, unit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit).filter(|product| *product <= LIMIT)?;
        // In floating point as Go does, so that roundings agree.
        let part = self.fraction as f64 * (unit as f64 / self.scale);
        whole.checked_add(part as u64).filter(|sum| *sum <= LIMIT)
    }
}

/// The digits of a fraction as long as they fit, and their power of ten; the rest is below a nanosecond.
fn kept_fraction(digits: &str) -> (u64, f64) {
    let (mut sum, mut scale) = (0_u64, 1.0);
    for digit in digits.bytes() {
        match appended(sum, digit).filter(|_| sum <= i64::MAX.unsigned_abs() / 10) {
            Some(next) => (sum, scale) = (next, scale * 10.0),
            None => break,
        }
    }
    (sum, scale)
}

/// The number with one more digit; `None` past the limit.
fn appended(sum: u64, digit: u8) -> Option<u64> {
    sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|sum| *sum <= LIMIT)
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn unit_nanos(name: &str) -> Option<u64> {
    match name {
        "ns" => Some(1),
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(SECOND),
        "m" => Some(60 * SECOND),
        "h" => Some(3600 * SECOND),
        _ => None,
    }
}

/// Quoted as Go's `time` does: bytes that are not printable ASCII in hexadecimal.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=0x7f => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NANOS: i64 = 1_000_000_000;

    #[test]
    fn durations_are_read() {
        let check = |text: &str, nanos: i64| assert_eq!(parse(text), Ok(nanos), "{text:?}");
        check("0", 0);
        check("-0", 0);
        check("5s", 5 * NANOS);
        check("1478s", 1478 * NANOS);
        check("-5s", -5 * NANOS);
        check("+5s", 5 * NANOS);
        check("5.0s", 5 * NANOS);
        check("5.6s", 5_600_000_000);
        check("5.s", 5 * NANOS);
        check(".5s", 500_000_000);
        check("1.00s", NANOS);
        check("1.0040s", 1_004_000_000);
        check("10ns", 10);
        check("11us", 11_000);
        check("12µs", 12_000);
        check("12μs", 12_000);
        check("13ms", 13_000_000);
        check("15m", 15 * 60 * NANOS);
        check("3h30m", 210 * 60 * NANOS);
        check("-1m30.5s", -90_500_000_000);
        check("39h9m14.425s", (39 * 3600 + 9 * 60 + 14) * NANOS + 425_000_000);
        check("52763797000ns", 52_763_797_000);
        check("0.3333333333333333333h", 20 * 60 * NANOS);
        check("9007199254740993ns", (1 << 53) + 1);
        check("9223372036854775807ns", i64::MAX);
        check("9223372036854775.807us", i64::MAX);
        check("-9223372036854775808ns", i64::MIN);
        check("0.100000000000000000000h", 6 * 60 * NANOS);
        check("0.830103483285477580700h", 49 * 60 * NANOS + 48_372_539_827);
    }

    #[test]
    fn refusals_are_gos_sentences() {
        let check = |text: &str, error: &str| assert_eq!(parse(text), Err(error.to_owned()), "{text:?}");
        check("", "time: invalid duration \"\"");
        check("3", "time: missing unit in duration \"3\"");
        check("1h3", "time: missing unit in duration \"1h3\"");
        check("-", "time: invalid duration \"-\"");
        check("s", "time: invalid duration \"s\"");
        check(".", "time: invalid duration \".\"");
        check(".s", "time: invalid duration \".s\"");
        check("1d", "time: unknown unit \"d\" in duration \"1d\"");
        check("1é\"", "time: unknown unit \"\\xc3\\xa9\\\"\" in duration \"1\\xc3\\xa9\\\"\"");
        check("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\"");
        check("3000000h", "time: invalid duration \"3000000h\"");
        check("-9223372036854775809ns", "time: invalid duration \"-9223372036854775809ns\"");
    }

    #[test]
    fn durations_are_written() {
        let check = |nanos: i64, text: &str| assert_eq!(format(nanos), text);
        check(0, "0s");
        check(1, "1ns");
        check(1_100, "1.1µs");
        check(2_200_000, "2.2ms");
        check(3_300_000_000, "3.3s");
        check(245 * NANOS, "4m5s");
        check(245_001_000_000, "4m5.001s");
        check(3600 * NANOS, "1h0m0s");
        check(18_367_001_000_000, "5h6m7.001s");
        check(480_000_000_001, "8m0.000000001s");
        check(i64::MAX, "2562047h47m16.854775807s");
        check(i64::MIN, "-2562047h47m16.854775808s");
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(nanos: i64) {
            prop_assert_eq!(parse(&format(nanos)), Ok(nanos));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.hmsnuµdé\"]{0,24}") {
            let _ = parse(&text).map(format);
        }
    }
}
