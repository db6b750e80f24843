//! Quantities: `500m`, `1Gi`, `1e3`; exact, canonical as upstream writes them.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::quantity_text::Written;

/// Nanos in one unit.
const UNIT: i128 = 1_000_000_000;
/// Nanos in one thousandth.
const MILLI: i128 = 1_000_000;
/// Largest magnitude held, in nanos: 5×10²⁸ units. Far above every real amount, and sums of two still fit `i128`.
pub(crate) const NANOS_MAX: i128 = 10_i128.pow(38) / 2;
/// Largest magnitude of an amount written with a binary suffix, in nanos: 2⁶³−1 units, upstream's cap.
pub(crate) const BINARY_MAX: i128 = i64::MAX as i128 * UNIT;

/// A fixed-point number with the suffix family it was written in.
///
/// Value = `nanos` × 10⁻⁹, exact to a nano as upstream's canonical form is. Smaller fractions are rounded away
/// from zero. Amounts with binary suffixes are capped at 2⁶³−1 whole units as upstream does, others at
/// 5×10²⁸ (where upstream grows without bound). From 1000E on the suffix stays `E`, where upstream loses it.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffix family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `Ki`, `Mi`, …
    BinarySI,
    /// `m`, `k`, `M`, …
    DecimalSI,
    /// `e3`, `E6`.
    DecimalExponent,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSI };

    /// Reads a quantity. The error is upstream's sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written = Written::scan(text)?;
        Ok(Self::capped(written.nanos(), written.shown_format()))
    }

    /// Reads a quantity as JSON may carry it: text (blanks around it are ignored) or a number.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::String(text) => Self::parse(text.trim()),
            other => Self::parse(&other.to_string()),
        }
    }

    /// The text that the API stores and shows for a quantity written as `text`.
    ///
    /// Upstream keeps what it considers canonical already as it was written (among it `1.500` and `+5`) and
    /// rewrites the rest canonically; blanks around it are dropped. The error is upstream's sentence.
    pub fn normalize(text: &str) -> Result<Cow<'_, str>, String> {
        let text = text.trim();
        if Written::scan(text)?.is_kept() {
            return Ok(Cow::Borrowed(text));
        }
        Self::parse(text).map(|quantity| Cow::Owned(quantity.to_string()))
    }

    /// A whole number of units.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * UNIT, format: Format::DecimalSI }
    }

    /// A whole number of bytes, shown with a binary suffix.
    pub fn from_bytes(bytes: i64) -> Self {
        Self::from_units(bytes).with_format(Format::BinarySI)
    }

    /// Thousandths.
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * MILLI, format: Format::DecimalSI }
    }

    /// The same amount in another suffix family.
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The suffix family.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whole units, rounded away from zero; the nearest `i64` when out of its range.
    pub fn units(&self) -> i64 {
        saturated(divided(self.nanos, UNIT))
    }

    /// Thousandths, rounded away from zero; the nearest `i64` when out of its range.
    pub fn milli(&self) -> i64 {
        saturated(divided(self.nanos, MILLI))
    }

    /// The nearest floating-point number of units.
    pub fn as_f64(&self) -> f64 {
        self.nanos as f64 / UNIT as f64
    }

    /// Whether the value is exactly zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the value has no fraction of a unit.
    pub fn is_whole(&self) -> bool {
        self.nanos % UNIT == 0
    }

    /// The sum, in `self`'s suffix family (in the other's when `self` is zero).
    pub fn plus(&self, other: &Self) -> Self {
        Self::capped(self.nanos + other.nanos, self.format_with(other))
    }

    /// The difference, in `self`'s suffix family (in the other's when `self` is zero).
    pub fn minus(&self, other: &Self) -> Self {
        Self::capped(self.nanos - other.nanos, self.format_with(other))
    }

    /// The product with a whole number, in `self`'s suffix family.
    pub fn times(&self, factor: i64) -> Self {
        Self::capped(self.nanos.saturating_mul(i128::from(factor)), self.format)
    }

    fn format_with(&self, other: &Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }

    fn capped(nanos: i128, format: Format) -> Self {
        Self { nanos: nanos.clamp(-NANOS_MAX, NANOS_MAX), format }
    }
}

/// The quotient rounded away from zero.
fn divided(nanos: i128, by: i128) -> i128 {
    nanos / by + (nanos % by).signum()
}

fn saturated(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        // Amounts below 1024 and fractions would lose by a binary suffix, so they go without one.
        let binary = self.format == Format::BinarySI && self.is_whole() && self.nanos.abs() >= 1024 * UNIT;
        if binary {
            let (number, thousands) = without_factors(self.nanos / UNIT, 1024, BINARY.len() - 1);
            return write!(f, "{number}{}", BINARY.get(thousands).copied().unwrap_or_default());
        }
        // Exponents have no largest one; suffixes end at E.
        let steps = if self.format == Format::DecimalExponent { usize::MAX } else { DECIMAL.len() - 1 };
        let (number, thousands) = without_factors(self.nanos, 1000, steps);
        match (self.format, thousands) {
            (Format::DecimalExponent, 3) => write!(f, "{number}"),
            // At most 12 thousands, so the exponent is small.
            (Format::DecimalExponent, _) => write!(f, "{number}e{}", thousands as i32 * 3 - 9),
            _ => write!(f, "{number}{}", DECIMAL.get(thousands).copied().unwrap_or_default()),
        }
    }
}

/// Suffixes by powers of 1000, from nano on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes by powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Divides the factor out as often as it goes, at most `most` times; the quotient and how often it went.
fn without_factors(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number != 0 && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests;
