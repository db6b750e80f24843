//! The text form of quantities: sign, digits, point, digits, suffix.

use crate::quantity::{BINARY_MAX, Format, NANOS_MAX};

const FORMAT_MSG: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC_MSG: &str = "unable to parse numeric part of quantity";
const SUFFIX_MSG: &str = "unable to parse quantity's suffix";

/// Decimal places of a nano.
const NANO_PLACES: i64 = 9;
/// Digits that upstream reads without arbitrary precision; beyond, it rewrites what it read.
const FAST_DIGITS: usize = 18;

/// A quantity's parts as written.
pub(crate) struct Written<'t> {
    negative: bool,
    /// Digits before the point without leading zeros; may be empty.
    whole: &'t str,
    /// Digits after the point; may be empty.
    fraction: &'t str,
    scale: Scale,
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of two.
    Binary(u32),
    /// A power of ten, and whether it was written as an exponent.
    Decimal(i64, bool),
}

impl<'t> Written<'t> {
    /// Takes the text apart. The error is upstream's sentence.
    pub(crate) fn scan(text: &'t str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(FORMAT_MSG.to_owned());
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (digits, rest) = leading_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
        if !is_suffix(suffix) {
            return Err(FORMAT_MSG.to_owned());
        }
        let scale = Scale::read(suffix).ok_or(SUFFIX_MSG)?;
        let whole = digits.trim_start_matches('0');
        let written = Self { negative: text.starts_with('-'), whole, fraction, scale };
        if digits.is_empty() && fraction.is_empty() && !written.is_fast() {
            return Err(NUMERIC_MSG.to_owned());
        }
        Ok(written)
    }

    /// Digits before the point as upstream counts them: no digit counts as a zero.
    fn whole_digits(&self) -> usize {
        self.whole.len().max(1)
    }

    /// Whether upstream reads the number in 64 bits.
    fn is_fast(&self) -> bool {
        match self.scale {
            Scale::Decimal(exponent, _) => {
                self.whole_digits() + self.fraction.len() <= FAST_DIGITS && self.place(exponent) >= -NANO_PLACES
            }
            // Each 2¹⁰ takes three digits of precision.
            Scale::Binary(exponent) => {
                self.fraction.is_empty() && self.whole_digits() + (exponent / 10 * 3) as usize <= 14
            }
        }
    }

    /// Whether upstream takes the text as canonical and keeps it.
    pub(crate) fn is_kept(&self) -> bool {
        if !self.is_fast() || self.whole.is_empty() {
            return false;
        }
        match self.scale {
            Scale::Decimal(exponent, _) => self.place(exponent) % 3 == 0 && !self.ends_in_three_zeros(),
            Scale::Binary(_) => self.whole.parse::<u64>().is_ok_and(|number| number % 8 != 0),
        }
    }

    /// The power of ten of the last digit.
    fn place(&self, exponent: i64) -> i64 {
        exponent - as_i64(self.fraction.len())
    }

    fn ends_in_three_zeros(&self) -> bool {
        let last = self.whole.bytes().chain(self.fraction.bytes()).rev().take(3);
        last.clone().count() == 3 && last.clone().all(|b| b == b'0')
    }

    /// The suffix family in which the amount is shown.
    pub(crate) fn shown_format(&self) -> Format {
        match self.scale {
            Scale::Decimal(_, false) => Format::DecimalSI,
            Scale::Decimal(_, true) => Format::DecimalExponent,
            Scale::Binary(_) if (1..1_000_000_000).contains(&self.nanos().abs()) => Format::DecimalSI,
            Scale::Binary(_) => Format::BinarySI,
        }
    }

    /// The amount in nanos, fractions of a nano rounded away from zero, capped.
    pub(crate) fn nanos(&self) -> i128 {
        let magnitude = match self.scale {
            Scale::Decimal(exponent, _) => self.decimal_nanos(exponent),
            Scale::Binary(exponent) => self.binary_nanos(exponent),
        };
        if self.negative { -magnitude } else { magnitude }
    }

    fn decimal_nanos(&self, exponent: i64) -> i128 {
        let digits = self.whole.bytes().chain(self.fraction.bytes());
        // How many of the digits stand before the point once the number is written in nanos.
        let kept = as_i64(self.whole.len()).saturating_add(exponent).saturating_add(NANO_PLACES);
        let (mut nanos, mut count, mut more) = (0, 0, false);
        for digit in digits {
            if count < kept {
                nanos = appended(nanos, digit, NANOS_MAX);
                count += 1;
            } else {
                more |= digit != b'0';
            }
        }
        while count < kept && nanos != 0 && nanos != NANOS_MAX {
            nanos = appended(nanos, b'0', NANOS_MAX);
            count += 1;
        }
        (nanos + i128::from(more)).min(NANOS_MAX)
    }

    fn binary_nanos(&self, exponent: u32) -> i128 {
        let unit = 10_i128.pow(9) << exponent;
        let whole = self.whole.bytes().fold(0, |number, digit| appended(number, digit, i128::from(i64::MAX)));
        // From the last digit to the first, each step rounds up, which rounds the sum up once.
        let fraction = self.fraction.bytes().rev().fold(0, |sum, digit| {
            let sum = sum + i128::from(digit - b'0') * unit;
            sum / 10 + i128::from(sum % 10 != 0)
        });
        whole.saturating_mul(unit).saturating_add(fraction).min(BINARY_MAX)
    }
}

impl Scale {
    fn read(suffix: &str) -> Option<Self> {
        let decimal = |exponent| Some(Self::Decimal(exponent, false));
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => Some(Self::Binary(10)),
            "Mi" => Some(Self::Binary(20)),
            "Gi" => Some(Self::Binary(30)),
            "Ti" => Some(Self::Binary(40)),
            "Pi" => Some(Self::Binary(50)),
            "Ei" => Some(Self::Binary(60)),
            _ => suffix.strip_prefix(['e', 'E'])?.parse().ok().map(|exponent| Self::Decimal(exponent, true)),
        }
    }
}

/// Letters, then a sign, then digits, each optional.
fn is_suffix(text: &str) -> bool {
    let signed = text.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    signed.strip_prefix(['-', '+']).unwrap_or(signed).bytes().all(|b| b.is_ascii_digit())
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The number with one more digit, at most `max`.
fn appended(number: i128, digit: u8, max: i128) -> i128 {
    number.saturating_mul(10).saturating_add(i128::from(digit - b'0')).min(max)
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
