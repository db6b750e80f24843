//! YAML as kubectl's users write it: YAML 1.1 scalars, bounded expansion of anchors, then JSON.

use meta::ApiError;
use meta::stored::DEPTH_MAX;
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, options};

/// Reads one document. A body that is JSON, as clients mostly send under a YAML media type, takes the short way.
/// The second part names duplicate keys.
pub fn decode(bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(decoded) = schema::json::decode(bytes)
    {
        return Ok((decoded.value, decoded.duplicates));
    }
    let refuse = |error: String| ApiError::bad_request(format!("error converting YAML to JSON: {error}"));
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("yaml: invalid UTF-8".to_owned()))?;
    match read(text, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok((value, Vec::new())),
        // Either broken or a duplicate key: reading again with the last one winning tells which.
        Err(strict) => match read(text, DuplicateKeyPolicy::LastWins) {
            Ok(value) => Ok((value, vec![duplicate(&strict)])),
            Err(error) => Err(refuse(first_line(&error))),
        },
    }
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    let options = options! { legacy_octal_numbers: true, duplicate_keys: duplicate_keys };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    match meta::stored::is_within(&value, DEPTH_MAX) {
        true => Ok(integral(value)),
        false => Err("exceeded max depth".to_owned()),
    }
}

/// `1.0` and `1e3` are whole numbers, as Go writes them into JSON.
fn integral(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => Value::from(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(integral).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, integral(value))).collect(),
        other => other,
    }
}

/// The complaint about a duplicate key, in the words of Go's decoder, which clients look for.
fn duplicate(error: &str) -> String {
    let error = first_line(error);
    let parts = error.strip_prefix("error: ").unwrap_or(&error).split_once(": duplicate mapping key: ");
    let Some((place, key)) = parts else { return error };
    let line = place.split_whitespace().nth(1).unwrap_or("?");
    let key = key.split(", set ").next().unwrap_or(key);
    format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_with_their_line() {
        let (value, duplicates) = decode(b"\nspec:\n  foo: a\n  foo: b\n").expect("YAML");
        assert_eq!(value["spec"]["foo"], "b");
        assert_eq!(duplicates, ["yaml: unmarshal errors:\n  line 4: key \"foo\" already set in map"]);
    }
}
