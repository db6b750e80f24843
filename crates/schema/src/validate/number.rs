//! Numbers: ranges, multiples, and the width that a type has.

use meta::{FieldError, FieldPath};
use serde_json::{Number, Value};

use super::{Checker, Outcome};
use crate::{Facets, IntFormat, Schema, Shape};

/// Whether two values are equal, `1` and `1.0` being the same.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

impl Checker {
    pub(super) fn number(
        &self,
        schema: &Schema,
        facets: Option<&Facets>,
        number: &Number,
        path: &FieldPath<'_>,
    ) -> Outcome {
        let mut out = Outcome { matches: 2, ..Outcome::default() };
        out.push(self.width_fault(schema, facets, number, path));
        let Some(facets) = facets else { return out };
        let value = Value::Number(number.clone());
        if let Some(factor) = facets.multiple_of.filter(|factor| !is_multiple(number, *factor)) {
            out.push(self.invalid(path, &value, format_args!("should be a multiple of {factor}")));
        }
        if let Some((max, exclusive)) = facets.maximum
            && exceeds(number, max, exclusive, |a, b| a > b)
        {
            let or_equal = if exclusive { "" } else { " or equal to" };
            out.push(self.invalid(path, &value, format_args!("should be less than{or_equal} {max}")));
        }
        if let Some((min, exclusive)) = facets.minimum
            && exceeds(number, min, exclusive, |a, b| a < b)
        {
            let or_equal = if exclusive { "" } else { " or equal to" };
            out.push(self.invalid(path, &value, format_args!("should be greater than{or_equal} {min}")));
        }
        out
    }

    /// A whole number too large for its type; upstream blames the object, not the field.
    fn width_fault(
        &self,
        schema: &Schema,
        facets: Option<&Facets>,
        number: &Number,
        path: &FieldPath<'_>,
    ) -> Option<FieldError> {
        let Shape::Integer(width) = schema.shape else { return None };
        let whole = number.as_i64().or_else(|| whole_double(number));
        let fits = match (width, whole) {
            (_, None) => number.is_f64() && number.as_f64().is_some_and(|d| d.fract() != 0.0),
            (IntFormat::Int32, Some(whole)) => i32::try_from(whole).is_ok(),
            (IntFormat::Int64, Some(_)) => true,
        };
        if fits {
            return None;
        }
        let format = match facets.and_then(|f| f.format.as_deref()) {
            Some(format) => format!("with format {format}"),
            None => "(default format)".to_owned(),
        };
        Some(FieldError::invalid(&self.base, "", format!("Checked value must be of type integer {format} in {path}")))
    }
}

fn whole_double(number: &Number) -> Option<i64> {
    /// Doubles up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let double = number.as_f64().filter(|d| number.is_f64() && d.fract() == 0.0 && d.abs() <= EXACT)?;
    #[allow(clippy::cast_possible_truncation)]
    Some(double as i64)
}

/// Whether a number lies beyond a bound, in the direction of `beyond`. Whole numbers are compared exactly.
fn exceeds(number: &Number, bound: f64, exclusive: bool, beyond: fn(&i128, &i128) -> bool) -> bool {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    if let Some(whole) = whole.filter(|_| bound.fract() == 0.0 && bound.abs() < 1e30) {
        #[allow(clippy::cast_possible_truncation)]
        let bound = bound as i128;
        return beyond(&whole, &bound) || (exclusive && whole == bound);
    }
    let Some(double) = number.as_f64() else { return false };
    let (a, b) = if double < bound { (0, 1) } else { (1, 0) };
    if double == bound { exclusive } else { beyond(&a, &b) }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    if factor <= 0.0 {
        return false;
    }
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    if let Some(whole) = whole.filter(|_| factor.fract() == 0.0 && factor < 1e30) {
        #[allow(clippy::cast_possible_truncation)]
        return whole % (factor as i128) == 0;
    }
    let Some(double) = number.as_f64() else { return true };
    let times = if factor < 1.0 { 1.0 / factor * double } else { double / factor };
    (times - times.round()).abs() < 1e-9
}
