//! Fields that hold a number or text: ports by number or name, counts or percentages.

use serde_json::Value;

use crate::{FieldError, FieldPath, name};

const PERCENT_MSG: &str = "a valid percent string must be a numeric string followed by an ending '%'";

/// A number or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// Text.
    Text(String),
}

impl IntOrString {
    /// Reads text: a number if it is one.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Int)
    }

    /// Reads a field; `None` unless it is text or a 32-bit whole number.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.clone())),
            other => other.as_i64().and_then(|number| i32::try_from(number).ok()).map(Self::Int),
        }
    }
}

impl From<IntOrString> for Value {
    fn from(value: IntOrString) -> Self {
        match value {
            IntOrString::Int(number) => number.into(),
            IntOrString::Text(text) => text.into(),
        }
    }
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Whether the text is digits and a `%`.
pub fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The faults of a percentage, in upstream's words.
pub fn percent(text: &str) -> Vec<String> {
    if is_percent(text) {
        return Vec::new();
    }
    vec![name::regex_error(PERCENT_MSG, "[0-9]+%", &["1%", "93%"])]
}

/// The number that a count or percentage of `total` comes to. The error is upstream's sentence.
pub fn scaled_value(value: &Value, total: i64, round_up: bool) -> Result<i64, String> {
    let text = match value {
        Value::Null => return Err("nil value for IntOrString".to_owned()),
        Value::String(text) => text,
        other => {
            let neither = "invalid value for IntOrString: invalid type: neither int nor percentage";
            return other.as_i64().ok_or_else(|| neither.to_owned());
        }
    };
    let digits =
        text.strip_suffix('%').ok_or("invalid value for IntOrString: invalid type: string is not a percentage")?;
    let share: i64 = digits.parse().map_err(|error: std::num::ParseIntError| {
        format!("invalid value for IntOrString: invalid value {text:?}: {}", go_error(digits, error.kind()))
    })?;
    // In floating point as upstream does, so that roundings agree.
    let exact = share as f64 * total as f64 / 100.0;
    Ok(if round_up { exact.ceil() } else { exact.floor() } as i64)
}

/// The number, or the percentage's number: what tells whether both of two limits are zero. 0 for other text.
pub fn plain_value(value: &Value) -> i64 {
    match value {
        Value::String(text) if is_percent(text) => text.trim_end_matches('%').parse().unwrap_or(i64::MAX),
        Value::String(text) => text.parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

/// Checks that the field is a number of at least 0 or a percentage.
pub fn validate_count_or_percent(value: &Value, path: &FieldPath<'_>) -> Vec<FieldError> {
    match value {
        Value::String(text) => {
            percent(text).into_iter().map(|fault| FieldError::invalid(path, value.clone(), fault)).collect()
        }
        other => match other.as_i64() {
            Some(number) if number >= 0 => Vec::new(),
            Some(_) => vec![FieldError::invalid(path, value.clone(), "must be greater than or equal to 0")],
            // Upstream doubles the sign.
            None => vec![FieldError::invalid(path, value.clone(), "must be an integer or percentage (e.g '5%%')")],
        },
    }
}

/// Checks that the field, if it is a percentage, is at most 100.
pub fn validate_at_most_100_percent(value: &Value, path: &FieldPath<'_>) -> Vec<FieldError> {
    if value.as_str().is_some_and(is_percent) && plain_value(value) > 100 {
        return vec![FieldError::invalid(path, value.clone(), "must not be greater than 100%")];
    }
    Vec::new()
}

/// What Go's `strconv.Atoi` says.
fn go_error(digits: &str, kind: &std::num::IntErrorKind) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let fault = if matches!(kind, PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
    format!("strconv.Atoi: parsing {digits:?}: {fault}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn text_and_numbers_are_read() {
        assert_eq!(IntOrString::parse("80"), IntOrString::Int(80));
        assert_eq!(IntOrString::parse("http"), IntOrString::Text("http".to_owned()));
        assert_eq!(IntOrString::parse("4294967296"), IntOrString::Text("4294967296".to_owned()));
        assert_eq!(IntOrString::from_value(&json!("80")), Some(IntOrString::Text("80".to_owned())));
        assert_eq!(IntOrString::from_value(&json!(80)).map(Value::from), Some(json!(80)));
        for bad in [json!(null), json!(1.5), json!(4_294_967_296_i64), json!([])] {
            assert_eq!(IntOrString::from_value(&bad), None);
        }
    }

    #[test]
    fn values_scale() {
        let check = |value: Value, total, round_up, expected| {
            assert_eq!(scaled_value(&value, total, round_up), Ok(expected), "{value} of {total}");
        };
        check(json!(123), 3, true, 123);
        check(json!("90%"), 100, true, 90);
        check(json!("90%"), 95, true, 86);
        check(json!("90%"), 95, false, 85);
        check(json!("25%"), 3, true, 1);
        check(json!("25%"), 3, false, 0);
        check(json!("0%"), 7, true, 0);
        check(json!("150%"), 2, true, 3);
        let refuse = |value: Value, error: &str| assert_eq!(scaled_value(&value, 1, true), Err(error.to_owned()));
        refuse(json!(null), "nil value for IntOrString");
        refuse(json!("8"), "invalid value for IntOrString: invalid type: string is not a percentage");
        refuse(
            json!("a%"),
            "invalid value for IntOrString: invalid value \"a%\": strconv.Atoi: parsing \"a\": invalid syntax",
        );
        refuse(
            json!("9223372036854775808%"),
            "invalid value for IntOrString: invalid value \"9223372036854775808%\": strconv.Atoi: parsing \
             \"9223372036854775808\": value out of range",
        );
    }

    #[test]
    fn counts_and_percentages_are_checked() {
        let check = |value: Value, expected: &[&str]| {
            let path = FieldPath::ROOT.field("maxSurge");
            let mut errors = validate_count_or_percent(&value, &path);
            errors.extend(validate_at_most_100_percent(&value, &path));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!("100%"), &[]);
        check(json!(5), &[]);
        check(json!(-1), &["maxSurge: Invalid value: -1: must be greater than or equal to 0"]);
        check(json!("101%"), &["maxSurge: Invalid value: \"101%\": must not be greater than 100%"]);
        check(
            json!("-1%"),
            &["maxSurge: Invalid value: \"-1%\": a valid percent string must be a numeric string followed by an \
               ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"],
        );
        assert_eq!([json!("3%"), json!(4), json!("x")].map(|v| plain_value(&v)), [3, 4, 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}%?", total: i64, up: bool) {
            let _ = scaled_value(&json!(text), total, up);
            let _ = (percent(&text), plain_value(&json!(text)));
        }
    }
}
