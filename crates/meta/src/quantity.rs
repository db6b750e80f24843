//! Quantities: `500m`, `1Gi`, `1e3`; exact, canonical as upstream writes them.

use std::fmt;

/// A fixed-point number with the suffix family it was written in.
///
/// Value = `nanos` × 10⁻⁹, exact to a nano as upstream's canonical form is; larger magnitudes than
/// 2⁶³−1 whole units are capped, smaller fractions rounded up, both as upstream does.
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
    /// Reads a quantity. The error is upstream's sentence.
    pub fn parse(_text: &str) -> Result<Self, String> {
        todo!()
    }

    /// A whole number of units.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * 1_000_000_000, format: Format::DecimalSI }
    }

    /// Thousandths.
    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * 1_000_000, format: Format::DecimalSI }
    }

    /// Whole units, rounded up.
    pub fn units(&self) -> i64 {
        todo!()
    }

    /// Thousandths, rounded up.
    pub fn milli(&self) -> i64 {
        todo!()
    }

    /// Whether the value is exactly zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the value is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The sum, in `self`'s suffix family (in the other's when `self` is zero).
    pub fn plus(&self, _other: &Self) -> Self {
        todo!()
    }

    /// The difference, in `self`'s suffix family.
    pub fn minus(&self, _other: &Self) -> Self {
        todo!()
    }
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
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}
