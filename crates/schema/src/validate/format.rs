//! Formats of text that upstream checks in custom resources; unknown ones are not checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use regex::Regex;

use super::pattern;

/// Whether `text` has the format; `None` when the format is not one that is checked. Dashes in names of formats do
/// not count (`date-time` is `datetime`).
pub(super) fn has(format: &str, text: &str) -> Option<bool> {
    if let "k8s-short-name" | "k8s-long-name" = format {
        return Some(is_k8s_name(format, text));
    }
    Some(match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None, false),
        "uuid3" => is_uuid(text, Some('3'), false),
        "uuid4" => is_uuid(text, Some('4'), true),
        "uuid5" => is_uuid(text, Some('5'), true),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => matches(&SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
        "hexcolor" => matches(&HEX_COLOR, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", text),
        "rgbcolor" => matches(&RGB_COLOR, RGB_COLOR_PATTERN, text),
        "byte" => is_base64(text),
        "password" => true,
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => matches(&DATE_TIME, DATE_TIME_PATTERN, text),
        _ => return None,
    })
}

static SSN: OnceLock<Option<Regex>> = OnceLock::new();
static HEX_COLOR: OnceLock<Option<Regex>> = OnceLock::new();
static RGB_COLOR: OnceLock<Option<Regex>> = OnceLock::new();
static DATE_TIME: OnceLock<Option<Regex>> = OnceLock::new();
static CREDIT_CARD: OnceLock<Option<Regex>> = OnceLock::new();
static DURATION: OnceLock<Option<Regex>> = OnceLock::new();

const RGB_COLOR_PATTERN: &str =
    r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*(,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*){2}\)$";
const DATE_TIME_PATTERN: &str =
    r"^\d{4}-\d{2}-\d{2}[Tt ]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$";
const CREDIT_CARD_PATTERN: &str = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}\
    |3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
const DURATION_PATTERN: &str = r"^((\d+)\s*([A-Za-zµ]+))$";

fn matches(cell: &'static OnceLock<Option<Regex>>, pattern: &str, text: &str) -> bool {
    let compiled = cell.get_or_init(|| pattern::compile(pattern).ok());
    compiled.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_k8s_name(format: &str, text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if format == "k8s-short-name" {
        text.len() <= 63 && is_label(text)
    } else {
        text.len() <= 253 && text.split('.').all(is_label)
    }
}

/// As Go's `url.ParseRequestURI`: an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    let printable = text.bytes().all(|b| b > 0x20 && b != 0x7f);
    if !printable || !has_valid_escapes(text) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut bytes = scheme.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        && !rest.is_empty()
}

fn has_valid_escapes(text: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    escapes.map(|(at, _)| at).all(|at| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2)))
}

/// A bare address, or one in angle brackets behind a name.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c));
    let is_quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let is_literal = domain.starts_with('[') && domain.ends_with(']') && domain.len() > 2;
    (is_quoted || local.split('.').all(is_atom)) && (is_literal || domain.split('.').all(is_atom))
}

/// Labels of letters, digits, symbols and inner dashes; the last of several has letters only. A single label may
/// have one dash, behind its first character.
fn is_hostname(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || "$+<=>^`|~".contains(c);
    let labels: Vec<&str> = text.split('.').collect();
    if text.len() > 255 || labels.iter().any(|label| label.is_empty() || label.len() > 63) {
        return false;
    }
    let Some((last, others)) = labels.split_last() else { return false };
    if others.is_empty() {
        let mut chars = last.chars();
        let first = chars.next().is_some_and(is_word);
        let rest = chars.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_word);
    }
    let is_label = |label: &&str| {
        !label.starts_with('-') && !label.ends_with('-') && label.chars().all(|c| is_word(c) || c == '-')
    };
    others.iter().all(is_label) && last.chars().count() >= 2 && last.chars().all(char::is_alphabetic)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let plain = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let max = if address.is_ipv4() { 32 } else { 128 };
    plain && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

/// 6, 8 or 20 bytes, with colons or dashes, or in groups of four digits with dots.
fn is_mac(text: &str) -> bool {
    let is_hex = |part: &str, width: usize| part.len() == width && part.bytes().all(|b| b.is_ascii_hexdigit());
    let grouped = |separator: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| is_hex(part, width))
    };
    grouped(':', 2, [6, 8, 20]) || grouped('-', 2, [6, 8, 20]) || grouped('.', 4, [3, 4, 10])
}

