//! How two values differ, for people: the fields that are not the same, old and new, one a line.

use std::fmt::Write;

use serde_json::Value;

use crate::check::same;

/// Lines shown at most: the text stands in an error that clients print as it is.
const LINES_MAX: usize = 32;

/// The fields in which `new` differs from `old`, as `path: old -> new` lines; empty when they mean the same.
pub(crate) fn difference(old: &Value, new: &Value) -> String {
    let mut lines = Vec::new();
    collect("", old, new, &mut lines);
    let surplus = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let mut text: String = lines.into_iter().fold(String::new(), |mut text, line| {
        // Writing to a string cannot fail.
        _ = writeln!(text, "  {line}");
        text
    });
    if surplus > 0 {
        text.push_str(&format!("  and {surplus} more\n"));
    }
    text
}

fn collect(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        _ if same(old, new) => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(&inner, &old[key], &new[key], lines);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                collect(&format!("{path}[{index}]"), &old[index], &new[index], lines);
            }
        }
        _ => lines.push(format!("{path}: {} -> {}", shown(old), shown(new))),
    }
}

fn shown(value: &Value) -> String {
    if value.is_null() { "<absent>".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_shown() {
        let old = json!({"a": 1, "b": {"c": ["x", "y"]}, "same": "s"});
        let new = json!({"b": {"c": ["x", "z"]}, "same": "s", "d": true});
        assert_eq!(difference(&old, &new), "  a: 1 -> <absent>\n  b.c[1]: \"y\" -> \"z\"\n  d: <absent> -> true\n");
        assert_eq!(difference(&old, &old), "");
        let many: Vec<i32> = (1..100).collect();
        assert!(difference(&json!({}), &json!({ "list": many })).lines().count() <= LINES_MAX + 1);
        let map: serde_json::Map<String, Value> = (1..100).map(|i| (format!("k{i}"), json!(i))).collect();
        assert!(difference(&json!({}), &Value::Object(map)).ends_with("and 67 more\n"));
    }
}
