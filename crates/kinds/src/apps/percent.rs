//! Amounts that are a number of pods or a share of them.

use meta::name;
use serde_json::Value;

use crate::check::{At, Faults, non_negative};

/// Checks an amount, if there is one.
pub(crate) fn check(at: &At, faults: &mut Faults) {
    match at.value {
        Value::String(text) if percent(text).is_none() => {
            let message = "a valid percent string must be a numeric string followed by an ending '%'";
            faults.push(at.invalid(name::regex_error(message, "[0-9]+%", &["1%", "93%"])));
        }
        _ => non_negative(at, faults),
    }
}

/// Checks that a share is not more than the whole.
pub(crate) fn at_most_whole(at: &At, faults: &mut Faults) {
    if percent(at.text()).is_some_and(|share| share > 100) {
        faults.push(at.invalid("must not be greater than 100%"));
    }
}

/// Whether the amount comes to nothing.
pub(crate) fn is_zero(at: &At) -> bool {
    match at.value {
        Value::String(text) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0) == 0,
        _ => at.number() == 0,
    }
}

/// `25%` as 25. Shares beyond what 64 bits can say count as the largest.
fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u64::MAX))
}