/// 8-4-4-4-12 hexadecimal digits, each dash optional; `version` is the digit at its place.
fn is_uuid(text: &str, version: Option<char>, has_variant: bool) -> bool {
    let mut digits = String::with_capacity(32);
    for (at, c) in text.char_indices() {
        match c {
            '-' if [8, 12, 16, 20].contains(&digits.len()) && at > 0 && !text[..at].ends_with('-') => {}
            c if c.is_ascii_hexdigit() => digits.push(c.to_ascii_lowercase()),
            _ => return false,
        }
    }
    digits.len() == 32
        && version.is_none_or(|v| digits.as_bytes()[12] == v as u8)
        && (!has_variant || b"89ab".contains(&digits.as_bytes()[16]))
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| *b != b'-' && *b != b' ').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let Some((last, first)) = digits.split_last().filter(|_| digits.len() == 10) else { return false };
    if !first.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let weighted = first.iter().zip(1_u32..).map(|(b, weight)| u32::from(b - b'0') * weight);
    let check = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    (weighted.sum::<u32>() + 10 * check) % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1_u32, 3].into_iter().cycle();
    digits.iter().zip(weights).map(|(b, weight)| u32::from(b - b'0') * weight).sum::<u32>() % 10 == 0
}

/// A known issuer's number with a valid check digit; other characters may stand between the digits.
fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(at, b): (usize, u8)| match (at % 2, u32::from(b - b'0')) {
        (1, digit) if digit > 4 => digit * 2 - 9,
        (1, digit) => digit * 2,
        (_, digit) => digit,
    };
    matches(&CREDIT_CARD, CREDIT_CARD_PATTERN, &digits)
        && digits.bytes().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && crate::conform::decode_base64(text).is_ok()
}

fn is_date(text: &str) -> bool {
    let shaped = text.len() == 10 && text.is_ascii();
    shaped && meta::Time::parse(&format!("{text}T00:00:00Z")).is_some()
}

/// As Go reads it (`1h30m`), or a number with a unit in words (`22 ns`, `3 days`).
fn is_duration(text: &str) -> bool {
    if meta::duration::parse(text).is_ok() {
        return true;
    }
    const UNITS: [&str; 29] = [
        "nanosecond",
        "nano",
        "ns",
        "nanoseconds",
        "nanos",
        "microsecond",
        "micro",
        "us",
        "µs",
        "microseconds",
        "micros",
        "millisecond",
        "milli",
        "ms",
        "milliseconds",
        "millis",
        "second",
        "sec",
        "s",
        "seconds",
        "minute",
        "min",
        "m",
        "minutes",
        "hour",
        "hr",
        "h",
        "hours",
        "day",
    ];
    const LONG_UNITS: [&str; 8] = ["d", "days", "week", "wk", "w", "weeks", "secs", "mins"];
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    matches(&DURATION, DURATION_PATTERN, text) && (UNITS.contains(&unit) || LONG_UNITS.contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn formats_are_recognised() {
        let check = |format: &str, good: &[&str], bad: &[&str]| {
            good.iter().for_each(|text| assert_eq!(has(format, text), Some(true), "{format} {text}"));
            bad.iter().for_each(|text| assert_eq!(has(format, text), Some(false), "{format} {text}"));
        };
        check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f", ""]);
        check("uri", &["http://a/b?c", "/path", "mailto:a@b"], &["a/b", "", "http://a b", "/%zz"]);
        check("email", &["a@b.c", "A <a@b>"], &["a", "@b", "a@", "a b@c", "A <a@b"]);
        check("hostname", &["a", "a.example", "a-b.example"], &["", "-a", "a..b", "a_b"]);
        check("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "10.0.0.256"]);
        check("ipv6", &["::1", "fe80::1"], &["10.0.0.1", ":::"]);
        check("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08"]);
        check("mac", &["01:23:45:67:89:ab", "0123.4567.89ab", "01-23-45-67-89-AB"], &["01:23", "01:23:45:67:89:zz"]);
        let uuid = "9f5b6f2e-3c1a-4b1e-8f7a-0123456789ab";
        check("uuid", &[uuid, "9f5b6f2e3c1a4b1e8f7a0123456789ab"], &["9f5b6f2e", "9f5b6f2e--3c1a4b1e8f7a0123456789ab"]);
        check("uuid4", &[uuid], &["9f5b6f2e-3c1a-5b1e-8f7a-0123456789ab"]);
        check("isbn", &["0321751043", "978-0321751041"], &["0321751044"]);
        check("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112", "1"]);
        check("ssn", &["123-45-6789"], &["12-345-6789"]);
        check("hexcolor", &["#FFFFFF", "abc"], &["#ggg"]);
        check("rgbcolor", &["rgb(255, 0,10)"], &["rgb(256,0,0)"]);
        check("byte", &["aGk="], &["?", ""]);
        check("date", &["2026-11-30"], &["2026-13-01", "2026-11-30T00:00:00Z"]);
        check("date-time", &["2026-11-30T01:02:03Z", "2014-12-15T19:30:20.000Z"], &["2026-11-30", "noon"]);
        check("duration", &["1h30m", "22 ns", "3 days"], &["soon", "3 parsecs"]);
        check("k8s-short-name", &["a-b"], &["A", "-a", "a.b"]);
        check("k8s-long-name", &["a.b-c"], &["a..b"]);
        assert_eq!(has("made-up", "x"), None);
    }
}
