//! Values as Go's `fmt` prints them, because upstream's error messages hold such prints.

use serde_json::{Number, Value};

/// `%v`: `map[a:1 b:[x y]]`, `<nil>`, texts without quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => self::number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => list(items),
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, item)| format!("{key}:{}", plain(item))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// JSON as Go's encoder writes it, which escapes what HTML could misread.
pub fn json(value: &Value) -> String {
    let mut text = value.to_string();
    for (plain, code) in
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")]
    {
        if text.contains(plain) {
            text = text.replace(plain, code);
        }
    }
    text
}

/// `%v` of a list: `[a b]`.
pub fn list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" "))
}

/// `%#v`: as a Go literal.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map.iter().map(|(key, item)| format!("{key:?}:{}", literal(item))).collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// `%T`: the Go type that a JSON value decodes to.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// How `encoding/json` names the kind of a JSON value in its errors.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A number in `%v`: shortest form, exponent below 1e-4 and from 1e21.
pub fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => self::float(float),
        _ => number.to_string(),
    }
}

fn float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{float:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) => format!("{digits}e{}", padded(exponent)),
            None => text,
        };
    }
    format!("{float}")
}

fn padded(exponent: &str) -> String {
    match exponent.strip_prefix('-') {
        Some(digits) => format!("-{digits:0>2}"),
        None => format!("+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_like_go() {
        let check = |value: Value, text: &str| assert_eq!(plain(&value), text);
        check(json!({"b": [1, "x", null], "a": true}), "map[a:true b:[1 x <nil>]]");
        check(json!(1e21), "1e+21");
        check(json!(1.5e-7), "1.5e-07");
        check(json!(100000.0), "100000");
        check(json!(0.25), "0.25");
        assert_eq!(literal(&json!({"a": "b"})), "map[string]interface {}{\"a\":\"b\"}");
    }
}
