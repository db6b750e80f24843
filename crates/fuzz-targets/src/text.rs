//! Words of objects: quantities, durations, times, schedules, tokens of lists.

use api::ContinueToken;
use kinds::schedule::Schedule;
use meta::{Quantity, Time, duration};

use crate::{inputs, text_of};

/// Reading is exact, canonical forms stay, and the amount is what arithmetic on the digits says.
pub fn quantity(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let parsed = Quantity::parse(text);
    let Ok(amount) = &parsed else { return };
    let written = amount.to_string();
    let again = Quantity::parse(&written).unwrap_or_else(|error| panic!("{text:?} is {written:?}: {error}"));
    assert_eq!(again, *amount, "{text:?} is {written:?}");
    assert_eq!(again.to_string(), written, "the canonical form of {text:?} stays");
    let normal = Quantity::normalize(text).expect("what can be read can be normalized").into_owned();
    assert_eq!(Quantity::normalize(&normal).expect("and again"), normal, "{text:?}");
    assert_eq!(Quantity::parse(&normal).expect("and read"), *amount, "{text:?} is normally {normal:?}");
    if let Some(expected) = by_digits(text) {
        let difference = (amount.as_f64() - expected).abs();
        assert!(difference <= 1.0e-9 + expected.abs() * 1.0e-12, "{text:?} is {} not {expected}", amount.as_f64());
    }
    assert_eq!(amount.plus(&Quantity::ZERO), *amount);
    let _ = (amount.plus(amount), amount.minus(amount), amount.times(i64::MIN), amount.units(), amount.milli());
}

/// The amount by floating-point arithmetic, which another implementation did; `None` beyond what both hold.
fn by_digits(text: &str) -> Option<f64> {
    let cut = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(cut);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        exponent => 10f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let amount = digits.parse::<f64>().ok()? * factor;
    (amount.abs() < 9e18).then_some(amount)
}

pub fn quantity_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "500m",
        "1Gi",
        "1e3",
        "0.5",
        "-1.5",
        "1E",
        "100n",
        "+5",
        ".5",
        "5.",
        "1.500",
        "9223372036854775807",
        "9223372036854775808Ki",
        "1e1000000",
        "0x1",
        "1Ki1",
        "1e-12",
        "12345678901234567890123456789012345678901234567890",
        "0.000000000000000000000000000001Ei",
        "1u",
    ])
}

/// What is read is written as what is read as it.
pub fn duration(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(nanos) = duration::parse(text) else { return };
    let written = duration::format(nanos);
    assert_eq!(duration::parse(&written), Ok(nanos), "{text:?} is {written:?}");
}

pub fn duration_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "1h2m3.5s",
        "-1.5h",
        "100ms",
        "1us",
        "1µs",
        "5ns",
        "0",
        "+5m",
        "9223372036854775807ns",
        "2562047h47m16.854775808s",
        ".s",
        "1",
    ])
}

/// The same for times, within what the API can write.
pub fn time(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Some(time) = Time::parse(text) else { return };
    assert_eq!(Time::parse(&time.to_rfc3339_micros()), Some(time), "{text:?}");
    let whole = Time::parse(&time.to_rfc3339()).expect("a written time can be read");
    assert_eq!(whole.as_secs(), time.as_secs(), "{text:?}");
}

pub fn time_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "2026-11-30T02:25:50Z",
        "2026-11-30T02:25:50.123456+05:30",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "-000001-01-01T00:00:00Z",
        "2016-12-31T23:59:60Z",
        "2026-11-30 02:25:50Z[Europe/Berlin]",
    ])
}

/// The next time comes after, and the one after that after it.
pub fn cron(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(schedule) = Schedule::parse(text) else { return };
    for (start, zone) in
        [(1_700_000_000, None), (1_711_846_700, Some("Europe/Berlin")), (4_102_444_700, Some("Nowhere/At"))]
    {
        let start = Time::from_secs(start);
        let Some(first) = schedule.next(start, zone) else { continue };
        assert!(first > start, "{text:?}");
        if let Some(second) = schedule.next(first, zone) {
            assert!(second > first, "{text:?}");
        }
    }
}

pub fn cron_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "* * * * *",
        "*/5 0-6 1,15 * MON-FRI",
        "0 0 31 2 *",
        "@hourly",
        "@every 1h30m",
        "TZ=Europe/Berlin 30 2 * * *",
        "CRON_TZ=UTC 0 0 29 2 *",
        "59 23 31 12 7",
        "0 0 ? * ?",
        "@yearly",
        "@every 1ns",
        "1-70 * * * *",
    ])
}

/// A token that is taken is written as one that is taken as the same.
pub fn continue_token(data: &[u8]) {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(data);
    for text in text_of(data).into_iter().chain([encoded.as_str()]) {
        if let Ok(Some(token)) = ContinueToken::parse(text) {
            assert_eq!(ContinueToken::parse(&token.encode()).expect("ours"), Some(token), "{text:?}");
        }
    }
}

pub fn continue_token_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":7,\"start\":\"default/web\\u0000\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":-1,\"start\":\"../kube-system/a\"}",
        "{\"v\":\"meta.k8s.io/v1\",\"rv\":9223372036854775808,\"start\":\"\"}",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NywiYSI6MX0",
    ])
}
